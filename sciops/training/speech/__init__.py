"""Training of speech models: BEST-RQ pre-training, CTC fine-tuning, decoding of whole sets and error rates."""

from __future__ import annotations

from sciops.training.speech.ctc import ctc_loss, has_path
from sciops.training.speech.error_rates import character_error_rate, phoneme_error_rate, word_error_rate
from sciops.training.speech.fitting import (
    SpeechTraining,
    decoded,
    fine_tune,
    fit_steps,
    masked_accuracy,
    pretrain,
)
from sciops.training.speech.frames import LengthBatches, MelFrames, padded
from sciops.training.speech.masking import hidden, span_mask
from sciops.training.speech.pretraining import BestRQ
from sciops.training.speech.quantizer import RandomProjectionQuantizer, stacked

__all__ = [
    "BestRQ",
    "LengthBatches",
    "MelFrames",
    "RandomProjectionQuantizer",
    "SpeechTraining",
    "character_error_rate",
    "ctc_loss",
    "decoded",
    "fine_tune",
    "fit_steps",
    "has_path",
    "hidden",
    "masked_accuracy",
    "padded",
    "phoneme_error_rate",
    "pretrain",
    "span_mask",
    "stacked",
    "word_error_rate",
]
