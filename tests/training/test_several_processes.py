"""What three processes do where a step, or a grid, has less for them than one sample each; and what they refuse."""

from __future__ import annotations

import functools
import os
import subprocess
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_distributed_training import EXACT, assert_close_runs, plain
from test_resume import fields, network
from warm import python

from sciops.datasets import Splits, TensorFields
from sciops.grids import Grid
from sciops.models import Recurrent, build_model
from sciops.training import evaluate, fit, load_checkpoint, load_model_tensors
from sciops.training.parallel import Processes
from studies.kit.launch import launch


def small() -> Splits:
    """Seven fields in batches of two, and of one at the end: never one for each of three processes."""
    return Splits(fields(7, 0), fields(4, 2))


def signals() -> Splits:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(11, 2, 12, generator=random)
    y = x.cumsum(-1)[:, :1]
    grid = Grid((12,))
    return Splits(TensorFields(x[:7], y[:7], grid), TensorFields(x[7:], y[7:], grid))


def orthogonal() -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build_model("orthogonal", in_channels=1, out_channels=1, kind="spectral", width=6, depth=3, modes=[3, 3])


def recurrent() -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Recurrent(2, 1, width=5, depth=2)


class Sometimes(torch.nn.Module):
    """Has a parameter for grids of five points alone, and one for none."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = plain()
        self.five, self.never = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * (self.five.mean() if x.shape[-1] == 5 else 1.0)


def two_grids() -> Splits:
    return Splits([fields(5, 0), fields(3, 1, points=5)], fields(4, 2))


FEW = replace(EXACT, batch_size=2, augment="none")
# name: (model, data, config, what differs under torchrun)
CASES = {
    "ddp": (plain, small, FEW, {}),
    "ddp-pieces": (plain, small, FEW, {"accumulate": 2}),
    "fsdp": (plain, small, FEW, {"strategy": "fsdp"}),
    "fsdp-sometimes": (Sometimes, two_grids, FEW, {"strategy": "fsdp"}),
    "forward_only": (orthogonal, small, replace(FEW, gradients="forward_only", clip=None), {}),
    "state_feedback": (recurrent, signals, replace(FEW, gradients="state_feedback"), {}),
    "highway": (recurrent, signals, replace(FEW, gradients="highway"), {}),
}

_SCRIPT = """
    import os, sys
    from dataclasses import replace
    from pathlib import Path
    sys.path.insert(0, sys.argv[2])
    from test_several_processes import CASES, FEW, Sometimes, fields, network, plain, small
    from sciops.datasets import Splits
    from sciops.training import fit

    folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
    said = []
    for name, (model, data, config, changes) in CASES.items():
        fit(model(), data(), replace(config, folder=folder / name, **changes))
    for strategy in ("ddp", "fsdp"):
        data = Splits(fields(8, 0), fields(4, 2))  # in the last step too processes see different fields
        run = fit(network(), data, replace(FEW, folder=folder / f"statistics-{strategy}", strategy=strategy))
        said.append(repr([b.double().sum().item() for b in run.model.buffers()]))
    for model, data, config in (
        (plain(), Splits(fields(7 + (rank == 1), 0), fields(4, 2)), FEW),
        (plain(), small(), replace(FEW, folder=folder / ("ddp" if rank < 2 else "elsewhere"), resume=True)),
        (plain(), small(), replace(FEW, device="cuda:1")),
        (Sometimes(), small(), FEW),
    ):
        try:
            fit(model, data, config)
        except ValueError as error:
            said.append(str(error))
    Path(f"{folder}-{rank}.txt").write_text("\\n".join(said))
"""


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """All of it in one launch: (folder, what each process had to say)."""
    folder = tmp_path_factory.mktemp("three")
    arguments = ["-c", _SCRIPT, str(folder / "all"), str(Path(__file__).parent)]
    done = python(arguments, timeout=200, processes=3)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "all", [(folder / f"all-{rank}.txt").read_text().splitlines() for rank in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_three_processes_equal_one_with_fewer_samples_than_processes(together, tmp_path, name):
    model, data, config, _ = CASES[name]
    fit(model(), data(), replace(config, folder=tmp_path))
    assert_close_runs(tmp_path, together[0] / name, 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_what_is_validated_is_what_is_written_running_statistics_too(together, strategy):
    tensors, state = load_checkpoint(together[0] / f"statistics-{strategy}" / "best.safetensors")
    # the wrapper with its normalisers, filled from the file
    model = fit(network(), small(), replace(FEW, epochs=1)).model
    load_model_tensors(model, tensors, "best")
    errors = evaluate(model, small().validation)["relative_l2"]
    assert errors.mean() == pytest.approx(state["validation"], rel=1e-12)
    number = ("ddp", "fsdp").index(strategy)
    assert len({said[number] for said in together[1]}) == 1


@pytest.mark.slow
def test_processes_that_see_other_data_or_another_folder_are_refused_on_each(together):
    for said in together[1]:
        assert "process 1 has sizes of data sets [8, 4], process 0 [7, 4]: every machine has to see" in said[2]
        assert "process 2 has finished epochs 0, process 0 3: every machine has to see the same data" in said[3]
        assert "device='cuda:1' is for one process" in said[4]
        assert "does not depend on parameter 'model.five', and strategy='ddp' averages" in said[5]


_FAILING = """
    import os, sys
    from dataclasses import replace
    sys.path[:0] = [sys.argv[2], f"{sys.argv[2]}/.."]
    from test_several_processes import FEW, fields, plain, small
    from sciops.commands.command_line import guarded
    from sciops.datasets import Splits
    from sciops.training import fit

    train, calls, real = fields(7, 0), 0, type(fields(1, 0)).batch
    def batch(self, indices):
        global calls
        calls += 1
        if calls > 20 and os.environ["RANK"] == "1":
            raise OSError("fields.h5: sample 3 cannot be read")
        return real(self, indices)
    type(train).batch = batch
    guarded(lambda: fit(plain(), Splits(train, fields(4, 2)), replace(FEW, epochs=10**5, folder=sys.argv[1])))
"""


@pytest.mark.slow
def test_an_error_in_one_process_ends_all_and_what_was_written_is_whole(tmp_path, monkeypatch):
    """Under torchrun itself, which the others here do without."""
    (tmp_path / "failing.py").write_text(textwrap.dedent(_FAILING))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(subprocess, "run", functools.partial(subprocess.run, timeout=300))
    with pytest.raises(RuntimeError, match="failed: error: fields.h5: sample 3 cannot be read$"):
        launch("failing", [str(tmp_path / "run"), str(Path(__file__).parent)], processes=2)
    assert load_checkpoint(tmp_path / "run" / "last.safetensors")[1]["epochs"] >= 1
    assert not list((tmp_path / "run").glob(".*.tmp"))


@pytest.mark.parametrize(
    ("environment", "devices", "device", "reason"),
    [
        ({}, 0, "cuda", "device='cuda': there is no CUDA device here; pass device='auto' or 'cpu'"),
        ({}, 2, "cuda:2", "device='cuda:2': expected a number below 2"),
        ({}, 0, "gpu", "device='gpu': expected 'auto', 'cpu', 'cuda'"),
        ({"WORLD_SIZE": "2"}, 0, "cuda", "there is no CUDA device here"),
        ({"WORLD_SIZE": "2"}, 2, "cuda:0", "device='cuda:0' is for one process"),
        ({"WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3"}, 2, "auto", "3 processes on this machine, which has 2 CUDA"),
    ],
)
def test_devices_that_are_not_there_are_named_before_anything_starts(monkeypatch, environment, devices, device, reason):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: devices > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    with pytest.raises(ValueError, match=reason):
        Processes(replace(FEW, device=device))


@pytest.mark.parametrize(("asked", "backend", "device"), [("auto", "nccl", "cuda:1"), ("cpu", "gloo", "cpu")])
def test_a_process_joins_by_the_backend_of_its_device_which_is_the_one_of_its_local_rank(
    monkeypatch, asked, backend, device
):
    for name, value in (("WORLD_SIZE", "4"), ("RANK", "3"), ("LOCAL_RANK", "1"), ("LOCAL_WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    joined, current = [], []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    for name, stand_in in (
        ("is_initialized", lambda: bool(joined)),
        ("init_process_group", lambda *given, **options: joined.append((*given, options["device_id"]))),
        ("get_rank", lambda: 3),
        ("get_world_size", lambda: 4),
    ):
        monkeypatch.setattr(torch.distributed, name, stand_in)
    for _ in range(2):  # the second training of a script finds the group
        processes = Processes(replace(FEW, device=asked))
    assert (processes.rank, processes.count, processes.main) == (3, 4, False)
    assert processes.device == torch.device(device)
    on_gpu = [torch.device(device)] if backend == "nccl" else []
    assert joined == [(backend, on_gpu[0] if on_gpu else None)] and current == 2 * on_gpu
