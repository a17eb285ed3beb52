"""Compiled and eager training are one run: the same numbers to rounding, the same names in the files."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import torch
import torch._inductor.config
from test_resume import QUIET, fields, network
from torch import nn

from sciops.datasets import Splits
from sciops.models import build_model
from sciops.training import fit, load_checkpoint

# torch warns about its own tracing, its own code and its own deprecations, and wraps what becomes an error meanwhile
pytestmark = pytest.mark.filterwarnings("ignore")
EXACT = replace(QUIET, epochs=3, precision="float64", device="cpu")


def operator() -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build_model("fno", in_channels=1, out_channels=1, width=6, depth=1, modes=(2, 2))


def data() -> Splits:
    """Two grids, each in batches of 8, and validation fields."""
    return Splits([fields(16, 0), fields(8, 1, points=6)], fields(8, 2))


@pytest.fixture(scope="module")
def eager(tmp_path_factory):
    folder = tmp_path_factory.mktemp("eager")
    return fit(operator(), data(), replace(EXACT, folder=folder))


def test_a_compiled_run_has_the_curve_and_the_files_of_an_eager_one(eager, tmp_path):
    run = fit(operator(), data(), replace(EXACT, folder=tmp_path, compile="aot_eager"))
    for a, b in zip(eager.history, run.history):
        for key in ("loss", "validation", "gradient_norm"):
            assert b[key] == pytest.approx(a[key], rel=1e-12)
    for name in ("last.safetensors", "best.safetensors"):
        (one, _), (two, _) = (load_checkpoint(folder / name) for folder in (eager.folder, tmp_path))
        assert set(one) == set(two) and not any("_orig_mod" in key for key in one)
        for key in one:
            torch.testing.assert_close(two[key], one[key], rtol=1e-9, atol=1e-12, msg=key)
    # nothing compiled stays with the model
    assert all(module._compiled_call_impl is None for module in run.model.modules())


def test_each_goes_on_where_the_other_stopped(eager, tmp_path):
    for name, order in (("ec", (False, "aot_eager")), ("ce", ("aot_eager", False))):
        config = replace(EXACT, folder=tmp_path / name)
        fit(operator(), data(), replace(config, stop_after=1, compile=order[0]))
        rest = fit(operator(), data(), replace(config, resume=True, compile=order[1]))
        for a, b in zip(eager.history, rest.history):
            assert b["loss"] == pytest.approx(a["loss"], rel=1e-12)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler for torch's generated code")
def test_generated_code_gives_the_curve_too(monkeypatch):
    monkeypatch.setattr(torch._inductor.config, "compile_threads", 1)
    model, one_shape = (lambda: nn.Sequential(network()[0], network()[2], network()[4])), Splits(fields(16, 0))
    reference, run = (fit(model(), one_shape, replace(EXACT, compile=c)) for c in (False, True))
    for a, b in zip(reference.history, run.history):
        assert b["loss"] == pytest.approx(a["loss"], rel=1e-10)


def test_an_unknown_mode_is_named_in_one_line(tmp_path):
    with pytest.raises(ValueError, match="compile='fast': expected true, false or one of default, .*reduce-overhead"):
        fit(operator(), data(), replace(EXACT, compile="fast"))
