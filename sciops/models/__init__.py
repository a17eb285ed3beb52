"""Models on one spine, neuraloperator's behind the same door, wrappers, files and a contract check."""

from sciops.models.apply import apply_model
from sciops.models.check import CheckTable, check_operator
from sciops.models.images.classifier import Classifier, classifier_arms, match_parameters
from sciops.models.images.huggingface import HuggingFaceClassifier
from sciops.models.images.swin_weights import SwinReport, load_swin_weights, swin_options
from sciops.models.onnx.export import OnnxFile, export_onnx
from sciops.models.operators.fno import fno
from sciops.models.operators.hybrid import hybrid
from sciops.models.operators.mano import mano
from sciops.models.orthogonal import OrthogonalNet
from sciops.models.orthogonal.layers import OrthogonalConvolution, UnitarySpectral
from sciops.models.orthogonal.matrices import bjorck, polar
from sciops.models.orthogonal.projection import orthogonality_defect, orthogonalize_
from sciops.models.persistence import load_model, read_config, save_model
from sciops.models.registry import MODELS, build_model, model_from_config
from sciops.models.sequences.encoder_decoder import EncoderDecoder
from sciops.models.sequences.generation import Generated, beam_search, generate
from sciops.models.sequences.language import LanguageModel
from sciops.models.sequences.recurrent import Recurrent, forecast
from sciops.models.sequences.speech import SpeechEncoder, SpeechRecognizer
from sciops.models.sequences.stack import SequenceStack
from sciops.models.solvers.corrector import Corrector
from sciops.models.solvers.effective_coefficient import EffectiveCoefficient
from sciops.models.spine.operator import Operator
from sciops.models.wrappers.latent import Latent
from sciops.models.wrappers.normalized import Normalized
from sciops.models.wrappers.stepper import Stepper
from sciops.models.wrappers.symmetry import SymmetryAveraged

__all__ = [
    "MODELS",
    "CheckTable",
    "Classifier",
    "Corrector",
    "EffectiveCoefficient",
    "EncoderDecoder",
    "Generated",
    "HuggingFaceClassifier",
    "LanguageModel",
    "Latent",
    "Normalized",
    "OnnxFile",
    "Operator",
    "OrthogonalConvolution",
    "OrthogonalNet",
    "Recurrent",
    "SequenceStack",
    "SpeechEncoder",
    "SpeechRecognizer",
    "Stepper",
    "SwinReport",
    "SymmetryAveraged",
    "UnitarySpectral",
    "apply_model",
    "beam_search",
    "bjorck",
    "build_model",
    "check_operator",
    "classifier_arms",
    "export_onnx",
    "fno",
    "forecast",
    "generate",
    "hybrid",
    "load_model",
    "load_swin_weights",
    "mano",
    "match_parameters",
    "model_from_config",
    "orthogonality_defect",
    "orthogonalize_",
    "polar",
    "read_config",
    "save_model",
    "swin_options",
]
