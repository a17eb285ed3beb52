"""Writers of foreign layouts, one a file; `sciops.convert` chooses by name.

A writer takes the data sets of one file (native: one per resolution, otherwise exactly one) and a path, and refuses in
one line what its layout cannot hold.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sciops.datasets.formats import the_well
from sciops.datasets.formats.writers import (
    apebench,
    arrays,
    cno,
    jax_cfd,
    li2020,
    li2020_burgers,
    li2020_ns,
    native,
    neuralop,
    pdearena_ks,
    pdearena_ns,
    pdearena_swe,
    pdebench_1d,
    pdebench_cfd,
    pdebench_darcy,
    pdebench_groups,
    pdebench_ns,
    poseidon,
)

__all__ = ["WRITERS"]

WRITERS: dict[str, Callable[[list[Any], Path], None]] = {
    "native": native.write,
    "neuralop": neuralop.write,
    "li2020": li2020.write,
    "li2020-v7.3": li2020.write_hdf5,
    "li2020-ns": li2020_ns.write,
    "li2020-ns-v7.3": li2020_ns.write_hdf5,
    "li2020-burgers": li2020_burgers.write,
    "li2020-burgers-v7.3": li2020_burgers.write_hdf5,
    "pdebench-darcy": pdebench_darcy.write,
    "pdebench-1d": pdebench_1d.write,
    "pdebench-cfd": pdebench_cfd.write,
    "pdebench-groups": pdebench_groups.write,
    "pdebench-ns": pdebench_ns.write,
    "the-well": the_well.write,
    "pdearena-ns": pdearena_ns.write,
    "pdearena-ks": pdearena_ks.write,
    "pdearena-swe": pdearena_swe.write,
    "cno": cno.write,
    "poseidon": poseidon.write,
    "jax-cfd": jax_cfd.write,
    "arrays": arrays.write,
    "apebench": apebench.write,
}
