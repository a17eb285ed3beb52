"""Two gloo processes under torchrun give what one process gives, to round-off."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_resume import QUIET, data, network

from sciops._json import read_jsonl
from sciops.training import fit, load_checkpoint

_SCRIPT = """
    import os
    import sys
    from dataclasses import replace
    from pathlib import Path
    import torch
    from torch import nn
    sys.path.insert(0, sys.argv[2])
    from test_resume import QUIET, data, network
    from sciops.training import fit

    def plain():
        return nn.Sequential(*(layer for layer in network() if not isinstance(layer, (nn.BatchNorm2d, nn.Dropout))))

    folder = Path(sys.argv[1])
    config = replace(QUIET, epochs=3, precision="float64", augment="square", device="cpu")
    fit(plain(), data(), replace(config, folder=folder, stop_after=2))
    run = fit(plain(), data(), replace(config, folder=folder, resume=True))
    total = torch.stack([p.detach().sum() for p in run.model.parameters()]).sum()
    # a file a process: lines of two processes can run into each other
    Path(f"{folder}-{os.environ['RANK']}.txt").write_text(f"{total.item()!r} {run.steps}")
"""


@pytest.mark.slow
def test_two_processes_equal_one_to_round_off(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(_SCRIPT))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**__import__("os").environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*torchrun, str(script), str(tmp_path / "two"), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    sums = [(tmp_path / f"two-{rank}.txt").read_text() for rank in (0, 1)]
    assert sums[0] == sums[1]  # both replicas hold the same bits

    model = torch.nn.Sequential(*(m for m in network() if not isinstance(m, (torch.nn.BatchNorm2d, torch.nn.Dropout))))
    config = replace(QUIET, epochs=3, precision="float64", augment="square", folder=tmp_path / "one")
    fit(model, data(), config)
    (one, _), (two, _) = (load_checkpoint(tmp_path / name / "last.safetensors") for name in ("one", "two"))
    assert set(one) == set(two)
    for key in one:
        torch.testing.assert_close(two[key], one[key], rtol=1e-9, atol=1e-11, msg=key)
    for a, b in zip(read_jsonl(tmp_path / "one" / "log.jsonl"), read_jsonl(tmp_path / "two" / "log.jsonl")):
        for key in ("loss", "validation", "gradient_norm", "rate", "step"):
            assert b[key] == pytest.approx(a[key], rel=1e-9), key
