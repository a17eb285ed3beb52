"""Image classifiers, and Swin weights for them."""

from sciops.models.images.arms import classifier_arms, match_parameters
from sciops.models.images.classifier import Classifier, ClassifierOptions
from sciops.models.images.huggingface import HuggingFaceClassifier, SwinV2Options, ViTOptions
from sciops.models.images.stages import PatchEmbedding, PatchMerging, SinCosPosition, Stage
from sciops.models.images.swin_weights import SwinReport, load_swin_weights, swin_options
