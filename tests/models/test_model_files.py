"""Saved models: the same bits back, and one clear line for everything that can be wrong."""

import json
import os
import time

import numpy as np
import pytest
import torch

from sciops import Budget, Grid, build_model, load_model, save_model
from sciops.datasets.fields.normalizers import Normalizer
from sciops.models import Latent, Normalized, SymmetryAveraged, read_config
from sciops.models.building import Stored, build_to_fit
from sciops.models.persistence import CONFIG, WEIGHTS
from sciops.symmetry import Symmetry

SMALL = dict(width=6, depth=2, modes=(3, 3))


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "name, options",
    [
        ("fno", dict(SMALL, local=True, weights="diagonal", grid=Grid((9, 9)), layer_scale=0.5)),
        ("fno", dict(SMALL, basis="sine-cosine", block="classic", norm="instance", dealias=2)),
        ("operator", dict(width=6, depth=2, mixer_options=dict(modes=(3, 3), basis="sine"), wall="zero")),
        ("neuralop:FNO", dict(SMALL)),
        ("neuralop:TFNO", dict(SMALL, compat_shift=True)),
    ],
)
def test_a_loaded_model_computes_the_same_bits(tmp_path, name, options):
    model, x = build_model(name, **options).eval(), randn(2, 1, 9, 9)
    loaded = load_model(save_model(model, tmp_path / "model", {"epoch": 3}))
    assert torch.equal(loaded(x), model(x)) and loaded.config == model.config and not loaded.training
    assert read_config(tmp_path / "model")["extra"] == {"epoch": 3}
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == [CONFIG, WEIGHTS]


def test_wrappers_and_their_statistics_travel_with_the_model(tmp_path):
    grid = Grid((9, 9))
    inner = Normalized(build_model("fno", **SMALL, grid=grid), Normalizer.fit(randn(4, 1, 9, 9) + 5), None)
    symmetry = Symmetry.of_scalars()
    model = SymmetryAveraged(Latent(inner, grid, output_method="sine"), "square", symmetry=symmetry).eval()
    x = randn(2, 1, 17, 17)
    loaded = load_model(save_model(model, tmp_path))
    with pytest.warns(UserWarning, match="wall"):
        assert torch.equal(loaded(x), model(x))
    assert loaded.model.model.input.mean.dtype == torch.float64 and loaded.config == model.config


def test_a_compiled_model_inside_wrappers_is_saved_as_the_model_it_compiles(tmp_path):
    inner, x = build_model("fno", **SMALL), randn(2, 1, 9, 9)
    statistics = Normalizer.fit(x + 1)
    save_model(Normalized(torch.compile(inner, backend="eager"), statistics), tmp_path)
    assert torch.equal(load_model(tmp_path)(x), Normalized(inner, statistics)(x))


def test_equal_models_are_equal_files(tmp_path):
    model = build_model("fno", **SMALL).double()
    # the writer's order of the metadata is random: eight files agree by chance once in thousands
    files = {(save_model(model, tmp_path / str(i)) / WEIGHTS).read_bytes() for i in range(8)}
    assert len(files) == 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_dtypes_are_kept(tmp_path, dtype):
    model = build_model("fno", **SMALL).to(dtype)
    loaded = load_model(save_model(model, tmp_path))
    assert {p.dtype for p in loaded.parameters()} == {dtype}
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), loaded.parameters()))
    x = randn(2, 1, 9, 9).to(dtype)
    assert torch.equal(loaded(x), model(x)) and loaded(x).dtype == dtype
    loaded(x).square().sum().backward()  # still trainable
    assert all(p.grad is not None for p in loaded.parameters())


def test_files_hold_no_pickle_and_a_second_save_replaces_the_first(tmp_path):
    save_model(build_model("fno", **SMALL), tmp_path)
    first = (tmp_path / WEIGHTS).read_bytes()
    length = int.from_bytes(first[:8], "little")
    assert "blocks.0.mixer.parts.0.weight" in json.loads(first[8 : 8 + length])
    other = build_model("fno", **dict(SMALL, width=8))
    assert load_model(save_model(other, tmp_path)).config["options"]["width"] == 8


def spoil(folder, what):
    config = json.loads((folder / CONFIG).read_text())
    weights = (folder / WEIGHTS).read_bytes()
    if what == "no config":
        (folder / CONFIG).unlink()
    elif what == "no weights":
        (folder / WEIGHTS).unlink()
    elif what == "cut weights":
        (folder / WEIGHTS).write_bytes(weights[: len(weights) // 2])
    elif what == "empty weights":
        (folder / WEIGHTS).write_bytes(b"")
    elif what == "cut config":
        (folder / CONFIG).write_text((folder / CONFIG).read_text()[:40])
    elif what == "other config":
        config["model"]["options"]["depth"] = 3
        (folder / CONFIG).write_text(json.dumps(config))


@pytest.mark.parametrize(
    "what, kind, message",
    [
        ("no config", FileNotFoundError, "config.json does not exist"),
        ("no weights", FileNotFoundError, "model.safetensors does not exist"),
        ("cut weights", ValueError, "cannot be read.*damaged"),
        ("empty weights", ValueError, "cannot be read.*damaged"),
        ("cut config", ValueError, "is not JSON.*damaged"),
        ("other config", ValueError, "differ: model.options.depth is 3 there, 2 was saved .*accept_edits=True"),
    ],
)
def test_damaged_folders_are_told_apart_in_one_line(tmp_path, what, kind, message):
    save_model(build_model("fno", **SMALL), tmp_path)
    spoil(tmp_path, what)
    with pytest.raises(kind, match=message) as caught:
        load_model(tmp_path)
    assert "\n" not in str(caught.value)


def rewrite(folder, change_model=None, change_tensors=None):
    """Another description or other tensors, consistently in both files."""
    from safetensors.torch import load_file, save_file

    config, tensors = json.loads((folder / CONFIG).read_text()), load_file(folder / WEIGHTS)
    if change_model:
        change_model(config["model"])
    if change_tensors:
        change_tensors(tensors)
    (folder / CONFIG).write_text(json.dumps(config))
    save_file(tensors, folder / WEIGHTS, {"model": json.dumps(config["model"]), "complex": "[]"})


def test_descriptions_and_weights_that_do_not_fit_are_refused(tmp_path):
    key = "lift.0.weight"
    cases = [
        (dict(change_model=lambda m: m.update(name="gno")), "model 'gno': expected one of"),
        (dict(change_model=lambda m: m["options"].update(colour=1)), "unknown option 'colour'"),
        (dict(change_model=lambda m: m["options"].update(width=7)), r"has shape .* needs"),
        (dict(change_model=lambda m: m["options"].update(depth=3)), "lacks 'blocks.2"),
        (dict(change_model=lambda m: m["options"].update(depth=1)), "has an unknown 'blocks.1"),
        (dict(change_tensors=lambda t: t.update({key: t[key][:1]})), f"{key} has shape"),
    ]
    for change, message in cases:
        save_model(build_model("fno", **SMALL), tmp_path)
        rewrite(tmp_path, **change)
        with pytest.raises(ValueError, match=message) as caught:
            load_model(tmp_path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_any_bit_may_flip_and_none_gives_another_model(tmp_path, name):
    model = build_model("fno", width=2, depth=1, modes=(2, 2))
    save_model(model, tmp_path, {"epoch": 3, "note": "first"})
    content, config, state = (tmp_path / name).read_bytes(), read_config(tmp_path), load_model(tmp_path).state_dict()
    random, refused, header = np.random.default_rng(0), 0, 1600
    for at in [*random.integers(len(content), size=75), *random.integers(min(len(content), header), size=75)]:
        flipped = bytearray(content)
        flipped[at] ^= 1 << int(random.integers(8))
        (tmp_path / name).write_bytes(flipped)
        try:
            loaded, read = load_model(tmp_path), read_config(tmp_path)
        except ValueError as error:
            assert "\n" not in str(error) and str(tmp_path) in str(error)
            refused += 1
        else:
            assert read == config and loaded.config == model.config
            found = loaded.state_dict()
            assert all(found[k].dtype == state[k].dtype and torch.equal(found[k], state[k]) for k in state)
    assert refused > 140  # one space may be another


def test_an_edited_description_is_built_where_that_is_asked_for(tmp_path):
    model, x = build_model("fno", **SMALL), randn(2, 1, 9, 9)
    save_model(model, tmp_path, {"epoch": 3})
    config = json.loads((tmp_path / CONFIG).read_text())
    other = json.loads(json.dumps(config))
    other["model"]["options"]["dealias"] = 2  # the weights fit all the same
    (tmp_path / CONFIG).write_text(json.dumps(other))
    for load in (load_model, read_config):
        with pytest.raises(ValueError, match="model.options.dealias is 2 there, 1 was saved"):
            load(tmp_path)
    edited = load_model(tmp_path, accept_edits=True)
    assert edited.config["options"]["dealias"] == 2 and not torch.equal(edited(x), model(x))
    save_model(edited, tmp_path)
    assert torch.equal(load_model(tmp_path)(x), edited(x))
    (tmp_path / CONFIG).write_text(json.dumps(read_config(tmp_path) | {"extra": {"epoch": 4}}))
    with pytest.raises(ValueError, match="extra.epoch is 4 there and was not saved"):
        read_config(tmp_path)
    assert read_config(tmp_path, accept_edits=True)["extra"] == {"epoch": 4}
    (tmp_path / CONFIG).write_text(json.dumps(read_config(tmp_path, accept_edits=True) | {"extra": {}}))  # one line
    assert torch.equal(load_model(tmp_path)(x), edited(x))


def test_a_model_of_before_there_was_a_digest_is_read_as_it_was(tmp_path):
    from safetensors.torch import load_file, save_file

    model, x = build_model("fno", **SMALL), randn(2, 1, 9, 9)
    save_model(model, tmp_path)
    config = json.loads((tmp_path / CONFIG).read_text()) | {"sciops": "1", "extra": {"epoch": 3}}
    (tmp_path / CONFIG).write_text(json.dumps(config))
    header = {"sciops": "1", "model": json.dumps(config["model"]), "complex": "[]"}
    tensors = load_file(tmp_path / WEIGHTS)
    save_file(tensors, tmp_path / WEIGHTS, header)
    assert torch.equal(load_model(tmp_path)(x), model(x)) and read_config(tmp_path)["extra"] == {"epoch": 3}
    save_file(tensors, tmp_path / WEIGHTS, header | {"sciops": "3"})
    with pytest.raises(ValueError, match="has format 3, expected 2: it is of a later sciops"):
        load_model(tmp_path)


def test_a_model_without_a_description_cannot_be_saved(tmp_path):
    with pytest.raises(TypeError, match="Linear has no .config"):
        save_model(torch.nn.Linear(1, 1), tmp_path / "x")
    assert not (tmp_path / "x").exists()
    with pytest.raises(TypeError, match="no JSON form"):
        build_model("neuralop:FNO", **SMALL, non_linearity=torch.relu)


def test_descriptions_of_others_end_in_one_line(tmp_path):
    """Each of these ended in another exception, in a model of gigabytes, or never."""
    options = (
        (dict(width=20_000), "description takes 3.2e[+]09 bytes of memory"),  # 36 GB in all
        (dict(modes=[30_000, 30_000]), "bytes of memory, more than the 1e[+]09 besides"),
        (dict(depth=10**9), "has far more tensors"),
        (dict(width=10**30), "takes .* bytes of memory"),
        (dict(width=float("inf")), "width=inf: expected a whole number"),
        (dict(grid={"shape": [5]}), "KeyError 'extent'"),
        (dict(grid="square"), "grid='square': expected a Grid or a dict"),
    )
    save_model(build_model("fno", **SMALL), tmp_path)
    sound = {name: (tmp_path / name).read_bytes() for name in (CONFIG, WEIGHTS)}
    for change, message in options:
        rewrite(tmp_path, lambda model, change=change: model["options"].update(change))
        with pytest.raises(ValueError, match=message) as caught:
            load_model(tmp_path)
        assert "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)
        for name, content in sound.items():
            (tmp_path / name).write_bytes(content)


def test_tensors_and_headers_of_others_end_in_one_line(tmp_path):
    from safetensors.torch import load_file, save_file

    save_model(build_model("fno", **SMALL), tmp_path)
    described, tensors = (tmp_path / CONFIG).read_text(), load_file(tmp_path / WEIGHTS)
    model = json.dumps(json.loads(described)["model"])
    whole = {name: tensor.to(torch.int64) for name, tensor in tensors.items()}
    for header, content, message in (
        ({"model": model, "complex": '["none"]'}, tensors, "KeyError 'none'"),
        ({"model": model, "complex": "3"}, tensors, "not iterable"),
        ({"model": model, "complex": '["lift.0.weight"]'}, tensors, "last dimension of size 2"),
        ({"model": "{", "complex": "[]"}, tensors, "property name"),
        ({"model": "[" * 9999, "complex": "[]"}, tensors, "levels deep"),
        ({"model": model}, whole, "has dtype torch.int64, not one such as torch.float32"),
    ):
        save_file(content, tmp_path / WEIGHTS, header)
        with pytest.raises(ValueError, match=message) as caught:
            load_model(tmp_path)
        assert "\n" not in str(caught.value) and str(tmp_path / WEIGHTS) in str(caught.value)
    (tmp_path / CONFIG).write_text('{"model":' + "[" * 9999)
    with pytest.raises(ValueError, match="is not JSON .nested more than 100 levels"):
        load_model(tmp_path)


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_pipes_are_not_waited_for(tmp_path, name):
    save_model(build_model("fno", **SMALL), tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(ValueError, match=f"{name} is not a regular file"):
        load_model(tmp_path)


def test_a_model_that_the_meta_device_cannot_make_is_compared_all_the_same():
    def build(size=3):
        model = torch.nn.Linear(size, 2)
        float(torch.ones(()))  # which the meta device does not know
        return model

    stored = {"weight": Stored((2, 3), torch.float32), "bias": Stored((2,), torch.float32)}
    assert build_to_fit(build, stored, "file").weight.device.type == "cpu"
    with pytest.raises(ValueError, match="file is another model's: weight has shape"):
        build_to_fit(lambda: build(4), stored, "file")
    with pytest.raises(ValueError, match="file: the model in its description takes .* bytes of memory"):
        build_to_fit(lambda: build(10**10), stored, "file")


def test_the_best_model_of_a_run_is_compared_before_it_is_built(tmp_path):
    from sciops.training.checkpoints import model_tensors, save_checkpoint

    model, x = build_model("fno", **SMALL).double(), randn(2, 1, 9, 9).double()
    save_checkpoint(
        tmp_path / "best.safetensors", model_tensors(model), {"model": json.loads(json.dumps(model.config))}
    )
    assert torch.equal(load_model(tmp_path)(x), model(x))
    wide = {"name": "fno", "options": dict(SMALL, width=20_000)}
    save_checkpoint(tmp_path / "best.safetensors", model_tensors(model), {"model": wide})
    with pytest.raises(ValueError, match="best.safetensors: the model in its description takes .* bytes of memory"):
        load_model(tmp_path)


def test_the_bounds_of_a_description_are_those_of_the_budget(tmp_path):
    save_model(build_model("fno", **SMALL), tmp_path)
    for budget, message in (
        (Budget(bytes=50_000), "model in its description takes .* more than the 5e[+]04 besides its own size"),
        (Budget(seconds=1e-4), "takes .* seconds of computing, more than the 0.0001"),
    ):
        with pytest.raises(ValueError, match=message):
            rewrite(tmp_path, lambda model: model["options"].update(width=40))
            load_model(tmp_path, budget=budget)
    for path in tmp_path.iterdir():
        path.unlink()
    save_model(build_model("fno", **SMALL), tmp_path)
    assert load_model(tmp_path, budget=Budget(bytes=1e5, objects=1000)).config["name"] == "fno"


@pytest.mark.parametrize(
    "name, options, change",
    [
        ("fno", SMALL, {"depth": 10**6}),
        ("language", dict(symbols=9, width=8, depth=1), {"depth": 10**6}),
        ("language", dict(symbols=9, width=8, depth=1), {"symbols": 10**9}),
        ("neuralop:FNO", SMALL, {"depth": 10**6}),
        ("neuralop:FNO", SMALL, {"width": 10**6}),
        ("transformers:ViT", dict(width=8, depth=1, heads=2, image_size=8), {"depth": 10**6}),
        ("transformers:ViT", dict(width=8, depth=1, heads=2, image_size=8), {"width": 10**6}),
        ("transformers:ViT", dict(width=8, depth=1, heads=2, image_size=8), {"image_size": 10**6}),
        (
            "transformers:SwinV2",
            dict(width=8, depths=[1], heads=[2], image_size=8, window=2),
            {"window": 10**4, "image_size": 10**6},
        ),
    ],
)
def test_no_description_takes_the_machine_whoever_builds_it(tmp_path, name, options, change):
    """A million layers, a thousand gigabytes: whoever's layers they are."""
    save_model(build_model(name, **options), tmp_path)
    rewrite(tmp_path, lambda model: model["options"].update(change))
    began = time.thread_time()
    with pytest.raises(ValueError) as caught:
        load_model(tmp_path)
    assert "\n" not in str(caught.value) and time.thread_time() - began < 10
