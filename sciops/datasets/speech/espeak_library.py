"""The C library of espeak-ng by ctypes: one text in, samples and phoneme events out.

Run as a file, it says all of a plan from standard input, see `say_plan`, or prints the version with --version: a fresh
process that starts fast, for it imports nothing of sciops.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import sys
from pathlib import Path

import numpy as np

INSTALL = "apt-get install espeak-ng"
SAMPLE_RATE = 22_050
_SYNCHRONOUS, _PHONEME_EVENTS, _DO_NOT_EXIT = 2, 1, 0x8000
_END, _PHONEME = 0, 7
_RATE, _PITCH, _UTF8 = 1, 3, 1


class _Event(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("name", ctypes.c_char * 8),
    ]


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))


def library_path() -> str | None:
    """Name of the shared library; None where it is not installed."""
    return ctypes.util.find_library("espeak-ng")


class Espeak:
    """espeak-ng in this process: ``say(text) → samples (n,) int16 at 22 050 Hz, [(first sample, mnemonic), …]``.

    The library keeps state between calls, noise among it: the n-th call of a fresh process gives the same samples every
    time, the same call later does not. One a process. Raises FileNotFoundError where it is not installed.
    """

    def __init__(self) -> None:
        name = library_path()
        if name is None:
            raise FileNotFoundError(f"the library of espeak-ng is not here: {INSTALL}")
        self._library = library = ctypes.CDLL(name)
        library.espeak_Info.restype = ctypes.c_char_p
        rate = library.espeak_Initialize(_SYNCHRONOUS, 0, None, _PHONEME_EVENTS | _DO_NOT_EXIT)
        if rate != SAMPLE_RATE:
            raise RuntimeError(f"espeak-ng starts with {rate} instead of {SAMPLE_RATE} Hz: {INSTALL} with its data")
        data = ctypes.c_char_p()
        self.version = library.espeak_Info(ctypes.byref(data)).decode()
        self._data = Path((data.value or b"").decode())
        self._samples: list[bytes] = []
        self._phonemes: list[tuple[int, str]] = []
        self._callback = _CALLBACK(self._receive)  # kept: the library holds a bare pointer
        library.espeak_SetSynthCallback(self._callback)

    def variants(self) -> tuple[str, ...]:
        """Voice variants that are installed, those that imitate something odd included."""
        return tuple(sorted(path.name for path in (self._data / "voices" / "!v").glob("*")))

    def set_voice(self, accent: str, variant: str, *, rate: int, pitch: int) -> None:
        """accent : the voice's file, gmw/en-US. rate : words a minute. pitch : 0 to 99.

        Raises ValueError for an accent or variant that is not installed; espeak-ng itself would speak on without one.
        """
        installed = self.variants()
        if installed and variant not in installed:
            raise ValueError(f"voice {variant!r} is not installed: expected one of {', '.join(installed)}")
        if self._library.espeak_SetVoiceByName(f"{accent}+{variant}".encode()):
            raise ValueError(f"accent {accent!r}: espeak-ng has none; expected a voice's file, such as gmw/en-US")
        for parameter, value in ((_RATE, rate), (_PITCH, pitch)):
            self._library.espeak_SetParameter(parameter, int(value), 0)

    def say(self, text: str) -> tuple[np.ndarray, list[tuple[int, str]]]:
        self._samples.clear()
        self._phonemes.clear()
        given = text.encode()
        failed = (
            self._library.espeak_Synth(
                given,
                ctypes.c_size_t(len(given) + 1),
                ctypes.c_uint(0),
                1,
                ctypes.c_uint(0),
                ctypes.c_uint(_UTF8),
                None,
                None,
            )
            or self._library.espeak_Synchronize()
        )
        if failed:
            raise RuntimeError(f"espeak-ng cannot say {text!r} (code {failed})")
        return np.frombuffer(b"".join(self._samples), np.int16), list(self._phonemes)

    def _receive(self, samples, count, events) -> int:
        if samples and count > 0:
            self._samples.append(ctypes.string_at(samples, 2 * count))
        i = 0
        while events[i].type != _END:
            if events[i].type == _PHONEME and events[i].name:
                self._phonemes.append((events[i].sample, events[i].name.decode("utf-8", "replace")))
            i += 1
        return 0


def say_plan(plan: list[list], output: str) -> None:
    """Says every [text, accent, voice, rate, pitch] in order, and writes an npz file: audio and its ends, starts of
    phonemes, their ends by text, and the mnemonics with the version as bytes of JSON.

    Raises ValueError for voices that are not there and texts that make no sound.
    """
    engine = Espeak()
    audio, events = [], []
    for text, accent, voice, rate, pitch in plan:
        engine.set_voice(accent, voice, rate=rate, pitch=pitch)
        samples, said = engine.say(text)
        if not len(samples) or not said:
            raise ValueError(f"espeak-ng says nothing for {text!r}: leave the sentence out")
        audio.append(samples)
        events.append(said)
    named = {"version": engine.version, "phonemes": [name for said in events for _, name in said]}
    np.savez(
        output,
        audio=np.concatenate(audio),
        ends=np.cumsum([len(samples) for samples in audio]),
        starts=np.array([start for said in events for start, _ in said], np.int64),
        phoneme_ends=np.cumsum([len(said) for said in events]),
        named=np.frombuffer(json.dumps(named).encode(), np.uint8),
    )


if __name__ == "__main__":
    try:
        if "--version" in sys.argv:
            print(Espeak().version)
        else:
            _given = json.load(sys.stdin)
            say_plan(_given["plan"], _given["output"])
    except (ValueError, FileNotFoundError, RuntimeError) as _error:
        print(_error, file=sys.stderr)
        sys.exit(3 if isinstance(_error, ValueError) else 1)
