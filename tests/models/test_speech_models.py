"""Speech models: frames against sums written out, batches against single recordings, decoding against all paths."""

import itertools
import math
import re

import numpy as np
import pytest
import torch

import sciops
from sciops.models.sequences.ctc import beam_decode, collapse, greedy_decode
from sciops.models.sequences.log_mel import LogMel, RunningNorm, mel_filters
from sciops.models.sequences.speech import SpeechEncoder, SpeechRecognizer

SMALL = dict(depth=2, local=5, front_channels=3, sample_rate=8000, bins=13)
LENGTHS = (3000, 150, 1777)


def audio(batch=3, samples=3000, dtype=torch.float64):
    return torch.randn(batch, samples, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)


def encoder(mixer="polynomial", **options):
    torch.manual_seed(0)
    model = SpeechEncoder(out_channels=8, mixer=mixer, **{**SMALL, **options}).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        model.bin_norm.mean.normal_()
        model.bin_norm.variance.uniform_(0.5, 2)
    return model.eval()


def test_log_mel_is_the_sum_it_says():
    rate, bins, x = 8000, 13, audio(1, 700)[0]
    mel = LogMel(sample_rate=rate, bins=bins)
    window, hop, n = 200, 80, 256
    assert (mel.window, mel.hop, mel.n_fft) == (window, hop, n)
    got, frames = mel(x[None])
    assert frames.tolist() == [1 + (700 - window) // hop] and got.shape == (1, 7, bins)
    corners = [700 * (10 ** (2595 * math.log10(1 + 4000 / 700) * i / (bins + 1) / 2595) - 1) for i in range(bins + 2)]
    for t in range(7):
        frame = [float(x[t * hop + i]) * (0.5 - 0.5 * math.cos(2 * math.pi * i / window)) for i in range(window)]
        power = []
        for k in range(n // 2 + 1):
            angles = -2 * np.pi * k * np.arange(window) / n
            power.append(abs(np.sum(np.array(frame) * np.exp(1j * angles))) ** 2)
        for b in range(bins):
            low, peak, high = corners[b : b + 3]
            energy = 0.0
            for k, p in enumerate(power):
                f = k * rate / n
                energy += p * (
                    (f - low) / (peak - low)
                    if low < f <= peak
                    else (high - f) / (high - peak)
                    if peak < f < high
                    else 0
                )
            assert float(got[0, t, b]) == pytest.approx(math.log(max(energy, 1e-6)), abs=1e-10)


def test_a_tone_is_where_its_mel_is():
    mel = LogMel()
    t = torch.arange(16000, dtype=torch.float64) / 16000
    for f in (300.0, 1000.0, 4000.0):
        got, _ = mel(torch.sin(2 * math.pi * f * t)[None])
        corner = 81 * math.log10(1 + f / 700) / math.log10(1 + 8000 / 700)
        assert abs(int(got[0, 20].argmax()) + 1 - corner) <= 1
    assert torch.allclose(mel(torch.zeros(1, 800))[0], torch.tensor(math.log(1e-6)))
    # float32 rounds amplitudes relative to the largest of the frame; the logarithm of a faint one differs by more
    wave = torch.sin(2 * math.pi * 440 * t)[None]
    single, double = (torch.exp(mel(x)[0].double() / 2) for x in (wave.float(), wave))
    assert ((single - double).abs().amax(-1) < 1e-6 * double.amax(-1)).all()
    # between the first and the last peak the triangles add up to 1
    filters = mel_filters(16000, 512, 20)
    peaks = filters.argmax(1)
    assert torch.allclose(filters.sum(0)[peaks[0] + 1 : peaks[-1]], torch.ones(1).double(), atol=1e-12)
    with pytest.raises(ValueError, match="bins=200 are too many"):
        LogMel(bins=200)


def test_what_stands_behind_a_recording_is_not_read():
    mel, x, lengths = LogMel(sample_rate=8000, bins=13), audio(), torch.tensor(LENGTHS)
    junk = torch.where(torch.arange(3000) < lengths[:, None], x, 100.0)
    got, frames = mel(junk, lengths)
    for i, length in enumerate(LENGTHS):
        alone, count = mel(x[i : i + 1, :length])
        assert count.item() == frames[i] == 1 + max(0, length - 200) // 80
        assert (got[i, : frames[i]] - alone[0]).abs().max() < 1e-12
    for wrong in (torch.tensor([3001, 1, 1]), torch.tensor([0, 1, 1]), torch.tensor([1, 1])):
        with pytest.raises(ValueError, match="expected one a recording"):
            mel(x, wrong)
    with pytest.raises(ValueError, match=r"expected floats \(batch, samples\)"):
        mel(x.long())


def test_frames_do_not_depend_on_the_context_they_are_computed_in():
    # 48 000 Hz, full scale: energies that float16 does not hold
    x = torch.sin(torch.arange(4000.0) / 4)[None]
    expected = LogMel(sample_rate=48_000, bins=20)(x)[0]
    assert float(expected.max()) > math.log(65504)
    for half in (torch.float16, torch.bfloat16):
        with torch.autocast("cpu", half):
            assert torch.equal(LogMel(sample_rate=48_000, bins=20)(x, [4000])[0], expected)
    mel = LogMel(sample_rate=48_000, bins=20)
    with torch.inference_mode():
        mel(x)
    audio = x.clone().requires_grad_()
    mel(audio)[0].sum().backward()
    assert audio.grad.isfinite().all() and audio.grad.any()


def test_no_recordings_give_no_vectors():
    got, tokens = encoder()(torch.zeros(0, 1000, dtype=torch.float64))
    alone, _ = encoder()(torch.zeros(1, 1000, dtype=torch.float64))
    assert got.shape == (0, *alone.shape[1:]) and tokens.shape == (0,)


def test_running_norm_has_the_moments_of_all_frames():
    norm = RunningNorm(4, updates=3).double()
    x = 3 + 2 * torch.randn(5, 2, 7, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    lengths = torch.tensor([[7, 3], [1, 7], [5, 5], [7, 7], [2, 2]])
    masks = torch.arange(7) < lengths[..., None]
    for batch, mask in zip(x[:3], masks[:3]):
        norm(batch, mask)
    met = x[:3][masks[:3]]
    assert (norm.mean - met.mean(0)).abs().max() < 1e-12
    assert (norm.variance - met.var(0, correction=0)).abs().max() < 1e-12
    before = norm.mean.clone()
    y = norm(x[3], masks[3])  # the fourth batch is not taken in
    assert (norm.mean == before).all() and int(norm.frames) == len(met)
    assert (y - (x[3] - before) / (norm.variance + 1e-5).sqrt()).abs().max() < 1e-12
    fresh = RunningNorm(4).eval()
    fresh(x[0].float(), masks[0])
    assert int(fresh.batches) == 0 and not norm(x[4], masks[4])[~masks[4]].any()


@pytest.mark.parametrize("mixer", ["polynomial", "self_attention", ["mean_pool", "self_attention"]])
def test_a_batch_gives_what_single_recordings_give(mixer):
    options = dict(mixer_options=dict(positions="rope")) if mixer == "self_attention" else {}
    model, x, lengths = encoder(mixer, **options), audio(), torch.tensor(LENGTHS)
    junk = torch.where(torch.arange(3000) < lengths[:, None], x, 100.0)
    got, tokens = model(junk, lengths)
    for i, length in enumerate(LENGTHS):
        alone, count = model(x[i : i + 1, :length])
        frames = 1 + max(0, length - 200) // 80
        assert count.item() == tokens[i] == -(-frames // 4)
        assert (got[i, : tokens[i]] - alone[0]).abs().max() < 1e-10 < alone.abs().max()
        assert not got[i, tokens[i] :].any()


def test_every_parameter_and_every_sample_counts():
    model, x = encoder().train(), audio(2, 1000).requires_grad_()
    out, _ = model(x)
    (out.square() * torch.rand(out.shape, generator=torch.Generator().manual_seed(3))).sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())
    assert (x.grad[:, 1:1000] != 0).float().mean() > 0.95  # a window's first weight is 0


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float32])
def test_other_dtypes_follow_float64(half):
    exact = encoder()
    expected, _ = exact(audio())
    model = encoder().to(half)
    got, _ = model(audio(dtype=torch.float32).to(half))
    assert got.dtype == half
    tolerance = 1e-3 if half == torch.float32 else 0.2
    assert (got.double() - expected).norm() / expected.norm() < tolerance


def test_models_come_back_from_their_files(tmp_path):
    torch.manual_seed(0)
    options = dict(SMALL, width=8, symbols=list("abcd"), hidden=(6,), mixer="polynomial", dropout=0.1)
    model = sciops.build_model("speech", out_channels=5, **options)
    model.train()(audio(dtype=torch.float32))
    assert int(model.encoder.bin_norm.batches) == 1
    model.eval()
    sciops.save_model(model, tmp_path / "recognizer")
    again = sciops.load_model(tmp_path / "recognizer")
    x, lengths = audio(dtype=torch.float32), torch.tensor(LENGTHS)
    assert torch.equal(model(x, lengths)[0], again(x, lengths)[0]) and again.symbols == tuple("abcd")
    assert model.transcribe(x, lengths) == again.transcribe(x, lengths)
    sciops.save_model(model.encoder, tmp_path / "encoder")
    alone = sciops.load_model(tmp_path / "encoder")
    assert torch.equal(model.encoder(x, lengths)[0], alone(x, lengths)[0])
    fresh = sciops.build_model("speech", out_channels=5, **options).eval()
    fresh.encoder.load_state_dict(alone.state_dict())
    assert torch.equal(fresh.encoder(x, lengths)[0], alone(x, lengths)[0])


def test_transcribing_leaves_a_model_as_it_is():
    torch.manual_seed(0)
    model = SpeechRecognizer(out_channels=5, symbols="abcd", width=8, dropout=0.5, **SMALL)
    model.train().encoder.stack.eval()  # a part may be frozen
    x, before = audio(dtype=torch.float32), {k: v.clone() for k, v in model.state_dict().items()}
    said = model.transcribe(x, torch.tensor(LENGTHS))
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert model.training and model.encoder.training and not model.encoder.stack.training
    assert any(said) and said == model.eval().transcribe(x, torch.tensor(LENGTHS))


def test_refusals():
    for options, said in (
        (dict(in_channels=2), "in_channels=2: expected 1"),
        (dict(mixer="spectral"), "expected one for sequences"),
        (dict(local=4), "odd number"),
        (dict(front_channels=0), "front_channels=0"),
    ):
        with pytest.raises(ValueError, match=said):
            SpeechEncoder(**{**dict(out_channels=8), **SMALL, **options})
    for symbols in (["a"], ["a", "a"], ["a", "a", "b"]):
        with pytest.raises(ValueError, match=re.escape("expected a blank and one for each symbol")):
            SpeechRecognizer(out_channels=3, symbols=symbols, width=8, **SMALL)
    with pytest.raises(ValueError, match="no names for its symbols"):
        SpeechRecognizer(out_channels=3, width=8, **SMALL).transcribe(audio(dtype=torch.float32))
    with pytest.raises(ValueError, match=r"expected \(batch, frames, 13\)"):
        encoder().normalize(torch.zeros(1, 5, 12), torch.tensor([5]))


def labellings(log_p):
    """Log probability of every labelling by going through all paths."""
    found = {}
    n, symbols = log_p.shape
    for path in itertools.product(range(symbols), repeat=n):
        score = sum(float(log_p[t, k]) for t, k in enumerate(path))
        key = tuple(collapse(path))
        found[key] = np.logaddexp(found.get(key, -np.inf), score)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_beams_that_hold_everything_are_exact(seed):
    logits = 2 * torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    lengths = torch.tensor([5, 3])
    found = beam_decode(logits, lengths, beam=1000, most=1000)
    for i, length in enumerate(lengths.tolist()):
        expected = labellings(logits[i, :length].log_softmax(-1))
        assert len(found[i]) == len(expected)
        for labels, score in found[i]:
            assert score == pytest.approx(expected[tuple(labels)], abs=1e-10)
        assert tuple(found[i][0][0]) == max(expected, key=expected.get)
        assert np.logaddexp.reduce([score for _, score in found[i]]) == pytest.approx(0, abs=1e-10)
        # a narrow beam finds less, never more
        for labels, score in beam_decode(logits, lengths, beam=2)[i]:
            assert score <= expected[tuple(labels)] + 1e-10


def test_beams_find_what_the_best_path_misses():
    # every time prefers the blank, yet "a" has three paths and more probability than nothing at all
    p = torch.tensor([[0.6, 0.4], [0.6, 0.4]])
    assert greedy_decode(p.log()[None]) == [[]] and beam_decode(p.log()[None])[0][0][0] == [1]
    path = [0, 2, 2, 0, 2, 1, 1, 3]
    logits = torch.nn.functional.one_hot(torch.tensor([path]), 4).float()
    assert greedy_decode(logits) == [[2, 2, 1, 3]] and greedy_decode(logits, torch.tensor([3])) == [[2]]
    assert collapse([3, 3, 1, 3], blank=3) == [1]
    with pytest.raises(ValueError, match="beam=1, most=2"):
        beam_decode(logits, beam=1, most=2)
