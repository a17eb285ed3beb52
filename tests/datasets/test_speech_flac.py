"""FLAC files: the samples that went in come out, damaged ones are refused, folders of them are read."""

import sys

import numpy as np
import pytest

from sciops.datasets import speech

WAVE = 0.1 * np.random.default_rng(0).standard_normal(12_000)


@pytest.fixture
def write(tmp_path):
    try:
        import soundfile
    except (ImportError, OSError):
        pytest.skip("soundfile is not installed, or its C library")

    def written(name, samples, **options):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, samples, 16_000, **options)
        return path

    return written


@pytest.mark.parametrize("bits", [16, 24])
def test_samples_come_back_to_their_last_bit(bits, write):
    whole = np.rint(WAVE * 2 ** (bits - 1)).astype(np.int32)
    audio, rate = speech.read_audio(write("a.flac", whole << (32 - bits), subtype=f"PCM_{bits}"))
    assert rate == 16_000 and audio.dtype == np.float32 and audio.flags.c_contiguous
    assert (audio.astype(np.float64) * 2 ** (bits - 1) == whole).all()  # 24 bits fit in float32
    again, _ = speech.read_wav(write("a.wav", whole << (32 - bits), subtype=f"PCM_{bits}"))
    assert (again == audio).all()


def test_channels_are_averaged(write):
    left = np.rint(WAVE * 2**15).astype(np.int16)
    right = np.roll(left, 5)
    audio, _ = speech.read_audio(write("stereo.flac", np.stack([left, right], 1)))
    assert (audio * 65536 == left.astype(int) + right).all()


def test_a_file_that_is_not_whole_is_refused(write, tmp_path):
    content = write("a.flac", WAVE, subtype="PCM_16").read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    # a FLAC frame begins with the bits 11111111 111110: cuts between frames leave whole frames before them
    frames = [i for i in range(43, len(content)) if content[i] == 0xFF and content[i + 1 : i + 2] in (b"\xf8", b"\xf9")]
    assert len(frames) >= 2
    cuts = [0, 4, 60, len(content) // 2, len(content) - 1, *frames]
    for i, part in enumerate([flipped, *(content[:cut] for cut in cuts)]):
        (tmp_path / f"{i}.flac").write_bytes(part)
        with pytest.raises(ValueError, match=f"{i}.flac: not a recording that can be read .*remove or replace it$"):
            speech.read_audio(tmp_path / f"{i}.flac")


def test_a_missing_file_and_a_missing_library_are_told_apart(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="none.flac: no such file"):
        speech.read_audio(tmp_path / "none.flac")
    monkeypatch.setitem(sys.modules, "soundfile", None)
    (tmp_path / "a.flac").write_bytes(b"fLaC")
    with pytest.raises(ImportError, match=r"a.flac: files of .flac need soundfile: pip install 'sciops\[speech\]'"):
        speech.read_audio(tmp_path / "a.flac")


def test_librispeech_as_it_is_unpacked(write, tmp_path):
    for i in range(2):
        write(f"dev/84/121123/84-121123-000{i}.flac", np.roll(WAVE, i), subtype="PCM_16")
    (tmp_path / "dev/84/121123/84-121123.trans.txt").write_text("84-121123-0000 GO\n84-121123-0001 DO YOU HEAR\n")
    files = speech.read_librispeech(tmp_path / "dev")
    assert [path.suffix for path in files.paths] == [".flac"] * 2 and files[1].text == "do you hear"
    assert files[0].speaker == "84" and files[0].sample_rate == 16_000
    assert np.abs(files[1].audio - np.roll(WAVE, 1)).max() < 1 / 32768
