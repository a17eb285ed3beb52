"""ViT and Swin V2 of transformers behind our door: the same numbers as theirs, files, other sizes, one-line errors."""

from __future__ import annotations

import json
import sys

import pytest
import torch
import torch.nn.functional as F

from sciops import build_model, load_model, save_model
from sciops.models import HuggingFaceClassifier
from sciops.models.images import huggingface

transformers = pytest.importorskip("transformers")

VIT = dict(in_channels=1, out_channels=4, image_size=12, patch=4, width=8, depth=2, heads=2, mlp_ratio=2.0)
SWIN = dict(in_channels=3, out_channels=4, image_size=16, patch=2, width=8, depths=(1, 2), heads=2, window=4)


def make(name, **changes):
    torch.manual_seed(0)
    options = dict(VIT if name == "ViT" else SWIN) | changes
    return build_model(f"transformers:{name}", **options).double().eval()


def randn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_vit_is_patches_positions_and_a_class_token_through_attention():
    model, x = make("ViT"), randn(2, 1, 12, 12)
    theirs, state = model.model, model.model.state_dict()
    patches = F.unfold(x, 4, stride=4).mT @ state["vit.embeddings.patch_embeddings.projection.weight"].flatten(1).T
    patches = patches + state["vit.embeddings.patch_embeddings.projection.bias"]
    z = torch.cat([state["vit.embeddings.cls_token"].expand(2, -1, -1), patches], 1)
    z = z + state["vit.embeddings.position_embeddings"]
    for layer in theirs.vit.layers:
        n = layer.layernorm_before(z)
        q, k, v = (getattr(layer.attention, f"{part}_proj")(n).unflatten(-1, (2, 4)).transpose(1, 2) for part in "qkv")
        p = (q @ k.mT / 2).softmax(-1)
        z = z + layer.attention.o_proj((p @ v).transpose(1, 2).flatten(2))
        z = z + layer.mlp.fc2(F.gelu(layer.mlp.fc1(layer.layernorm_after(z))))
    expected = theirs.classifier(theirs.vit.layernorm(z)[:, 0])
    assert (model(x) - expected).abs().max() < 1e-12


@pytest.mark.parametrize("name", ["ViT", "SwinV2"])
def test_images_that_are_no_whole_patches_are_continued_by_zeros(name):
    model = make(name, image_size=15)
    channels, whole = model.in_channels, model.image_size
    x = randn(2, channels, 15, 15)
    padded = torch.zeros(2, channels, *whole, dtype=torch.float64)
    padded[:, :, :15, :15] = x
    assert whole == ((16, 16)) and torch.equal(model(x), model(padded))
    last = x.clone()
    last[:, :, 14, 14] += 1
    assert (model(last) - model(x)).abs().max() > 1e-8  # no pixel is cut off


@pytest.mark.parametrize("name", ["ViT", "SwinV2"])
@pytest.mark.parametrize("size", [(17, 31), (24, 24), (8, 8)])
def test_other_sizes_run_and_samples_do_not_meet(name, size):
    model = make(name)
    x = randn(3, model.in_channels, *size)
    y = model(x)
    assert torch.isfinite(y).all() and (model(x[1:2])[0] - y[1]).abs().max() < 1e-12


def test_positions_are_interpolated_as_transformers_does():
    model, x = make("ViT"), randn(2, 1, 20, 12)
    expected = model.model(pixel_values=x, interpolate_pos_encoding=True).logits
    assert torch.equal(model(x), expected)
    with torch.no_grad():  # a constant position is the same at every size
        model.model.vit.embeddings.position_embeddings[:, 1:] = 0.3
    moved = x.roll((4, 4), (2, 3))
    assert (model(moved) - model(x)).abs().max() < 1e-10


@pytest.mark.parametrize("name, options", [("ViT", {}), ("SwinV2", {"drop_path": 0.1}), ("ViT", {"qkv_bias": False})])
def test_saved_and_built_again(tmp_path, name, options):
    model = make(name, **options)
    x = randn(2, model.in_channels, 14, 12)
    loaded = load_model(save_model(model, tmp_path))
    assert torch.equal(loaded(x), model(x)) and loaded.config == model.config
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


def test_a_description_that_names_code_of_others_is_refused(tmp_path):
    from safetensors.torch import load_file, save_file

    folder = save_model(make("ViT"), tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["model"]["options"]["attn_implementation"] = "evil/kernel"
    (folder / "config.json").write_text(json.dumps(config))
    weights = folder / "model.safetensors"
    save_file(load_file(weights), weights, {"model": json.dumps(config["model"]), "complex": "[]"})
    with pytest.raises(ValueError, match="config.json: transformers:ViT: unknown option 'attn_implementation'"):
        load_model(folder)


@pytest.mark.parametrize("name", ["ViT", "SwinV2"])
def test_all_weights_learn(name):
    model = make(name).train()
    F.cross_entropy(model(randn(4, model.in_channels, 16, 16)), torch.tensor([0, 1, 2, 3])).backward()
    silent = [key for key, p in model.named_parameters() if p.grad is None or p.grad.abs().max() == 0]
    # the softmax does not see a bias of the keys; its gradient is zero up to rounding
    assert all(key.endswith("k_proj.bias") for key in silent)


def test_bad_arguments_are_named(monkeypatch):
    for name, change, error, match in (
        ("ViT", {"heads": 3}, ValueError, "heads=3 do not divide width=8"),
        ("ViT", {"window": 4}, TypeError, "'window'; it takes .*depth, "),
        ("SwinV2", {"depth": 4}, TypeError, "'depth'; it takes .*depths, "),
        ("ViT", {"x": 1}, TypeError, "'x'; it takes attention_probs_dropout_prob, depth, heads, .*width$"),
        ("SwinV2", {"attn_implementation": "evil/kernel"}, TypeError, "unknown option 'attn_implementation'"),
        ("ViT", {"torch_dtype": "float64"}, TypeError, "unknown option 'torch_dtype'"),
        ("SwinV2", {"heads": (2, 5)}, ValueError, "heads=5 do not divide the width 16"),
        ("SwinV2", {"heads": (2,)}, ValueError, "one for each of depths"),
        ("SwinV2", {"image_size": 2}, ValueError, "at least 4 pixels"),
        ("ViT", {"image_size": (4, 4, 4)}, ValueError, "positive numbers of pixels"),
    ):
        with pytest.raises(error, match=match):
            make(name, **change)
    with pytest.raises(ValueError, match="ViT, SwinV2"):
        HuggingFaceClassifier("Mamba", 1, 2)
    with pytest.raises(ValueError, match=r"\(batch, 1, height, width\)"):
        make("ViT")(randn(1, 3, 12, 12))
    oblong = make("ViT", image_size=(12, 8))
    assert torch.isfinite(oblong(randn(1, 1, 12, 8))).all()
    with pytest.raises(ValueError, match="square image_size"):
        oblong(randn(1, 1, 12, 12))
    monkeypatch.setitem(sys.modules, "transformers", None)
    huggingface._import.cache_clear()
    with pytest.raises(ImportError, match=r"pip install 'sciops\[vision\]'"):
        make("ViT")
    monkeypatch.undo()
    huggingface._import.cache_clear()
