"""Models on one spine, neuraloperator's behind the same door, wrappers, files and a contract check."""

from sciops.models.apply import apply_model
from sciops.models.check import CheckTable, check_operator
from sciops.models.classifier import Classifier, classifier_arms, match_parameters
from sciops.models.corrector import Corrector
from sciops.models.effective_coefficient import EffectiveCoefficient
from sciops.models.encoder_decoder import EncoderDecoder
from sciops.models.fno import fno
from sciops.models.generation import Generated, beam_search, generate
from sciops.models.huggingface import HuggingFaceClassifier
from sciops.models.hybrid import hybrid
from sciops.models.language import LanguageModel
from sciops.models.latent import Latent
from sciops.models.mano import mano
from sciops.models.normalized import Normalized
from sciops.models.onnx_files import OnnxFile, export_onnx
from sciops.models.operator import Operator
from sciops.models.orthogonal import OrthogonalNet
from sciops.models.orthogonal_layers import OrthogonalConvolution, UnitarySpectral
from sciops.models.orthogonal_matrices import bjorck, polar
from sciops.models.orthogonality import orthogonality_defect, orthogonalize_
from sciops.models.persistence import load_model, read_config, save_model
from sciops.models.recurrent import Recurrent, forecast
from sciops.models.registry import MODELS, build_model, model_from_config
from sciops.models.sequence import SequenceStack
from sciops.models.speech import SpeechEncoder, SpeechRecognizer
from sciops.models.stepper import Stepper
from sciops.models.swin_weights import SwinReport, load_swin_weights, swin_options
from sciops.models.symmetry import SymmetryAveraged

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
