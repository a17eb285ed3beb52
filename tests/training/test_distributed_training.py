"""Several gloo processes under torchrun give what one process gives, to round-off, and go on with its checkpoints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_resume import QUIET, data, fields, network
from warm import launch, python, undrawn

from sciops.datasets import Splits
from sciops.files.json_files import read_jsonl
from sciops.models import build_model
from sciops.training import fit, load_checkpoint
from studies.kit.fields.smooth import write_fields
from studies.train import PRESETS, run

pytestmark = pytest.mark.slow
KEYS = ("loss", "validation", "gradient_norm", "rate", "step")


def assert_close_runs(a: Path, b: Path, tolerance: float, *, epochs: int | None = None) -> None:
    """Both folders log the same numbers, and hold the same parameters and optimiser state, to `tolerance`."""
    logs = [read_jsonl(folder / "log.jsonl")[:epochs] for folder in (a, b)]
    assert len(logs[0]) == len(logs[1]) > 1
    for p, q in zip(*logs):
        for key in KEYS:
            assert q[key] == pytest.approx(p[key], rel=tolerance), (key, p["epoch"])
        for grid, value in p.get("validation_by_grid", {}).items():
            assert q["validation_by_grid"][grid] == pytest.approx(value, rel=tolerance)
    if epochs is not None:
        return
    for name in ("last.safetensors", "best.safetensors"):
        (one, one_state), (two, two_state) = (load_checkpoint(folder / name) for folder in (a, b))
        assert set(one) == set(two)
        for key, value in one.items():
            scale = value.abs().max().item() if value.numel() else 0.0
            torch.testing.assert_close(two[key], value, rtol=10 * tolerance, atol=10 * tolerance * scale, msg=key)
        assert one_state.get("epochs") == two_state.get("epochs")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The command's flags and config for two grids; 21 fields in batches of 8 leave one of 5, to be shared unevenly."""
    folder = tmp_path_factory.mktemp("study")
    path = write_fields(folder / "fields.h5", (17, 9), train=21, validation=5, test=3, seed=1)
    config = replace(
        PRESETS["quick"],
        data=path,
        resolution=(17, 9),
        epochs=4,
        width=6,
        depth=2,
        modes=3,
        options=("basis=cosine",),
        precision="float64",
        clip=0.3,
        weight_decay=0.05,
        folder=folder / "one",
        progress=False,
        device="cpu",
    )
    flags = f"--preset quick --data {path} --resolution 17 9 --epochs 4 --width 6 --depth 2 --modes 3"
    flags += " --options basis=cosine --precision float64 --clip 0.3 --weight-decay 0.05 --no-progress --device cpu"
    with undrawn():
        run(config)
    return folder, config, flags.split()


@undrawn()
def test_two_processes_give_the_curve_of_one_and_one_goes_on_where_two_stopped(study):
    folder, config, flags = study
    launch("studies.train", [*flags, "--folder", str(folder / "21"), "--stop-after", "2"], processes=2)
    assert_close_runs(folder / "one", folder / "21", 1e-11, epochs=2)
    assert load_checkpoint(folder / "21" / "last.safetensors")[1]["epochs"] == 2
    run(replace(config, folder=folder / "21"))
    assert_close_runs(folder / "one", folder / "21", 1e-10)
    tests = [json.loads((folder / name / "results.json").read_text())["test"] for name in ("one", "21")]
    for grid, kinds in tests[0].items():
        assert tests[1][grid]["model"]["relative_l2"] == pytest.approx(kinds["model"]["relative_l2"], rel=1e-9)


@undrawn()
def test_two_go_on_sharded_and_in_micro_batches_where_one_stopped(study):
    folder, config, flags = study
    run(replace(config, folder=folder / "12", stop_after=2))
    more = ["--folder", str(folder / "12"), "--strategy", "fsdp", "--accumulate", "3"]
    launch("studies.train", [*flags, *more], processes=2)
    assert_close_runs(folder / "one", folder / "12", 1e-10)


def plain() -> torch.nn.Module:
    """Without dropout and batch statistics, which differ by process."""
    return torch.nn.Sequential(
        *(layer for layer in network() if not isinstance(layer, (torch.nn.BatchNorm2d, torch.nn.Dropout)))
    )


def one_grid() -> Splits:
    """What is compiled for each shape of batch and grid: two batches of 8 and one of 4."""
    return Splits(fields(20, 0), fields(8, 2))


class Exploding(torch.nn.Module):
    """Infinite from its seventh forward pass on, with a scalar and a complex parameter, which cannot be sharded."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.calls = plain(), 0
        self.scalar = torch.nn.Parameter(torch.tensor(0.5))
        self.complex = torch.nn.Parameter(torch.tensor([[0.1 + 0.2j, 0.3 - 0.1j]]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += self.training
        factor = self.complex.abs().sum() * (float("inf") if self.calls > 6 else 1.0)
        return self.inner(x) * self.scalar * factor


def neural() -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build_model("neuralop:FNO", in_channels=1, out_channels=1, width=4, depth=1, modes=(2, 2))


EXACT = replace(QUIET, epochs=3, precision="float64", augment="square", device="cpu")
SINGLE = replace(EXACT, precision="float32", batch_size=9)
FSDP = {"strategy": "fsdp"}
# name: (model, data, config, what differs under torchrun, tolerance)
CASES = {
    "ddp": (plain, data, EXACT, {}, 1e-11),
    "ddp-pieces": (plain, data, EXACT, {"accumulate": 2}, 1e-11),
    "fsdp": (plain, data, EXACT, FSDP, 1e-11),
    "fsdp-pieces": (plain, data, EXACT, FSDP | {"accumulate": 3, "keep": "last"}, 1e-11),
    "single": (plain, data, SINGLE, {}, 1e-5),
    "single-fsdp": (plain, data, SINGLE, FSDP, 1e-5),
    "complex": (neural, data, SINGLE, {}, 1e-5),
    "complex-fsdp": (neural, data, SINGLE, FSDP, 1e-5),
    "compiled-ddp": (plain, one_grid, EXACT, {"compile": "aot_eager"}, 1e-10),
    "compiled-fsdp": (plain, one_grid, EXACT, FSDP | {"compile": "aot_eager"}, 1e-10),
}

_SCRIPT = """
    import os, sys, warnings
    from dataclasses import replace
    from pathlib import Path
    import torch
    sys.path.insert(0, sys.argv[2])
    from test_distributed_training import CASES, EXACT, Exploding
    from test_resume import data
    from sciops.datasets import Splits
    from sciops.training import NonFiniteLoss, fit

    folder, rank = Path(sys.argv[1]), os.environ["RANK"]
    said = []
    for name, (model, splits, config, changes, _) in CASES.items():
        config = replace(config, folder=folder / name, **changes)
        if name != "compiled-ddp":  # in two calls: what one call of several processes wrote is what the next one reads
            fit(model(), splits(), replace(config, stop_after=1))
        run = fit(model(), splits(), replace(config, resume=True))
        total = sum(p.detach().abs().double().sum().item() for p in run.model.parameters())
        said.append(f"{name} {total!r} {sorted({type(p).__name__ for p in run.model.parameters()})}")
    model = Exploding()
    try:
        fit(model, data(), replace(EXACT, epochs=3, strategy="fsdp", keep="last"))
    except NonFiniteLoss as error:
        said.append(f"{error} | {[p.detach().abs().sum().item() for p in model.parameters()]!r}")
    broken = data()
    broken.train[1].y[3] = float("nan")
    try:
        fit(CASES["ddp"][0](), broken, EXACT)
    except ValueError as error:
        said.append(str(error))
    Path(f"{folder}-{rank}.txt").write_text("\\n".join(said))
"""


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Every case run by two processes in one launch: (folder, what each process had to say)."""
    folder = tmp_path_factory.mktemp("together")
    arguments = ["-c", _SCRIPT, str(folder / "two"), str(Path(__file__).parent)]
    done = python(arguments, timeout=300, processes=2)
    assert done.returncode == 0, done.stderr[-3000:]
    # a file a process: lines of two processes can run into each other
    return folder / "two", [(folder / f"two-{rank}.txt").read_text().splitlines() for rank in (0, 1)]


@pytest.mark.parametrize("name", CASES)
def test_two_processes_equal_one_to_round_off(together, tmp_path, name):
    model, splits, config, _, tolerance = CASES[name]
    fit(model(), splits(), replace(config, folder=tmp_path))
    assert_close_runs(tmp_path, together[0] / name, tolerance)


def test_every_process_ends_with_the_same_bits_in_a_plain_model(together):
    assert together[1][0] == together[1][1]
    for line in together[1][0][: len(CASES)]:
        assert line.endswith("['Parameter']"), line


def test_a_loss_that_is_not_finite_leaves_the_last_good_state_whole_on_each(together):
    message, values = together[1][0][len(CASES)].split(" | ")
    assert "gradient norm is" in message and "epoch 2, step 7," in message  # five steps an epoch
    assert "the model holds the state after epoch 1" in message
    model = Exploding()
    good = fit(model, data(), replace(EXACT, epochs=3, keep="last", stop_after=1)).model
    assert json.loads(values) == pytest.approx([p.detach().abs().sum().item() for p in good.parameters()], rel=1e-10)


def test_bad_fields_are_refused_on_every_process(together):
    for said in together[1]:
        assert "training sample 3 of grid (5, 5) holds values that are not finite in 'y'" in said[-1]


def test_strategies_change_nothing_for_one_process():
    runs = [fit(plain(), Splits(data().train), replace(EXACT, epochs=2, strategy=s)) for s in ("ddp", "fsdp")]
    for p, q in zip(*(done.model.state_dict().values() for done in runs)):
        assert torch.equal(p, q)
