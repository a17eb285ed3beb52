"""Models of text, speech and signals in time, and decoding from them."""

from sciops.models.sequences.ctc import beam_decode, collapse, greedy_decode
from sciops.models.sequences.encoder_decoder import EncoderDecoder
from sciops.models.sequences.generation import Generated, beam_search, generate
from sciops.models.sequences.language import LanguageModel
from sciops.models.sequences.log_mel import LogMel, RunningNorm
from sciops.models.sequences.recurrent import Recurrent, forecast
from sciops.models.sequences.speech import REDUCTION, SpeechEncoder, SpeechRecognizer
from sciops.models.sequences.stack import SequenceBlock, SequenceStack

__all__ = [
    "REDUCTION",
    "EncoderDecoder",
    "Generated",
    "LanguageModel",
    "LogMel",
    "Recurrent",
    "RunningNorm",
    "SequenceBlock",
    "SequenceStack",
    "SpeechEncoder",
    "SpeechRecognizer",
    "beam_decode",
    "beam_search",
    "collapse",
    "forecast",
    "generate",
    "greedy_decode",
]
