"""Corpora of speech: what is stored is what was said, files are whole or refused, parts share nothing."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sciops.datasets import speech
from sciops.datasets.speech import espeak, flite
from sciops.datasets.speech.corpus import cached_corpus

SAID = ("the birch canoe slid", "glue the sheet", "a cat and a dog", "it is easy to tell", "rice in bowls", "one two")


@pytest.fixture(scope="module")
def tones():
    return speech.tones_corpus(speech.TonesConfig(SAID, speakers=4, each=3))


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    if espeak.installed() is None:
        pytest.skip("espeak-ng is not installed")
    config = speech.EspeakConfig(SAID, accents=("gmw/en-US", "gmw/en-029"), voices=("m1", "f2"), each=3)
    path = tmp_path_factory.mktemp("espeak") / "corpus.safetensors"
    return config, path, speech.espeak_corpus(config, path)


def test_items_are_what_was_joined():
    rng = np.random.default_rng(0)
    given = [
        speech.Utterance(rng.uniform(-1, 1, n).astype(np.float32), 8000, f"t{n}", f"s{n % 2}", f"t{n}", p, s)
        for n, p, s in (
            (50, ("a", "b"), np.array([0, 20])),
            (7, (), np.zeros(0, np.int64)),
            (31, ("b",), np.array([4])),
        )
    ]
    corpus = speech.joined(given, factors={"rate": [1, 2, 3]}, made_by="hand")
    assert len(corpus) == 3 and corpus.seconds == 88 / 8000 and corpus.about == {"made_by": "hand"}
    for one, got in zip(given, [corpus[0], corpus[1], corpus[-1]]):
        assert np.abs(one.audio - got.audio).max() <= 0.5 / 32768 + 1e-7
        assert got[1:6] == one[1:6] and (got.starts == one.starts).all()
    with pytest.raises(IndexError):
        corpus[3]
    with pytest.raises(ValueError, match="one sample rate"):
        speech.joined([given[0], given[1]._replace(sample_rate=16000)])
    with pytest.raises(ValueError, match="'rate' has 1 values for 3"):
        speech.joined(given, factors={"rate": [1]})
    with pytest.raises(ValueError, match="at least one"):
        speech.joined([])
    for wrong, said in (
        (dict(starts=np.array([0])), "utterance 1 has 2 phonemes and 1 starts"),
        (dict(audio=np.zeros((50, 2), np.float32)), r"utterance 1 has audio of shape \(50, 2\)"),
        (dict(audio=np.zeros(0, np.float32)), r"utterance 1 has audio of shape \(0,\)"),
        (dict(audio=np.full(50, np.nan)), "samples not finite"),
        (dict(audio=np.full(50, 2**20, np.int32)), "samples of int32"),
    ):
        with pytest.raises(ValueError, match=said):
            speech.joined([given[1], given[0]._replace(**wrong)])


def test_tones_follow_their_configuration(tones):
    again = speech.tones_corpus(speech.TonesConfig(SAID, speakers=4, each=3))
    other = speech.tones_corpus(speech.TonesConfig(SAID, speakers=4, each=3, seed=1))
    assert tones.hash() == again.hash() != other.hash()
    assert len(tones) == 18 and len(set(tones.speakers)) == 4
    one = tones[4]
    assert "".join(one.phonemes).replace("_", " ") == one.text and len(one.starts) == len(one.text)
    # a letter is louder than the silence between words
    ends = np.append(one.starts[1:], len(one.audio))
    loud = [np.sqrt(np.mean(one.audio[a:b] ** 2)) for a, b in zip(one.starts, ends)]
    silent = [v for v, p in zip(loud, one.phonemes) if p == "_"]
    assert max(silent) < 0.5 * min(v for v, p in zip(loud, one.phonemes) if p != "_")


def test_files_are_whole_or_refused(tones, tmp_path):
    path = speech.save_corpus(tones, tmp_path / "corpus.safetensors")
    read = speech.load_corpus(path)
    assert read.hash() == tones.hash() and read[5].text == tones[5].text and read.about == tones.about
    content = bytearray(path.read_bytes())
    content[-400] ^= 1
    (tmp_path / "flipped").write_bytes(content)
    (tmp_path / "short").write_bytes(content[: len(content) // 2])
    (tmp_path / "text").write_text("hello")
    for name, said in (("flipped", "changed since"), ("short", ""), ("text", "")):
        with pytest.raises(ValueError, match=f"not a whole speech corpus.*{said}"):
            speech.load_corpus(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="data_gen.speech"):
        speech.load_corpus(tmp_path / "none")


def test_any_bit_of_the_text_of_a_corpus_may_flip(tones, tmp_path):
    few = replace(speech.joined([tones[0], tones[1]], seed=0), audio=np.zeros(40, np.int16), ends=np.array([20, 40]))
    path, random = speech.save_corpus(few, tmp_path / "corpus.safetensors"), np.random.default_rng(0)
    content, refused = path.read_bytes(), 0
    text = int.from_bytes(content[:8], "little")
    for at in random.integers(8, 8 + text, size=150):
        flipped = bytearray(content)
        flipped[at] ^= 1 << int(random.integers(8))
        path.write_bytes(flipped)
        try:
            read = speech.load_corpus(path)
        except ValueError as error:
            refused += "\n" not in str(error)
        else:
            assert read.hash() == few.hash() and read.about == few.about
    assert refused > 140


def test_a_corpus_of_before_there_was_a_digest_is_read(tones, tmp_path):
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file

    path = speech.save_corpus(tones, tmp_path / "corpus.safetensors")
    with safe_open(path, "numpy") as file:
        header = file.metadata()
    del header["digest"]
    save_file(load_file(path), path, header | {"format": "sciops.speech.1"})
    assert speech.load_corpus(path).hash() == tones.hash()
    save_file(load_file(path), path, header | {"format": "sciops.speech.1", "hash": "0" * 64})
    with pytest.raises(ValueError, match="does not have the hash it was written with"):
        speech.load_corpus(path)


def test_a_cached_corpus_is_made_once(tones, tmp_path):
    made = []

    def make():
        made.append(1)
        return replace(tones, about={"made_by": {"seed": 0}})

    for _ in range(2):
        assert cached_corpus(tmp_path / "c", {"seed": 0}, make).hash() == tones.hash()
    assert len(made) == 1
    with pytest.raises(ValueError, match="other values of seed"):
        cached_corpus(tmp_path / "c", {"seed": 1}, make)

    def broken():
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        cached_corpus(tmp_path / "d", {}, broken)
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_resampling_keeps_a_tone_and_moves_the_phonemes():
    t = np.arange(16000) / 16000
    wave = (0.5 * np.sin(2 * np.pi * 440 * t)).astype(np.float32)
    corpus = speech.joined([speech.Utterance(wave, 16000, "a", "s", "a", ("a", "b"), np.array([0, 8000]))])
    half = speech.resampled(corpus, 8000)[0]
    expected = 0.5 * np.sin(2 * np.pi * 440 * np.arange(8000) / 8000)
    assert np.abs(half.audio - expected)[200:-200].max() < 2e-3  # 16 bits and the filter
    assert list(half.starts) == [0, 4000] and len(half.audio) == 8000
    both = speech.concatenated([corpus, corpus])
    assert len(both) == 2 and (both[1].audio == both[0].audio).all()


def test_parts_share_no_sentence_and_no_speaker(tones):
    parts = speech.split(tones, validation=0.2, test=0.2)
    said = [{tones.sentences[i] for i in part} for part in parts.values()]
    assert not (said[0] & said[1] or said[0] & said[2] or said[1] & said[2])
    assert sorted(np.concatenate(list(parts.values()))) == list(range(len(tones)))
    both = speech.split(tones, by=("sentence", "speaker"), validation=0, test=0.4, seed=2)
    assert len(both["validation"]) == 0 and len(both["test"])
    for names in (tones.sentences, tones.speakers):
        assert not {names[i] for i in both["train"]} & {names[i] for i in both["test"]}
    alone, named = (speech.split(tones, by=by, validation=0, test=0.4) for by in ("speaker", ("speaker",)))
    assert all((alone[part] == named[part]).all() for part in named)
    with pytest.raises(ValueError, match="by='accent'"):
        speech.split(tones, by=("accent",))
    with pytest.raises(ValueError, match="do not make 3 parts"):
        speech.split(speech.tones_corpus(speech.TonesConfig(SAID[:2], speakers=2)), validation=0.1, test=0.1)


def test_noise_has_the_ratio_asked_for():
    rng, audio = np.random.default_rng(0), np.sin(np.arange(8000) / 9.0)
    for kind in ("white", "pink"):
        noise = speech.add_noise(audio, 7.5, rng, kind=kind) - audio
        assert 10 * np.log10((audio**2).sum() / (noise**2).sum()) == pytest.approx(7.5, abs=1e-9)
        power = np.abs(np.fft.rfft(noise)) ** 2
        slope = np.log(power[2000:4000].mean() / power[200:400].mean()) / np.log(10)
        assert slope == pytest.approx({"white": 0, "pink": -1}[kind], abs=0.15)
    assert not speech.add_noise(np.zeros(5), 0.0, rng).any()
    with pytest.raises(ValueError, match="snr=nan"):
        speech.add_noise(audio, float("nan"), rng)


def test_sentences_are_pieces_of_the_text():
    text = (
        "“Don’t panic,” she said, and left at 7. He -- the old man -- stayed; no one else did, not even his 'dog'!" * 2
    )
    pieces = speech.sentences(text, 4, shortest=5, longest=22)
    assert len(set(pieces)) == 4 and all(5 <= len(p) <= 22 for p in pieces)
    assert set("".join(pieces)) <= set(speech.LETTERS)
    whole = speech.normalized(text)
    assert all(piece in whole for piece in pieces)
    assert pieces == speech.sentences(text, 4, shortest=5, longest=22)
    assert speech.normalized("rock 'n' roll's  “END”") == "rock n roll's end"
    with pytest.raises(ValueError, match="pieces of 5 to 22 characters, 99"):
        speech.sentences(text, 99, shortest=5, longest=22)


def test_a_missing_program_is_named_with_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(espeak, "library_path", lambda: None)
    monkeypatch.setattr(flite.shutil, "which", lambda name: None)
    with pytest.raises(FileNotFoundError, match="apt-get install espeak-ng"):
        speech.espeak_corpus(speech.EspeakConfig(SAID), tmp_path / "a")
    with pytest.raises(FileNotFoundError, match="apt-get install flite"):
        speech.flite_corpus(speech.FliteConfig(SAID), tmp_path / "b")
    assert espeak.installed() is None and flite.installed() is None and not list(tmp_path.iterdir())


def test_factors_are_balanced_and_novelties_refused():
    config = speech.EspeakConfig(SAID * 1, each=5)
    plan = espeak.design(config)
    everyone = [one[1:] for one in plan]
    assert len(plan) == 30 and len(set(plan)) == 30 and max(map(everyone.count, everyone)) == 1
    full = espeak.design(replace(config, each=None))
    assert len(full) == len(set(full)) == 6 * 4 * 4 * 2 * 2
    many = [one[1:] for one in espeak.design(replace(config, each=60))]
    assert {many.count(one) for one in many} <= {5, 6}
    for wrong in (
        dict(voices=("croak",)),
        dict(rates=(20,)),
        dict(pitches=()),
        dict(each=65),
        dict(voices=("m1", "m1")),
    ):
        with pytest.raises(ValueError):
            espeak.design(replace(config, **wrong))


def test_espeak_says_the_same_again(spoken, tmp_path):
    config, path, corpus = spoken
    assert speech.espeak_corpus(config, tmp_path / "again").hash() == corpus.hash()
    before = path.stat().st_mtime_ns
    assert speech.espeak_corpus(config, path).hash() == corpus.hash() and path.stat().st_mtime_ns == before
    with pytest.raises(ValueError, match="other values of rates"):
        speech.espeak_corpus(replace(config, rates=(170,)), path)
    with pytest.raises(ValueError, match="voice 'nobody' is not installed"):
        speech.espeak_corpus(replace(config, voices=("nobody",)), tmp_path / "n")
    with pytest.raises(ValueError, match="accent 'gmw/en-XX'"):
        speech.espeak_corpus(replace(config, accents=("gmw/en-XX",)), tmp_path / "n")


def test_espeak_knows_its_phonemes(spoken):
    _, _, corpus = spoken
    assert corpus.sample_rate == 22050 and len(corpus) == 18
    for i in range(len(corpus)):
        one = corpus[i]
        assert (np.diff(one.starts) >= 0).all() and 0 <= one.starts[0] and one.starts[-1] <= len(one.audio)
        assert 0.05 < np.abs(one.audio).max() <= 1 and len(one.phonemes) > 5
    factors = list(zip(corpus.speakers, *corpus.factors.values()))
    assert len(set(zip(corpus.sentences, factors))) == 18
    # the s of "glue the sheet" is S: energy high up, unlike its vowel
    i = corpus.sentences.index("glue the sheet")
    one = corpus[i]
    high = {}
    for name, a, b in zip(one.phonemes, one.starts, one.starts[1:]):
        if name in ("S", "i:"):
            power = np.abs(np.fft.rfft(one.audio[a:b])) ** 2
            high[name] = power[len(power) * 2 // 11 :].sum() / power.sum()  # above 2 kHz
    assert high["S"] > 0.5 > high["i:"]


def test_flite_says_phones_with_their_ends(tmp_path):
    if flite.installed() is None:
        pytest.skip("flite is not installed")
    config = speech.FliteConfig(SAID[:2], voices=("kal16", "slt"), pitches=(None, 140))
    corpus = speech.flite_corpus(config, tmp_path / "c", workers=2)
    assert len(corpus) == 8 and set(corpus.speakers) == {"kal", "slt"} and corpus.sample_rate == 16000
    one = corpus[0]
    assert one.phonemes[:5] == ("pau", "dh", "ax", "b", "er") and one.starts[0] == 0
    assert (np.diff(one.starts) > 0).all() and one.starts[-1] < len(one.audio)
    with pytest.raises(ValueError, match="voice 'awb_time': this flite has kal"):
        speech.flite_corpus(replace(config, voices=("awb_time",)), tmp_path / "d")
    assert json.loads(json.dumps(corpus.about))["made_by"]["program"] == "flite"
