"""Image classifiers, and Swin weights for them."""

from sciops.models.images.arms import classifier_arms, match_parameters
from sciops.models.images.classifier import Classifier, ClassifierOptions
from sciops.models.images.huggingface import HuggingFaceClassifier, SwinV2Options, ViTOptions
from sciops.models.images.stages import PatchEmbedding, PatchMerging, SinCosPosition, Stage
from sciops.models.images.swin_weights import SwinReport, load_swin_weights, swin_options

__all__ = [
    "Classifier",
    "ClassifierOptions",
    "HuggingFaceClassifier",
    "PatchEmbedding",
    "PatchMerging",
    "SinCosPosition",
    "Stage",
    "SwinReport",
    "SwinV2Options",
    "ViTOptions",
    "classifier_arms",
    "load_swin_weights",
    "match_parameters",
    "swin_options",
]
