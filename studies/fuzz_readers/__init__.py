"""Do the readers survive damaged and hostile files? Every file must open, or be refused in one line: no crash, no hang.

    python -m studies.fuzz_readers --preset quick
    python -m studies.fuzz_readers --preset full --files 100000 --processes 8

Sound tiny files of every layout, with what belongs beside them, are damaged at random: their bytes (bits flipped, ends
cut, blocks moved, numbers set to extremes), or what they say (other shapes, types, attributes, links, in a file of the
right format). They are opened in processes of their own, which are watched: a file that takes longer than three seconds
(twice), computes for more than ten, needs more than a gigabyte, ends the process, raises anything but an error of one
line that a terminal can show, or is opened in one way and refused in another is a finding. It is kept, its name holds
the seed and the number that made it, and the study ends with status 1. Files made to hurt (cyclic links, zip bombs,
pickles, pipes, …) come first.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from studies.kit.choices import require_known
from studies.kit.fuzzing import campaign
from studies.kit.fuzzing.campaign import Config, Sound, Subject, damaged_files
from studies.kit.fuzzing.hostile_files import HOSTILE

PRESETS = {
    "quick": Config(files=2_000),
    "long": Config(),
    "full": Config(files=200_000, processes=max(2, os.cpu_count() or 2)),
}


def run(config: Config) -> dict[str, Any]:
    """Damages, opens, counts; see `studies.kit.fuzzing.campaign.run`."""
    subject = Subject("fuzz_readers", HOSTILE, sound_files, damaged_files, "studies.kit.fuzzing.worker")
    return campaign.run(config, subject)


def sound_files(layouts: Sequence[str], scratch: Path) -> dict[str, Sound]:
    """Layout → its tiny file, for all layouts by default; the native layout as HDF5 and as Zarr.

    Raises ValueError for a layout there is no sample of.
    """
    from sciops.datasets import open_dataset, write_native
    from sciops.datasets.formats.samples import SAMPLES, write_sample

    def native(source: str, name: str) -> Callable[[Path], Path]:
        def write(folder: Path) -> Path:
            with open_dataset(write_sample(source, scratch / f"{source} {name}")) as dataset:
                groups = [dataset, *([open_dataset(scratch / f"{source} {name}", 16)] * (source == "li2020-burgers"))]
                return write_native(folder / name, groups, compression=4, overwrite=True)

        return write

    makers = {name: lambda folder, name=name: write_sample(name, folder / "a file ü") for name in SAMPLES}
    makers |= {"native": native("li2020-burgers", "native.h5"), "native-steady": native("pdebench-darcy", "native.h5")}
    if importlib.util.find_spec("zarr") is not None:
        makers |= {"native-zarr": native("pdebench-1d", "native.zarr")}
    require_known("--layouts", layouts, makers)
    found = {}
    for name in layouts or makers:
        folder = scratch / f"sound {name}"
        folder.mkdir()
        path = makers[name](folder)
        with open_dataset(path) as dataset:
            reader = str(dataset.attrs["layout"])
        files = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
        found[name] = Sound(path.name, files, reader)
        shutil.rmtree(folder)
    return found
