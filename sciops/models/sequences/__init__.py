"""Models of text, speech and signals in time, and decoding from them."""

from sciops.models.sequences.ctc import beam_decode, collapse, greedy_decode
from sciops.models.sequences.encoder_decoder import EncoderDecoder, EncoderDecoderOptions
from sciops.models.sequences.generation import Generated, beam_search, generate
from sciops.models.sequences.language import LanguageModel, LanguageOptions
from sciops.models.sequences.log_mel import LogMel, RunningNorm
from sciops.models.sequences.recurrent import Recurrent, RecurrentOptions, forecast
from sciops.models.sequences.speech import (
    REDUCTION,
    SpeechEncoder,
    SpeechEncoderOptions,
    SpeechOptions,
    SpeechRecognizer,
)
from sciops.models.sequences.stack import SequenceBlock, SequenceStack, StackOptions
