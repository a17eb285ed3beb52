"""Folders of runs as the commands write them, without a training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from sciops.citations import citations_of
from sciops.files.json_files import append_jsonl, write_atomically, write_json
from sciops.runs import file_hash
from studies.train import TrainStudyConfig

BAD = "<script>alert('x')</script><img src=x onerror=alert(1)>"


def training(
    place: Path,
    errors: Any = (0.1, 0.2, 0.3),
    *,
    data: str = "content",
    grid: str = "17×17",
    finished: bool = True,
    **options: Any,
) -> Path:
    """The folder of a run of `sciops train` with these errors of its test samples; returns `place`.

    data : content of the file that it was trained on; options : of its configuration
    """
    file = place.parent / f"{data}.dat"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(data)
    config = TrainStudyConfig(data=file, folder=place, **options)
    environment = {
        "time": "2026-01-02T03:04:05+00:00",
        "command": ["sciops", "train", "--data", str(file), "--seed", str(config.seed)],
        "versions": {"torch": "2.99.0"},
        "config_class": "studies.train.TrainStudyConfig",
        "about": "Trains one operator.",
        "data": {str(file): file_hash(file)},
        "seeds": [config.seed],
    }
    write_json(place / "config.json", config)
    write_json(place / "environment.json", environment)
    write_atomically(place / "citations.bib", citations_of("fno").encode())
    append_jsonl(place / "log.jsonl", {"epoch": 1, "loss": 0.5, "validation": 0.4})
    if finished:
        errors = np.array(errors)
        row = {"samples": len(errors), "relative_l2": errors.mean(), "relative_mse": (errors**2).mean()}
        row |= {"standard_error": errors.std(ddof=1) / len(errors) ** 0.5, "relative_l2_of_samples": errors}
        results = {"model": config.model, "parameters": 1234, "epochs": 1, "complete": True, "stopped": None}
        results |= {"best_epoch": 1, "validation": 0.4, "seconds": 1.5, "test": {grid: {"model": row}}}
        write_json(place / "results.json", results)
        (place / "figures").mkdir()
        Image.new("RGB", (40, 30), "white").save(place / "figures" / "learning_curve.png")
    return place
