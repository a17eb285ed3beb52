"""Models on one spine, neuraloperator's behind the same interface, wrappers, files and a contract check."""

from sciops.models.apply import apply_model
from sciops.models.check import CheckTable, check_operator
from sciops.models.images import (
    Classifier,
    HuggingFaceClassifier,
    SwinReport,
    classifier_arms,
    load_swin_weights,
    match_parameters,
    swin_options,
)
from sciops.models.onnx import OnnxFile, export_onnx
from sciops.models.operators import fno, hybrid, mano
from sciops.models.orthogonal import (
    OrthogonalConvolution,
    OrthogonalNet,
    UnitarySpectral,
    bjorck,
    orthogonality_defect,
    orthogonalize_,
    polar,
)
from sciops.models.persistence import load_model, read_config, save_model
from sciops.models.registry import MODELS, build_model, model_from_config
from sciops.models.sequences import (
    EncoderDecoder,
    Generated,
    LanguageModel,
    Recurrent,
    SequenceStack,
    SpeechEncoder,
    SpeechRecognizer,
    beam_search,
    forecast,
    generate,
)
from sciops.models.solvers import Corrector, EffectiveCoefficient
from sciops.models.spine import Operator
from sciops.models.wrappers import Latent, Normalized, Stepper, SymmetryAveraged

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
