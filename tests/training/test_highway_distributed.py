"""Highway-BP under torchrun: averaged gradients, micro-batches and clipping as in one process, to round-off."""

from __future__ import annotations

from dataclasses import replace

import pytest
from warm import launch, undrawn

from sciops.files.json_files import read_jsonl
from studies.kit.fields.smooth import write_fields
from studies.train import PRESETS, run


@pytest.mark.slow
@undrawn()
def test_two_processes_train_as_one(tmp_path):
    path = write_fields(tmp_path / "fields.h5", (9,), train=21, validation=5, test=3, seed=1)
    config = replace(
        PRESETS["quick"],
        data=path,
        epochs=2,
        width=6,
        depth=2,
        modes=3,
        options=("basis=cosine",),
        precision="float64",
        clip=0.3,
        gradients="highway",
        diagnose_every=1,
        folder=tmp_path / "one",
        progress=False,
        device="cpu",
    )
    run(config)
    flags = (
        f"--preset quick --data {path} --epochs 2 --width 6 --depth 2 --modes 3 --options basis=cosine --accumulate 2"
    )
    flags += (
        f" --precision float64 --clip 0.3 --no-progress --device cpu --gradients highway --folder {tmp_path / 'two'}"
    )
    launch("studies.train", [*flags.split(), "--diagnose-every", "1"], processes=2)
    one, two = (read_jsonl(tmp_path / name / "log.jsonl") for name in ("one", "two"))
    for a, b in zip(one, two, strict=True):
        for key in ("loss", "validation", "gradient_norm"):
            assert b[key] == pytest.approx(a[key], rel=1e-10)
        for p, q in zip(a["diagnosis"], b["diagnosis"], strict=True):
            assert q["cosine"] == pytest.approx(p["cosine"], rel=1e-9)
            assert p["cosine"]["head"] == pytest.approx(1) and 0.5 < p["cosine"]["blocks"] < 1 - 1e-6
