"""Recordings in files: the samples that went in come out, damaged ones are refused, folders have texts for all."""

import os
import struct
import sys

import numpy as np
import pytest
from scipy.io import wavfile

from sciops import Budget
from sciops.datasets import speech
from sciops.files.budget import OverBudget, opening_within

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


def _wav(path, values, rate=8000):
    path.parent.mkdir(parents=True, exist_ok=True)
    wavfile.write(path, rate, values)
    return path


def test_wav_files_of_every_kind(tmp_path):
    wave = np.sin(np.arange(400) / 5.0)
    kinds = [(wave * 32767).astype(np.int16), (wave * 2**31 * 0.99).astype(np.int32), wave.astype(np.float32)]
    kinds.append((wave * 127 + 128).astype(np.uint8))
    for i, values in enumerate(kinds):
        audio, rate = speech.read_audio(_wav(tmp_path / f"{i}.wav", values))
        assert rate == 8000 and audio.dtype == np.float32 and np.abs(audio - wave).max() < 0.02
    stereo = np.stack([kinds[0], np.zeros_like(kinds[0])], 1)
    audio, _ = speech.read_wav(_wav(tmp_path / "stereo.wav", stereo))
    assert np.abs(audio - wave / 2).max() < 1e-3
    good = (tmp_path / "0.wav").read_bytes()
    for name, content in (("cut", good[:300]), ("head", good[:20]), ("text", b"hello"), ("empty", b"")):
        (tmp_path / f"{name}.wav").write_bytes(content)
        with pytest.raises(ValueError, match=f"{name}.wav: "):
            speech.read_wav(tmp_path / f"{name}.wav")
    with pytest.raises(ValueError, match="not finite"):
        speech.read_wav(_wav(tmp_path / "nan.wav", np.full(9, np.nan, np.float32)))
    with pytest.raises(ValueError, match="none.wav: no samples"):
        speech.read_wav(_wav(tmp_path / "none.wav", np.zeros(0, np.int16)))


def test_folders_like_librispeech(tmp_path):
    wave = np.arange(100, dtype=np.int16)
    for speaker, chapter, number in ((19, 198, 0), (19, 198, 1), (26, 495, 0)):
        name = f"{speaker}-{chapter}-{number:04d}"
        _wav(tmp_path / str(speaker) / str(chapter) / f"{name}.wav", wave + number)
    first, second = tmp_path / "19/198/19-198.trans.txt", tmp_path / "26/495/26-495.trans.txt"
    first.write_text("19-198-0000 NORTHANGER ABBEY\n19-198-0001 THIS LITTLE WORK\n")
    second.write_text("26-495-0000 IT'S A BARGAIN\n")
    files = speech.read_librispeech(tmp_path)
    assert files.texts == ("northanger abbey", "this little work", "it's a bargain")
    assert files.speakers == ("19", "19", "26") and (files[1].audio * 32768 == wave + 1).all()
    assert {files.speakers[i] for i in speech.split(files, by=("speaker",), validation=0, test=0.5)["test"]} < {
        "19",
        "26",
    }
    first.write_text("19-198-0000 NORTHANGER ABBEY\n")
    with pytest.raises(ValueError, match="19-198-0001.wav has no text"):
        speech.read_librispeech(tmp_path)
    first.write_text("19-198-0000 A\n19-198-0001 B\n19-198-0002 C\n")
    with pytest.raises(ValueError, match="no recording 19-198-0002"):
        speech.read_librispeech(tmp_path)
    first.write_text("19-198-0000 A\n19-198-0001\n")
    with pytest.raises(ValueError, match="line 2 has no text"):
        speech.read_librispeech(tmp_path)
    with pytest.raises(ValueError, match="holds no speaker/chapter"):
        speech.read_librispeech(tmp_path / "19")
    with pytest.raises(FileNotFoundError, match="no such folder"):
        speech.read_librispeech(tmp_path / "none")


def test_flat_folders(tmp_path):
    _wav(tmp_path / "ann_1.wav", np.arange(9, dtype=np.int16))
    with pytest.raises(ValueError, match="ann_1.wav has no text"):
        speech.read_flat(tmp_path)
    (tmp_path / "ann_1.txt").write_text("Hello, World!\n")
    files = speech.read_flat(tmp_path)
    assert files[0].text == "hello world" and files[0].speaker == "ann"
    _wav(tmp_path / "Cy-2.WAV", np.arange(7, dtype=np.int16))
    (tmp_path / "Cy-2.txt").write_text("loud")
    files = speech.read_flat(tmp_path)
    assert set(files.speakers) == {"ann", "Cy"} and len(files[files.texts.index("loud")].audio) == 7
    (tmp_path / "bob.txt").write_text("alone")
    with pytest.raises(ValueError, match="bob.txt has no recording"):
        speech.read_flat(tmp_path)


def flac(path, samples: int, channels: int = 8, held: bytes = b""):
    """A FLAC file whose header states `samples` of each channel, of 16 bits at 8 kHz."""
    packed = (8000 << 44) | (channels - 1) << 41 | 15 << 36 | samples
    info = struct.pack(">HH", 4096, 4096) + bytes(6) + packed.to_bytes(8, "big") + bytes(16)
    path.write_bytes(b"fLaC\x80" + len(info).to_bytes(3, "big") + info + held)
    return path


def test_a_recording_is_refused_by_the_samples_in_its_header(tmp_path, write):
    with pytest.raises(OverBudget, match=r"a.flac: 68719476735 samples of 8 channels takes 2\.47e\+12 bytes of memory"):
        speech.read_audio(flac(tmp_path / "a.flac", 2**36 - 1))
    with pytest.raises(ValueError, match="a.flac: not a recording that can be read"):
        speech.read_audio(flac(tmp_path / "a.flac", 1_000_000))
    silent = write("silent.flac", np.zeros(200_000), subtype="PCM_16")
    assert silent.stat().st_size < 20_000 and len(speech.read_audio(silent)[0]) == 200_000
    with pytest.raises(OverBudget, match="200000 samples of 1 channels takes 8e"):
        speech.read_audio(silent, budget=Budget(bytes=500_000))
    with opening_within(Budget(bytes=500_000)):
        files = speech.folders.SpeechFiles([silent], ["a"], ["b"])
    with pytest.raises(OverBudget):
        files[0]


def test_wav_files_count_what_is_made_of_them(tmp_path):
    path = _wav(tmp_path / "a.wav", np.zeros(50_000, np.uint8))
    with pytest.raises(OverBudget, match=r"a.wav: 50000 samples takes 2e\+05 bytes of memory"):
        speech.read_audio(path, budget=Budget(bytes=100_000))
    chunks = b"junk\0\0\0\0" * 120_000
    (tmp_path / "b.wav").write_bytes(b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks)
    with pytest.raises(OverBudget, match="its chunks takes"):
        speech.read_audio(tmp_path / "b.wav")


@pytest.mark.parametrize("name", ["a.wav", "a.flac"])
def test_pipes_are_not_opened(name, tmp_path):
    os.mkfifo(tmp_path / name)
    with pytest.raises(ValueError, match=f"{name} is not a regular file"):
        speech.read_audio(tmp_path / name)
