"""The command that makes speech: one file, made once, that says what it holds."""

from dataclasses import replace

import numpy as np
import pytest

from data_gen import speech as command
from sciops.datasets import speech

CONFIG = command.SpeechConfig(family="tones", text="python", sentences=6, longest=30)


def test_tones_need_no_program_and_are_made_once(tmp_path, capsys):
    config = replace(CONFIG, output=tmp_path / "a.safetensors")
    first = command.run(config)
    assert f"12 recordings, {first.seconds / 60:.1f} min at 16000 Hz, 6 sentences" in capsys.readouterr().out
    before = config.output.stat().st_mtime_ns
    assert command.run(config).hash() == first.hash() and config.output.stat().st_mtime_ns == before
    with pytest.raises(ValueError, match="other values of seed|other values of sentences"):
        command.run(replace(config, seed=1))


def test_noise_is_laid_over_the_clean_corpus(tmp_path):
    config = replace(CONFIG, output=tmp_path / "noisy.safetensors", snr=10.0, noise="pink")
    got = command.run(config)
    clean = speech.load_corpus(tmp_path / "noisy_clean.safetensors")
    for i in (0, 7):
        noise = got[i].audio - clean[i].audio
        ratio = 10 * np.log10((clean[i].audio ** 2).sum() / (noise**2).sum())
        assert ratio == pytest.approx(10, abs=0.05)  # 16 bits
    assert command.run(config).hash() == got.hash() and got.about["noise"]["snr"] == 10


def test_a_text_that_changed_is_not_read_back_as_it_was(tmp_path):
    text = tmp_path / "words.txt"
    text.write_text("a first sentence to be said. and here is a second one")
    config = replace(CONFIG, text=str(text), sentences=2, snr=20.0, output=tmp_path / "noisy.safetensors")
    command.run(config)
    text.write_text("a third sentence to be said. and here is a fourth one")
    with pytest.raises(ValueError, match="noisy.safetensors says other sentences: .*words.txt has changed; remove it"):
        command.run(config)


def test_what_is_missing_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command.espeak, "library_path", lambda: None)
    monkeypatch.setattr(command.flite.shutil, "which", lambda name: None)
    assert command.run(replace(CONFIG, installed=True)) == {"espeak-ng": None, "flite": None}
    said = capsys.readouterr().out
    assert "apt-get install espeak-ng" in said and "apt-get install flite" in said
    with pytest.raises(FileNotFoundError, match="apt-get install espeak-ng"):
        command.run(replace(CONFIG, family="espeak", output=tmp_path / "b"))
    with pytest.raises(FileNotFoundError, match="--text nowhere.txt"):
        command.run(replace(CONFIG, text="nowhere.txt"))


@pytest.mark.parametrize("family", ["espeak", "flite"])
def test_synthesisers_say_the_sentences(family, tmp_path):
    if getattr(command, family).installed() is None:
        pytest.skip(f"{family} is not installed")
    corpus = command.run(replace(CONFIG, family=family, sentences=3, output=tmp_path / "c"))
    assert len(corpus) == {"espeak": 6, "flite": 12}[family] and len(set(corpus.sentences)) == 3
    assert all(
        5 < len(corpus[i].phonemes) < 60 and 0.5 < len(corpus[i].audio) / corpus.sample_rate < 8 for i in range(3)
    )
