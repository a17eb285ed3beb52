"""A run that is stopped, or killed at any moment, and resumed ends bit-equal to one that never stopped."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from warm import python

from sciops.datasets import Splits, TensorFields
from sciops.files.json_files import read_jsonl
from sciops.grids import Grid
from sciops.models import build_model
from sciops.symmetry import Symmetry
from sciops.training import TrainConfig, fit, load_checkpoint, save_checkpoint

QUIET = TrainConfig(epochs=4, batch_size=8, clip=0.5, progress=False)


def fields(n: int, seed: int, points: int = 8) -> TensorFields:
    random = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 1, points, points, generator=random)
    return TensorFields(x, 3 + 2 * x + x.roll(1, -1), Grid((points, points)), symmetry=Symmetry.of_scalars())


def data() -> Splits:
    return Splits([fields(20, 0), fields(9, 1, points=5)], fields(8, 2))


def network(seed: int = 0) -> nn.Module:
    """With dropout and running statistics: state that is neither parameter nor optimiser."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.GELU(), nn.Dropout(0.1), nn.Conv2d(6, 1, 1)
        )


def without_clock(history: list[dict]) -> list[dict]:
    return [{key: value for key, value in record.items() if key != "seconds"} for record in history]


def assert_same(a: Path, b: Path) -> None:
    """Both folders hold the same parameters, optimiser state and log values, bit for bit."""
    for name in ("last.safetensors", "best.safetensors"):
        (left, left_state), (right, right_state) = load_checkpoint(a / name), load_checkpoint(b / name)
        assert set(left) == set(right)
        for key in left:
            assert torch.equal(left[key], right[key]), (name, key)
        for state in (left_state, right_state):
            state.pop("seconds", None)
            state["history"] = without_clock(state.get("history", []))
        assert left_state == right_state
    assert without_clock(read_jsonl(a / "log.jsonl")) == without_clock(read_jsonl(b / "log.jsonl"))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"augment": "square", "schedule": "cosine", "checkpoint_every": 3, "validate_every": 3},
        {"precision": "float64", "cycle_beta1": True, "objective": "h1"},
        {"precision": "bf16", "grid_order": "sequential"},
        {"precision": "fp16", "clip": None},
    ],
    ids=lambda c: "-".join(map(str, c.values())) or "default",
)
def test_four_epochs_are_two_and_two_resumed(tmp_path, changes):
    config = replace(QUIET, **changes)
    whole = fit(network(), data(), replace(config, folder=tmp_path / "whole"))
    half = fit(network(), data(), replace(config, folder=tmp_path / "halves", stop_after=2))
    assert (half.epochs, half.complete, whole.complete) == (2, False, True)
    # the resumed call gets other initial parameters: all must come from the checkpoint
    resumed = fit(network(seed=9), data(), replace(config, folder=tmp_path / "halves", resume=True))
    assert_same(tmp_path / "whole", tmp_path / "halves")
    assert resumed.complete and resumed.steps == whole.steps and resumed.best_epoch == whole.best_epoch
    assert without_clock(resumed.history) == without_clock(whole.history)
    for p, q in zip(whole.model.state_dict().values(), resumed.model.state_dict().values()):
        assert torch.equal(p, q)


def test_a_folder_changes_nothing_and_a_finished_run_is_read_back(tmp_path):
    memory = fit(network(), data(), QUIET)
    disk = fit(network(), data(), replace(QUIET, folder=tmp_path))
    again = fit(network(seed=3), data(), replace(QUIET, folder=tmp_path, resume=True))
    assert without_clock(memory.history) == without_clock(disk.history) == without_clock(again.history)
    assert again.seconds == disk.seconds and again.complete
    for p, q, r in zip(*(run.model.state_dict().values() for run in (memory, disk, again))):
        assert torch.equal(p, q) and torch.equal(q, r)


def test_the_best_epoch_survives_a_resume_that_finds_nothing_better(tmp_path):
    # the rate is so large that the model gets worse after it was good
    config = replace(QUIET, epochs=8, learning_rate=0.3, schedule="constant", clip=None, folder=tmp_path)
    whole = fit(network(), data(), replace(config, folder=tmp_path / "whole"))
    for stop in range(1, 9):
        run = fit(
            network(seed=stop - 1), data(), replace(config, folder=tmp_path / "steps", resume=True, stop_after=stop)
        )
    assert_same(tmp_path / "whole", tmp_path / "steps")
    assert run.best_epoch == whole.best_epoch < 8
    for p, q in zip(whole.model.state_dict().values(), run.model.state_dict().values()):
        assert torch.equal(p, q)


def test_operators_of_the_house_resume_exactly_too(tmp_path):
    def build(seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return build_model("fno", in_channels=1, out_channels=1, width=8, depth=2, modes=(2, 2))

    config = replace(QUIET, epochs=3)
    fit(build(0), data(), replace(config, folder=tmp_path / "whole"))
    fit(build(0), data(), replace(config, folder=tmp_path / "halves", stop_after=1))
    fit(build(1), data(), replace(config, folder=tmp_path / "halves", resume=True))
    assert_same(tmp_path / "whole", tmp_path / "halves")


def test_a_file_from_before_says_nothing_of_its_validation_and_goes_on(tmp_path):
    whole = fit(network(), data(), replace(QUIET, folder=tmp_path / "whole"))
    fit(network(), data(), replace(QUIET, folder=tmp_path / "halves", stop_after=2))
    path = tmp_path / "halves" / "last.safetensors"
    tensors, state = load_checkpoint(path)
    assert state.pop("validation")[0].startswith("8 ")
    save_checkpoint(path, tensors, state)
    resumed = fit(network(seed=4), data(), replace(QUIET, folder=tmp_path / "halves", resume=True))
    assert without_clock(resumed.history) == without_clock(whole.history)


class Phase(nn.Module):
    """A complex parameter, and a complex table, as spectral models of others have them."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(1, 1, 1, 2, dtype=torch.complex64, generator=random))
        self.register_buffer("shift", torch.tensor([1.0 + 0j, 0.5j]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert (
            self.shift.dtype == self.weight.dtype == (torch.complex64 if x.dtype == torch.float32 else torch.complex128)
        )
        return (self.weight * self.shift * x[..., None]).sum(-1).real


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("ema", [None, 0.9])
def test_complex_parameters_are_kept_and_resumed_in_either_precision(tmp_path, precision, ema):
    config = replace(QUIET, precision=precision, ema=ema)
    whole = fit(Phase(), data(), replace(config, folder=tmp_path / "whole"))
    fit(Phase(), data(), replace(config, folder=tmp_path / "halves", stop_after=2))
    resumed = fit(Phase(seed=1), data(), replace(config, folder=tmp_path / "halves", resume=True))
    assert_same(tmp_path / "whole", tmp_path / "halves")
    weight, again = whole.model.model.weight, resumed.model.model.weight
    assert weight.is_complex() and torch.equal(weight, again) and weight.imag.abs().max() > 0


def test_another_config_data_model_or_an_unasked_resume_is_refused_in_one_line(tmp_path):
    config = replace(QUIET, folder=tmp_path, stop_after=1)
    fit(network(), data(), config)
    before = (tmp_path / "last.safetensors").read_bytes()
    with pytest.raises(ValueError, match="holds a run; pass resume=True"):
        fit(network(), data(), config)
    again = replace(config, resume=True, stop_after=2)
    with pytest.raises(ValueError, match="trained with learning_rate=0.005, this config has 0.01"):
        fit(network(), data(), replace(again, learning_rate=0.01))
    with pytest.raises(ValueError, match="epochs=4, this config has 5.*start another run from this one"):
        fit(network(), data(), replace(again, epochs=5))
    with pytest.raises(ValueError, match="epochs=4, this config has 3.*set stop_after and leave epochs"):
        fit(network(), data(), replace(again, epochs=3))
    turned = data()
    for part in turned.train:
        part.symmetry = Symmetry(("scalar",), ("pseudoscalar",))
    augmented = replace(config, folder=tmp_path / "augmented", augment="square")
    fit(network(), data(), augmented)
    with pytest.raises(ValueError, match="was augmented by other symmetries"):
        fit(network(), turned, replace(augmented, resume=True, stop_after=2))
    other = data()
    other.train[0].x[0, 0, 0, 0] += 1
    with pytest.raises(ValueError, match="trained on other fields"):
        fit(network(), other, again)
    for others in (fields(7, 2), fields(8, 3), None, [fields(8, 2), fields(3, 2, points=5)]):
        with pytest.raises(ValueError, match="validated on other fields, with which its best epoch cannot be compared"):
            fit(network(), Splits(data().train, others), again)
    with pytest.raises(ValueError, match="belongs to another model: .*model.0.weight"):
        fit(nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), *network()[1:]), data(), again)
    assert (tmp_path / "last.safetensors").read_bytes() == before
    (tmp_path / "last.safetensors").write_bytes(before[:-100])
    with pytest.raises(ValueError, match="last.safetensors is damaged"):
        fit(network(), data(), again)


_KILLED = """
    import json, os, signal, sys, time
    from dataclasses import replace
    from pathlib import Path
    import torch
    from tqdm import tqdm
    torch.set_num_threads(1)
    tqdm.monitor_interval = 0  # a lock that its thread holds at a fork would never be given back
    sys.path.insert(0, sys.argv[2])
    from test_resume import QUIET, data, fit, network

    base = Path(sys.argv[1])
    fit(network(), data(), replace(QUIET, epochs=1))  # everything that loads late is loaded before the forks

    def counting(function, at, seen):
        def call(*arguments):
            seen[0] += 1
            if seen[0] == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments)
        return call

    def run(folder, **kill):
        process = os.fork()
        if process == 0:
            if "at" in kill:
                seen = [0]
                os.fsync, os.replace = (counting(f, kill["at"], seen) for f in (os.fsync, os.replace))
            fit(network(), data(), replace(QUIET, folder=folder, resume=True))
            os._exit(0)
        if "after" in kill:
            time.sleep(kill["after"])
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)

    signals = {"whole": run(base / "whole")}
    for at in (1, 2, 3, 5, 8, 12, 16):
        signals[f"write{at}"] = run(base / f"write{at}", at=at)
    for after in (0.03, 0.1):
        signals[f"time{after}"] = run(base / f"time{after}", after=after)
    # one folder that is killed at its second write again and again until it gets through
    tries = 0
    while run(base / "often", at=7) != 0 and tries < 20:
        tries += 1
    signals["often"] = 9 if tries else 0
    print(json.dumps(signals))
"""


@pytest.fixture
def one_thread():
    """The same bits need the same number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_a_run_killed_at_any_moment_resumes_to_the_same_bits(tmp_path, one_thread):
    done = python(["-c", _KILLED, str(tmp_path), str(Path(__file__).parent)], timeout=120)
    assert done.returncode == 0, done.stderr
    signals = json.loads(done.stdout)
    assert signals.pop("whole") == 0
    for name, number in signals.items():
        assert number in ((9,) if name.startswith(("write", "often")) else (9, 0)), name
        # where a checkpoint was written, all must come from it; before the first one the run begins anew
        begun = (tmp_path / name / "last.safetensors").exists()
        run = fit(network(seed=5 if begun else 0), data(), replace(QUIET, folder=tmp_path / name, resume=True))
        assert run.complete
        assert_same(tmp_path / "whole", tmp_path / name)


@pytest.mark.parametrize("limit", ["epochs", "seconds"])
def test_a_finished_run_with_a_constant_rate_goes_on_to_more_epochs(tmp_path, limit):
    constant = replace(QUIET, schedule="constant", epochs=3)
    if limit == "seconds":
        constant = replace(constant, seconds=1e6)
    whole = fit(network(), data(), constant)
    folder = tmp_path / "run"
    short = replace(constant, folder=folder, resume=True, epochs=2)
    assert fit(network(), data(), short).complete
    longer = fit(network(), data(), replace(short, epochs=3))
    assert longer.complete and longer.epochs == 3
    assert [record["loss"] for record in longer.history] == [record["loss"] for record in whole.history]
    for p, q in zip(whole.model.state_dict().values(), longer.model.state_dict().values()):
        assert torch.equal(p, q)
    with pytest.raises(ValueError, match="epochs=3, this config has 2.*it has done 3 already"):
        fit(network(), data(), replace(short, epochs=2))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"schedule": "onecycle"}, "schedule='onecycle' has other rates for another number of epochs"),
        ({"schedule": "cosine"}, "schedule='cosine' has other rates"),
        ({"grid_order": "sequential"}, "grid_order='sequential' gives each grid a share of all epochs"),
        (
            {"gradients": "highway", "gradient_options": {"iterations": {0: 1, 0.5: 2}}},
            "gradient_options change at shares of all epochs",
        ),
    ],
)
def test_more_epochs_are_refused_where_what_was_done_depends_on_their_number(tmp_path, changes, reason):
    config = replace(QUIET, **{"schedule": "constant", "epochs": 1, "folder": tmp_path, "resume": True} | changes)
    model = (lambda: build_model("fno", width=4, depth=1, modes=(2, 2))) if "gradients" in changes else network
    fit(model(), data(), config)
    with pytest.raises(ValueError, match=f"epochs=1, this config has 2.*{reason}"):
        fit(model(), data(), replace(config, epochs=2))


def test_a_checkpoint_with_a_right_digest_that_no_run_wrote_is_refused_in_one_line(tmp_path):
    """Whoever writes the file writes the digest; what it covers still has to be the state of this run."""
    config = replace(QUIET, epochs=1, folder=tmp_path, schedule="constant")
    fit(network(), data(), config)
    path = tmp_path / "last.safetensors"
    tensors, state = load_checkpoint(path)
    moments = [name for name in tensors if name.startswith("optimizer/")]
    without = {name: value for name, value in tensors.items() if name != moments[0]}
    changed = [
        *((name, value) for name in ("epochs", "steps", "best_epoch") for value in ("1", -1, 1.0, True, None, 10**400)),
        *(("seconds", value) for value in ("nan", -1, None)),
        *(("history", value) for value in ("x", None, {}, [], [1], [{}], [{"step": "x", "seconds": 1}])),
        *(("best", value) for value in ("x", [], {})),
        *((name, value) for name in ("config", "scaler", "model") for value in ([1], "x", 3)),
        *((name, value) for name in ("data", "moves", "validation") for value in (None, 3)),
    ]
    files = [(tensors, {**state, name: value}) for name, value in changed]
    files += [(tensors, {key: value for key, value in state.items() if key != name}) for name in ("epochs", "config")]
    files += [(tensors, [1]), (tensors, 3), (tensors, {}), (without, state)]
    files += [({**tensors, name: torch.ones(3)}, state) for name in (moments[0], "optimizer/x", "best/x", "model/x")]
    for held, said in files:
        save_checkpoint(path, held, said)
        with pytest.raises(ValueError) as caught:
            fit(network(), data(), replace(config, epochs=2, resume=True))
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)
        assert "KeyError" not in str(caught.value) and "Error" not in str(caught.value), str(caught.value)
    save_checkpoint(path, tensors, state)
    assert fit(network(), data(), replace(config, epochs=2, resume=True)).epochs == 2
