"""APEBench's and exponax's arrays (arXiv:2411.00180): .npy of (samples, T + 1, channels, N[, N[, N]]).

Periodic on (0, L)^D, left wall included and right one excluded, the initial state first. The array alone says neither
L nor the time step nor the equation, and its number of axes is no hint: it is opened by ``layout="apebench"``, or by
itself where the scenario lies beside it, the JSON that APEBench's scraper writes: ``NAME.json`` for ``NAME_train.npy``
and ``NAME_test.npy``, or ``<file>.json``. Scenarios without ``domain_extent`` and ``dt`` are dimensionless, L = 1 and
one time unit a step; without a scenario both are unknown, and one unit period is assumed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets.conventions import SPACE, build_dataset
from sciops.datasets.formats.containers.sniff import Probe
from sciops.datasets.formats.described.description import ALONE, sidecar
from sciops.datasets.formats.shared import expectations as expect
from sciops.datasets.formats.shared.axes import check_size, is_real
from sciops.datasets.formats.shared.expectations import state_fields, times_in, words
from sciops.datasets.formats.shared.hdf5_writing import sizes
from sciops.datasets.formats.shared.numpy_writing import write_npy
from sciops.datasets.formats.shared.reader import Reader
from sciops.files.untrusted import read_json
from sciops.files.whole_files import replacing
from sciops.grids import Grid

if TYPE_CHECKING:
    import xarray as xr

_LARGEST = 1 << 20
_EQUATIONS = {
    "adv": "advection",
    "diff": "heat",
    "burgers": "burgers",
    "kdv": "kdv",
    "ks": "kuramoto_sivashinsky",
    "fisher": "fisher_kpp",
    "gs": "gray_scott",
    "gs_type": "gray_scott",
    "decay_turb": "navier_stokes",
    "kolm_flow": "navier_stokes",
}
_CONSTANTS = ("coef", "gamma", "alpha", "delta", "drag", "rate", "difficulty", "injection")


def matches(probe: Probe) -> bool:
    """Whether the file is one .npy array of floats with four to six axes, the last ones equal."""
    if probe.kind != "npy" or ALONE not in probe.arrays:
        return False
    entry = probe.arrays[ALONE]
    space = entry.shape[3:]
    return 1 <= len(space) <= 3 and len(set(space)) == 1 and min(entry.shape) >= 1 and is_real(entry.dtype, "f")


def recognises(probe: Probe) -> bool:
    """Whether the scenario of the array lies beside it and fits it."""
    return matches(probe) and scenario(probe) is not None


def read(probe: Probe) -> xr.Dataset:
    """One variable a channel over (sample, time, x[, y[, z]])."""
    from sciops.datasets.formats.containers.lazy_arrays import numpy_array
    from sciops.datasets.formats.described.contents import numpy_contents

    array = numpy_contents(probe)[ALONE]
    _, steps, channels, *space = array.shape
    check_size(probe, array.shape)
    about = scenario(probe)
    info = (about or {}).get("info", {})
    equation, names, parameters = _meaning(about, channels, len(space))
    physical = "domain_extent" in info
    length, step = (_positive(info.get(key, 1.0)) for key in ("domain_extent", "dt"))
    fields = {
        name: (
            ("sample", "time", *SPACE[: len(space)]),
            numpy_array(probe.path, array, pick={2: channel}),
            {"units": "1", "long_name": f"channel {channel}" if channels > 1 else "state"},
        )
        for channel, name in enumerate(names)
    }
    unknown = "no scenario lies beside the array: domain, time step and equation are not known"
    return build_dataset(
        fields,
        Grid(space, (0.0, length), "periodic"),
        layout="apebench",
        equation=equation,
        notes=() if about else (unknown,),
        times=np.arange(steps) * step if about else None,
        state=names,
        parameters=parameters,
        boundary=dict.fromkeys(SPACE[: len(space)], "periodic"),
        positions="stored" if physical else "known: dimensionless" if about else "assumed: one unit period",
    )


def scenario(probe: Probe) -> Mapping[str, Any] | None:
    """The JSON beside the array that says what it is, where it fits the array's shape."""
    shape, path = probe.arrays[ALONE].shape, probe.path
    name = path.name.removesuffix(".npy")
    stems = (name.removesuffix("_train"), name.removesuffix("_test"))
    for beside in (sidecar(path), *(path.with_name(f"{stem}.json") for stem in stems)):
        try:
            content = read_json(beside, largest=_LARGEST)
            info = content["info"]
            stated = tuple(int(info[key]) for key in ("num_channels", "num_spatial_dims", "num_points"))
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            continue
        if stated == (shape[2], len(shape) - 3, shape[3]):
            return content
    return None


def _meaning(
    about: Mapping[str, Any] | None, channels: int, ndim: int
) -> tuple[str, tuple[str, ...], dict[str, float]]:
    """(equation, names of the channels, constants) of a scenario, or of none."""
    if about is None:
        return "unknown", _names(channels, ndim, ""), {}
    own = about.get("sciops")  # what our writer adds
    if isinstance(own, dict) and len(own.get("state", ())) == channels:
        numbers = {str(k): float(v) for k, v in dict(own.get("parameters", {})).items()}
        return str(own.get("equation", "unknown")), tuple(map(str, own["state"])), numbers
    kind = str(about.get("name", "unknown")).split("__")[0]
    # 2d_phy_gs_type: the number of axes, how its constants are stated, the equation
    short = kind.split("_", 2)[-1]
    constants = {
        name: float(value)
        for name, value in about["info"].items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and any(part in name for part in _CONSTANTS)
    }
    equation = _EQUATIONS.get(short, kind)
    return equation, _names(channels, ndim, equation), constants


def _names(channels: int, ndim: int, equation: str) -> tuple[str, ...]:
    if channels == 1:
        return ("w",) if equation == "navier_stokes" else ("u",)
    if channels == 2 and equation == "gray_scott":
        return ("u", "v")
    if channels == ndim:
        return tuple(f"v{axis}" for axis in SPACE[:ndim])
    return tuple(f"u{channel}" for channel in range(channels))


def _positive(value: Any) -> float:
    number = float(value) if isinstance(value, (int, float)) else math.nan
    return number if math.isfinite(number) and number > 0 else 1.0


def write(groups: list[xr.Dataset], path: Path) -> None:
    """(samples, T + 1, channels, N, …) and ``<file>.json`` with what the array does not say."""
    (dataset,) = groups
    grid = expect.trajectory(dataset, "apebench", (1, 2, 3))
    fields = state_fields(dataset, grid)
    expect.nothing_else(dataset, "apebench", tuple(fields))
    parameters = expect.common_parameters(dataset, "apebench")
    expect.one_type(list(fields.values()), "apebench")
    length = grid.extent[0][1]
    if grid != Grid((grid.shape[0],) * grid.ndim, (0.0, length), "periodic"):
        raise ValueError(
            f"layout 'apebench' holds as many points on every axis of (0, L)^D, periodic; here {words(grid)}"
        )
    times = times_in(dataset, "apebench")
    step = float(times[1] - times[0]) if len(times) > 1 else 1.0
    if not np.allclose(times, step * np.arange(len(times)), rtol=0, atol=1e-9 * step) or step <= 0:
        raise ValueError("layout 'apebench' holds times 0, Δt, 2Δt, …; the data set has others: use layout='native'")
    step = float(times[-1] / (len(times) - 1)) if len(times) > 1 else step
    info = {
        "num_spatial_dims": grid.ndim,
        "num_points": grid.shape[0],
        "num_channels": len(fields),
        "domain_extent": length,
        "dt": step,
        **parameters,
    }
    equation = dataset.attrs.get("equation", "unknown")
    about = {"equation": equation, "state": list(fields), "parameters": parameters}
    with replacing(path, size=sizes(fields)) as temporary:
        with open(temporary, "wb") as file:
            write_npy(file, list(fields.values()), channels=2)
        # first what explains the array, so that it never lies there unexplained
        with replacing(sidecar(path)) as beside:
            beside.write_text(json.dumps({"name": f"{grid.ndim}d_phy_{equation}", "info": info, "sciops": about}))


READER = Reader(
    "apebench",
    "a .npy array (samples, times, channels, n[, n[, n]]) with its scenario in JSON beside it",
    matches,
    read,
    recognises,
)
WRITERS = {"apebench": write}
