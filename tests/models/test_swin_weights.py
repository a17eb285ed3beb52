"""Classifiers with the weights of a Swin compute what transformers computes with them, before and below a pyramid."""

from __future__ import annotations

import re

import pytest
import torch
from safetensors.torch import save_file

from sciops.models import Classifier
from sciops.models.images.swin_weights import load_swin_weights, swin_options

transformers = pytest.importorskip("transformers")

SIZES = dict(
    image_size=32, patch_size=2, num_channels=3, embed_dim=8, depths=[2, 3, 1], num_heads=[2, 4, 4], window_size=4
)


def swin(version: int, **changes):
    """A Swin of transformers whose parameters are all random, in float64."""
    options = SIZES | dict(num_labels=5, mlp_ratio=3.0, drop_path_rate=0.0) | changes
    kind = "Swin" if version == 1 else "Swinv2"
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**options)
    model = getattr(transformers, f"{kind}ForImageClassification")(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.3 * torch.randn(p.shape))
    return model.double()


def saved(model, folder):
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
    return folder / "model.safetensors"


def timm_layout(model, merges_at_start: bool):
    """The state in timm's names, or Microsoft's, who merge at the end of a stage: one qkv, and buffers."""
    state, result = {k: v.clone() for k, v in model.state_dict().items()}, {}
    pairs = [
        ("embeddings.patch_embeddings.projection", "patch_embed.proj"),
        ("embeddings.norm", "patch_embed.norm"),
        ("encoder.", ""),
        ("layernorm_before", "norm1"),
        ("layernorm_after", "norm2"),
        ("layernorm", "norm"),
        ("attention.o_proj", "attn.proj"),
        ("attention.output.dense", "attn.proj"),
        ("attention.relative_position_bias.", "attn."),
        ("attention.self.continuous_position_bias_mlp", "attn.cpb_mlp"),
        ("attention.self.", "attn."),
        ("intermediate.dense", "mlp.fc1"),
        ("output.dense", "mlp.fc2"),
        ("classifier", "head.fc" if merges_at_start else "head"),
    ]
    for name, value in state.items():
        name = re.sub(r"^swin(v2)?\.", "", name)
        for ours, theirs in pairs:
            name = name.replace(ours, theirs)
        name = re.sub(r"attention\.([qkv])_proj", r"attn.\1", name)
        name = re.sub(r"attn\.(query|key|value)\.", lambda m: f"attn.{m[1][0]}.", name)
        if merges_at_start:
            name = re.sub(r"layers\.(\d)\.downsample", lambda m: f"layers.{int(m[1]) + 1}.downsample", name)
        result[name] = value
    for name in [n for n in result if n.endswith("attn.q.weight")]:
        base = name.removesuffix("q.weight")
        result[base + "qkv.weight"] = torch.cat([result.pop(f"{base}{x}.weight") for x in "qkv"])
        if f"{base}k.bias" in result:
            result[base + "qkv.bias"] = torch.cat([result.pop(f"{base}{x}.bias") for x in "qkv"])
        else:
            result |= {f"{base}{x}_bias": result.pop(f"{base}{x}.bias") for x in "qv"}
        if f"{base}logit_scale" in result:
            result[base + "relative_coords_table"] = torch.zeros(1, 7, 7, 2)
        result[base + "relative_position_index"] = torch.zeros(16, 16, dtype=torch.long)
    return result


def check_equal(model, theirs, sizes=((32, 32), (32, 64))):
    model = model.double().eval()
    inner = theirs.swin if hasattr(theirs, "swin") else theirs.swinv2
    # transformers keeps the offsets of its second version in float32
    tolerance = 1e-11 if hasattr(theirs, "swin") else 1e-6
    for size in sizes:
        x = torch.randn(2, 3, *size, dtype=torch.float64)
        with torch.no_grad():
            features, expected = model.features(x), inner(x).last_hidden_state
            assert (features.flatten(1, 2) - expected).abs().max() < tolerance * expected.abs().max()
            logits, expected = model(x), theirs(x).logits
            assert (logits - expected).abs().max() < tolerance * expected.abs().max()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("changes", [{}, {"qkv_bias": False, "mlp_ratio": 2.0}], ids=["bias", "plain"])
def test_the_function_is_that_of_transformers(tmp_path, version, changes):
    theirs = swin(version, **changes)
    path = saved(theirs, tmp_path)
    model = Classifier(**swin_options(path, window=4))
    report = load_swin_weights(model.double(), path)
    # at 32×64 the last stage is 4×8: transformers' first version then gives up all shifts, one axis being one window
    check_equal(model, theirs, sizes=((32, 32), (64, 64)) if version == 1 else ((32, 32), (32, 64)))
    assert not report.fresh and not report.differences
    reasons = {reason for _, reason in report.unused}
    assert reasons <= {"the softmax does not see a bias of the keys"}
    assert len(report.used) + len(report.unused) == len(theirs.state_dict())


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("merges_at_start", [True, False], ids=["timm", "microsoft"])
def test_other_layouts_hold_the_same_function(tmp_path, version, merges_at_start):
    theirs = swin(version)
    path = tmp_path / "swin.safetensors"
    save_file(timm_layout(theirs, merges_at_start), path)
    model = Classifier(**swin_options(path)).double()
    report = load_swin_weights(model, path)
    check_equal(model, theirs, sizes=((32, 32),))
    assert not report.fresh and {reason for _, reason in report.unused} <= {"follows from the sizes"}


def test_windows_of_pretraining_scale_the_offsets_of_the_second_version(tmp_path):
    theirs = swin(2, pretrained_window_sizes=[3, 3, 3])
    path = saved(theirs, tmp_path)
    model = Classifier(**swin_options(path, window=(4, 4, 4), relative_window=3)).double()
    load_swin_weights(model, path)
    check_equal(model, theirs, sizes=((32, 32),))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "more",
    [{}, {"sampler": "average", "aggregate": "learned_per_level"}, {"pyramid": "smooth", "attention_from": 0}],
    ids=["conv", "average", "smooth"],
)
def test_a_pyramid_on_top_starts_at_swin_and_learns(tmp_path, version, more):
    theirs = swin(version)
    path = saved(theirs, tmp_path)
    options = swin_options(path, window=4, mixer="multipole")
    options["mixer_options"] = [dict(o, **more) for o in options["mixer_options"]]
    model = Classifier(**options).double()
    report = load_swin_weights(model, path)
    extras = ("mixer.down", "mixer.up", "mixer.kernels", "mixer.level_weights")
    assert all(name.endswith(extras) for name in report.fresh)
    check_equal(model, theirs)
    x, y = torch.randn(4, 3, 32, 32, dtype=torch.float64), torch.tensor([0, 1, 2, 3])
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    before = model(x).detach()
    names = [n for n in report.fresh if n.startswith("stages.0.")]
    for step in range(2):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        for name in names:
            learns = model.get_parameter(name).grad.abs().max() > 0
            # D acts through U, which is zero in the first step
            assert learns == (step == 1 or not name.endswith("down"))
        optimizer.step()
    assert (model(x) - before).abs().max() > 1e-6


def test_a_smooth_pyramid_takes_them_where_its_finest_level_attends(tmp_path):
    path = saved(swin(1), tmp_path)
    options = swin_options(path, mixer="multipole", pyramid="smooth")
    assert [(o["pyramid"], o["attention_from"]) for o in options["mixer_options"]] == [("smooth", 0)] * 3
    load_swin_weights(Classifier(**options), path)
    for first in (2, "none"):
        options["mixer_options"] = [dict(o, attention_from=first) for o in options["mixer_options"]]
        with pytest.raises(ValueError, match=f"attention_from={first!r}: Swin's attention is on the finest level"):
            load_swin_weights(Classifier(**options), path, strict=first != "none")


def test_extras_are_kept_where_asked_and_position_starts_at_zero(tmp_path):
    theirs = swin(1)
    path = saved(theirs, tmp_path)
    options = swin_options(path) | {"position": "sincos", "layer_scale": 0.1, "drop_path": 0.2}
    model = Classifier(**options).double()
    assert len(load_swin_weights(model, path).fresh) == 1 + 2 * 6
    check_equal(model, theirs, sizes=((32, 32),))
    torch.manual_seed(1)
    kept = Classifier(**options).double()
    position = kept.stages[0].position.weight.clone()
    load_swin_weights(kept, path, extras="keep")
    assert torch.equal(kept.stages[0].position.weight, position) and position.abs().min() > 0
    assert (kept.stages[0].blocks[0].scale1 - 0.1).abs().max() < 1e-7


def test_a_head_for_other_classes_stays_and_is_reported(tmp_path):
    path = saved(swin(1), tmp_path)
    model = Classifier(**swin_options(path) | {"out_channels": 7})
    head = model.head.weight.detach().clone()
    report = load_swin_weights(model, path)
    assert torch.equal(model.head.weight, head) and "head.weight" in report.fresh
    assert "classifier.weight" in dict(report.unused) and "classifier.weight" in str(report)


def test_mismatches_are_refused_in_one_line_and_change_nothing(tmp_path):
    path = saved(swin(1), tmp_path)
    right = swin_options(path)
    for change, match in (
        ({"widths": (16, 32, 64)}, r"\(8,\), the model's stages.0.enter.norm.bias is \(16,\)"),
        ({"in_channels": 1}, "patch_embeddings"),
        ({"depths": (2, 1, 1)}, r"layers.1.blocks.\d.*the model has no"),
        ({"depths": (2, 4, 1)}, "no counterpart of the model's stages.1.blocks.3"),
        ({"mlp": "gated"}, "mlp_gate"),
        ({"norm": "rms"}, "the model has no .*norm.bias"),
        ({"mixer_options": [dict(o, relative="none") for o in right["mixer_options"]]}, "relative.table"),
        ({"mixer_options": [dict(o, window=5) for o in right["mixer_options"]]}, r"\(81, 2\)"),
    ):
        model = Classifier(**right | change)
        before = [p.clone() for p in model.parameters()]
        with pytest.raises(ValueError, match=match) as raised:
            load_swin_weights(model, path)
        assert "\n" not in str(raised.value)
        assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
    report = load_swin_weights(Classifier(**right | {"in_channels": 1}), path, strict=False)
    assert list(report.fresh) == ["stages.0.enter.project.weight"]


def test_options_without_weights_are_reported(tmp_path):
    path = saved(swin(1), tmp_path)
    report = load_swin_weights(Classifier(**swin_options(path) | {"shift": False}), path)
    assert len(report.differences) == 2 and "shift=0, Swin's is 2" in str(report)
    path = saved(swin(2, depths=[1], num_heads=[2]), tmp_path / "v2")
    report = load_swin_weights(Classifier(**swin_options(path, window=4) | {"order": "pre"}), path)
    assert report.differences == ("order='pre', the file's is 'post'",)


def test_other_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        swin_options(tmp_path / "none.safetensors")
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK\x03\x04 not this")
    with pytest.raises(ValueError, match="is not a whole safetensors file"):
        swin_options(tmp_path / "pytorch_model.bin")
    save_file({"a": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="no patch embedding"):
        swin_options(tmp_path / "other.safetensors")
    path = saved(swin(2), tmp_path)
    with pytest.raises(ValueError, match="pass window="):
        swin_options(path)
    with pytest.raises(TypeError, match="Linear"):
        load_swin_weights(torch.nn.Linear(2, 2), path)
    averaged = swin_options(path, window=4, mixer="multipole")
    averaged["mixer_options"] = [dict(o, sampler="average") for o in averaged["mixer_options"]]
    with pytest.raises(ValueError, match="cannot start at zero"):
        load_swin_weights(Classifier(**averaged), path)
