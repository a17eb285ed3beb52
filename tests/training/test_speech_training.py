"""BEST-RQ and CTC: losses against loops, nothing seen that is hidden, restarts that change nothing."""

import contextlib
import itertools
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from sciops.datasets.speech import TonesConfig, tones_corpus
from sciops.models.sequences.ctc import collapse
from sciops.models.sequences.speech import SpeechEncoder, SpeechRecognizer
from sciops.training import NonFiniteLoss, load_checkpoint, save_checkpoint, speech

SMALL = dict(depth=1, local=5, front_channels=3, bins=13, mixer="polynomial")


def encoder(seed=0, **options):
    torch.manual_seed(seed)
    return SpeechEncoder(out_channels=8, **{**SMALL, **options})


def frames(lengths=(37, 16, 25), bins=13, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(n, bins, generator=generator, dtype=torch.float64).to(dtype) for n in lengths]


def test_nothing_hidden_is_seen_and_targets_come_first():
    model = speech.BestRQ(encoder(), codes=16, code_channels=4).double().eval()
    mel, lengths = speech.padded(frames())
    with torch.no_grad():
        out = model(mel, lengths, torch.Generator().manual_seed(5))
    mask = speech.span_mask(lengths // 4, generator=torch.Generator().manual_seed(5))
    normal = model.encoder.normalize(mel, lengths)
    assert torch.equal(out.targets, model.quantizer(speech.stacked(normal, 4))[:, : mask.shape[1]][mask])
    loss = -out.logits.log_softmax(-1)[torch.arange(len(out.targets)), out.targets].mean()
    assert float(out.loss) == pytest.approx(float(loss), abs=1e-12)
    # other values where frames are hidden change the targets and nothing else
    spread = torch.nn.functional.pad(mask.repeat_interleave(4, 1), (0, 37 - 4 * mask.shape[1]))
    other = torch.where(spread[..., None], torch.randn_like(mel), mel)
    with torch.no_grad():
        again = model(other, lengths, torch.Generator().manual_seed(5))
    assert torch.equal(out.logits, again.logits) and not torch.equal(out.targets, again.targets)
    assert len(out.targets) == sum(round(0.6 * (n // 4)) for n in (37, 16, 25))


def test_ctc_is_the_sum_over_all_paths():
    logits = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    tokens, targets = torch.tensor([5, 4]), [[1, 1], [2, 1]]
    got = speech.ctc_loss(logits, tokens, targets)
    for i in range(2):
        log_p, total = logits[i].log_softmax(-1), 0.0
        for path in itertools.product(range(3), repeat=int(tokens[i])):
            if collapse(path) == targets[i]:
                total += float(torch.exp(sum(log_p[t, k] for t, k in enumerate(path))))
        assert float(got[i]) == pytest.approx(-np.log(total) / 2, abs=1e-12)
    with pytest.raises(ValueError, match="2 symbols needs 3 tokens, the recording has 2"):
        speech.ctc_loss(logits, torch.tensor([2, 4]), targets)
    for wrong in ([[0], [1]], [[3], [1]], [[], [1]]):
        with pytest.raises(ValueError, match="none of them 0"):
            speech.ctc_loss(logits, tokens, wrong)
    with pytest.raises(ValueError, match="1 targets for 2"):
        speech.ctc_loss(logits, tokens, [[1]])


def test_targets_without_a_path_are_refused_before_training():
    head, given = SpeechRecognizer(out_channels=4, width=8, **SMALL), frames((5, 9, 8), dtype=torch.float32)
    before, config = weights(head), speech.SpeechTraining(steps=3, batch=1)
    for targets, said in (
        ([[1, 2], [1, 1, 2], [1, 1]], r"targets\[1\] of 3 symbols needs 4 tokens, the recording has 3"),
        ([[1, 2], [1, 2, 1], [4]], r"targets\[2\] \[4\]: expected symbols of 0 … 3"),
    ):
        with pytest.raises(ValueError, match=said):
            speech.fine_tune(head, given, targets, config)
    assert torch.equal(weights(head), before)
    # has_path says what the encoder's tokens allow
    for one, n in itertools.product(([1], [1, 2], [1, 1], [1, 1, 1]), range(1, 21)):
        _, tokens = head.scores(torch.zeros(1, n, 13), torch.tensor([n]))
        try:
            fits = bool(speech.ctc_loss(torch.zeros(1, int(tokens), 4), tokens, [one]).isfinite().all())
        except ValueError:
            fits = False
        assert speech.has_path(one, n) == fits


def levenshtein(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def test_error_rates_are_edit_distances():
    rng = np.random.default_rng(0)
    said = ["".join(rng.choice(list("abc "), 12)).strip() + "a" for _ in range(20)]
    said = [" ".join(one.split()) for one in said]
    heard = [" ".join("".join(c for c in one if rng.random() > 0.3).split()) for one in said]
    heard[3] = ""
    expected = sum(map(levenshtein, said, heard)) / sum(map(len, said))
    assert speech.character_error_rate(said, heard) == pytest.approx(expected)
    words, theirs = [one.split() for one in said], [one.split() for one in heard]
    expected = sum(map(levenshtein, words, theirs)) / sum(map(len, words))
    assert speech.word_error_rate(said, heard) == pytest.approx(expected)
    phonemes, others = [["t#", "@2", "t["], ["t", "_:"]], [["t", "@2", "t[", "t["], ["_:"]]
    assert speech.phoneme_error_rate(phonemes, others) == pytest.approx(3 / 5)
    assert speech.phoneme_error_rate(phonemes, phonemes) == 0
    with pytest.raises(ValueError, match="without spaces"):
        speech.phoneme_error_rate([["a b"]], [["a"]])
    with pytest.raises(ValueError, match="1 references, 2 hypotheses"):
        speech.word_error_rate(["a"], ["a", "b"])
    for one_text in (speech.word_error_rate, speech.character_error_rate):
        with pytest.raises(ValueError, match="references='hello world': expected a list of texts"):
            one_text("hello world", "hallo world")
        with pytest.raises(ValueError, match=r"hypotheses=\[None\]: expected a list of texts"):
            one_text(["a"], [None])


@pytest.mark.parametrize("space", ["\n", "\t", "\r\n", "\N{NO-BREAK SPACE}", "\N{EM SPACE}", "\N{IDEOGRAPHIC SPACE}"])
def test_any_white_space_separates_words_and_is_one_character(space):
    assert speech.word_error_rate(["a b c"], [f"a{space}b c{space}"]) == 0
    assert speech.word_error_rate([f"{space}a{space * 2}b"], ["a c"]) == 1 / 2
    assert speech.character_error_rate(["ab cd"], [f"{space}ab{space}cd"]) == 0
    assert speech.character_error_rate([f"ab{space}cd"], [f"ab{space}{space}ce"]) == 2 / 5


@pytest.mark.parametrize("rate", [speech.word_error_rate, speech.character_error_rate])
def test_empty_references_and_hypotheses_count(rate):
    assert rate(["", "a b"], ["a", "a b"]) == 1 / (2 if rate is speech.word_error_rate else 3)
    assert rate(["a", " "], ["", "\n"]) == 1
    with pytest.raises(ValueError, match="not all empty"):
        rate(["", "\t"], ["", ""])


def test_batches_cover_an_epoch_and_sort_by_length():
    lengths = np.random.default_rng(0).integers(10, 100, 83)
    batches = speech.LengthBatches(lengths, 4, seed=1)
    epoch = np.concatenate([batches(step) for step in range(batches.per_epoch)])
    assert len(epoch) == 80 == len(set(epoch.tolist()))
    padding = np.mean([lengths[batches(s)].max() - lengths[batches(s)].mean() for s in range(20)])
    assert padding < 0.5 * (90 / 2)
    again = speech.LengthBatches(lengths, 4, seed=1)
    assert (again(25) == batches(25)).all() and (again(3) == batches(3)).all()
    with pytest.raises(ValueError, match="batches of 84"):
        speech.LengthBatches(lengths, 84)


def test_frames_of_recordings_need_their_sample_rate():
    corpus = tones_corpus(TonesConfig(("ab", "ba b"), speakers=1, each=1))
    mel = encoder().mel
    kept = speech.MelFrames(corpus, mel, indices=[1])
    assert len(kept) == 1 and kept[0] is kept[0]
    assert torch.equal(kept[0], mel(torch.from_numpy(corpus[1].audio)[None])[0][0])
    fresh = speech.MelFrames(corpus, mel, keep=False)
    assert fresh[0] is not fresh[0] and torch.equal(fresh[1], kept[0])
    with pytest.raises(ValueError, match="16000 Hz, the model 8000"):
        speech.MelFrames(corpus, encoder(sample_rate=8000).mel)[0]


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def interrupted(model, steps):
    """The model, whose forward pass is interrupted after so many."""
    forward, left = model.forward, [steps]

    def until(*arguments):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return forward(*arguments)

    model.forward = until
    return model


def test_a_training_that_was_stopped_ends_where_one_that_was_not_does(tmp_path):
    config = speech.SpeechTraining(steps=12, batch=2, seed=4)
    given = frames((30, 41, 22, 37, 28), dtype=torch.float32)

    def model():
        return speech.BestRQ(encoder(dropout=0.2), codes=16, code_channels=4)

    whole = model()
    history = speech.pretrain(whole, given, config)["history"]
    stopped = replace(config, checkpoint=tmp_path / "checkpoint", checkpoint_every=5)
    with pytest.raises(KeyboardInterrupt):
        speech.pretrain(interrupted(model(), 7), given, stopped)
    assert load_checkpoint(stopped.checkpoint / "last.safetensors")[1]["steps"] == 4
    one = model()
    assert speech.pretrain(one, given, stopped)["history"] == history
    assert torch.equal(weights(one), weights(whole))
    with pytest.raises(ValueError, match="trained with learning_rate=0.001, this config has 0.002"):
        speech.pretrain(model(), given, replace(stopped, rate=2e-3))


def as_before(folder, about, names):
    """Replaces the run in `folder` by the file that it was before speech was trained by `fit`."""
    tensors, state = load_checkpoint(folder / "last.safetensors")
    of_before = {}
    for name, value in tensors.items():
        kind, rest = name.split("/", 1)
        if kind == "optimizer":
            parameter, quantity = rest.split("//")
            rest = f"{names.index(parameter)}.{quantity}"
        of_before[f"{kind}.{rest}"] = value
    rows = [row for record in state["history"] for row in record["steps"]]
    shutil.rmtree(folder)
    kept = {"config": about, "step": state["steps"], "history": rows, "seconds": 2.5}
    return save_checkpoint(folder, of_before, kept)


@pytest.mark.parametrize("done", (1, 8, 12))
def test_a_checkpoint_of_before_is_read(tmp_path, done):
    config = speech.SpeechTraining(steps=12, batch=2, seed=4, checkpoint=tmp_path / "run", checkpoint_every=1)
    given = frames((30, 41, 22, 37, 28), dtype=torch.float32)
    model = lambda: speech.BestRQ(encoder(dropout=0.2), codes=16, code_channels=4)  # noqa: E731
    whole = model()
    history = speech.pretrain(whole, given, replace(config, checkpoint=None, checkpoint_every=5))["history"]
    one = interrupted(model(), done)
    with pytest.raises(KeyboardInterrupt) if done < 12 else contextlib.nullcontext():
        speech.pretrain(one, given, config)
    about = load_checkpoint(config.checkpoint / "last.safetensors")[1]["config"]
    about = {name: about[name] for name in ("steps", "rate", "recordings", "loss", "model", "codes")}
    groups = {}
    for name, parameter in one.named_parameters():
        groups.setdefault((name.startswith("encoder."), parameter.ndim > 1), []).append(name)
    old = as_before(config.checkpoint, about, sum(groups.values(), []))
    later = replace(config, checkpoint_every=5)  # other epochs than the file was written in
    with pytest.raises(ValueError, match=r"another configuration \(codes\)"):
        speech.pretrain(speech.BestRQ(encoder(dropout=0.2), codes=16, code_channels=4, seed=1), given, later)
    with pytest.raises(ValueError, match="another model"):
        speech.pretrain(speech.BestRQ(encoder(dropout=0.2), codes=17, code_channels=4), given, later)
    assert old.is_file()
    if done == 8:  # killed while it was converted
        old.rename(tmp_path / "run.old")
        old.mkdir()
    again = model()
    found = speech.pretrain(again, given, later)
    assert found["history"] == history and torch.equal(weights(again), weights(whole)) and found["seconds"] >= 2.5
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert speech.pretrain(model(), given, later)["history"] == history


def test_a_checkpoint_is_of_one_training(tmp_path):
    config = speech.SpeechTraining(steps=4, batch=2, checkpoint=tmp_path / "checkpoint")
    given, small = frames((30, 41, 22, 37, 28), dtype=torch.float32), dict(codes=16, code_channels=4)
    began = speech.pretrain(speech.BestRQ(encoder(), **small), given, config)
    again = speech.pretrain(speech.BestRQ(encoder(seed=1), **small), given, config)
    assert again["history"] == began["history"]
    assert again["seconds"] >= load_checkpoint(config.checkpoint / "last.safetensors")[1]["seconds"] > 0
    for model, recordings, said in (
        (
            speech.BestRQ(encoder(), **small, probability=0.1),
            given,
            "trained with probability=0.15, this config has 0.1",
        ),
        (speech.BestRQ(encoder(), **small, seed=1), given, "trained with codes=0, this config has 1"),
        (speech.BestRQ(encoder(dropout=0.5), **small), given, "trained with model={"),
        (speech.BestRQ(encoder(), codes=17, code_channels=4), given, "belongs to another model: 'quantizer"),
        (speech.BestRQ(encoder(), **small), given[:4], "trained with recordings="),
    ):
        with pytest.raises(ValueError, match=f"checkpoint.*last.safetensors .*{said}"):
            speech.pretrain(model, recordings, config)
    config = replace(config, checkpoint=tmp_path / "tuned")
    head, targets = SpeechRecognizer(out_channels=4, width=8, **SMALL), [[1, 2], [3], [1, 1], [2, 3], [3]]
    speech.fine_tune(head, given, targets, config)
    with pytest.raises(ValueError, match="trained with targets="):
        speech.fine_tune(head, given, [[3], *targets[1:]], config)
    with pytest.raises(ValueError, match="trained with loss='ctc', this config has 'best_rq'"):
        speech.pretrain(speech.BestRQ(encoder(), **small), given, config)


def test_pretraining_beats_the_commonest_code():
    # frames that repeat every 12: what is hidden follows from what is not
    base = torch.randn(12, 13, generator=torch.Generator().manual_seed(0))
    given = [base.repeat(8, 1).roll(4 * i, 0) for i in range(12)]
    model = speech.BestRQ(encoder(local=9), codes=32, code_channels=4, probability=0.08)
    with pytest.raises(ValueError, match="no recordings"):
        speech.masked_accuracy(model, [])
    before = speech.masked_accuracy(model, given)
    speech.pretrain(model, given, speech.SpeechTraining(steps=120, batch=4, rate=1e-2))
    after = speech.masked_accuracy(model, given)
    assert after["commonest"] < 0.6 and after["uniform"] == 1 / 32 and after["used"] >= 2
    assert after["accuracy"] > max(0.9, before["accuracy"]) and after["loss"] < before["loss"]


def test_a_recognizer_learns_tones():
    said = ("ab", "ba", "abba", "bab", "aab", "b a", "a bb", "bba")
    corpus = tones_corpus(TonesConfig(said, speakers=2, each=2))
    torch.manual_seed(0)
    model = SpeechRecognizer(
        out_channels=4, symbols=list(" ab"), width=16, **{**SMALL, "bins": 20, "front_channels": 4}
    )
    mels = speech.MelFrames(corpus, model.encoder.mel)
    targets = [[" ab".index(c) + 1 for c in text] for text in corpus.texts]
    speech.fine_tune(model, mels, targets, speech.SpeechTraining(steps=150, batch=8, rate=1e-2))
    model.eval()
    for beam in (None, 4):
        found = speech.decoded(model.scores, mels, beam=beam, batch=5)
        heard = ["".join(" ab"[k - 1] for k in one) for one in found]
        assert speech.character_error_rate(corpus.texts, heard) < 0.1
    one = corpus[5]
    assert model.transcribe(torch.from_numpy(one.audio)[None]) == [speech_of(model, mels[5])]
    with pytest.raises(NonFiniteLoss, match="loss is nan in epoch 1, step 1"):
        bad = [torch.full((20, 20), float("nan"))] * 2
        speech.fine_tune(model, bad, [[1], [2]], speech.SpeechTraining(steps=1, batch=2))


def speech_of(model, mel):
    (one,) = speech.decoded(model.scores, [mel])
    return "".join(model.symbols[k - 1] for k in one)


@pytest.mark.gpu
def test_a_gpu_learns_what_a_cpu_learns():
    given, history = frames((30, 41, 22, 37, 28), dtype=torch.float32), {}
    for device in ("cpu", "cuda"):
        model = speech.BestRQ(encoder(), codes=16, code_channels=4)
        config = speech.SpeechTraining(steps=5, batch=2, device=device)
        history[device] = [row["loss"] for row in speech.pretrain(model, given, config)["history"]]
        head = SpeechRecognizer(out_channels=4, width=8, **SMALL)
        targets = [[1, 2], [3], [1, 1], [2, 3], [3]]
        speech.fine_tune(head, given, targets, speech.SpeechTraining(steps=3, batch=2, device=device))
        assert len(speech.decoded(head.eval().scores, given, device=device)) == 5
    assert np.allclose(history["cpu"], history["cuda"], rtol=1e-3)
