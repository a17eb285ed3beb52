"""The HDF5 output from its parts."""

from __future__ import annotations

import platform

from sciops.datasets._native_content import groups_of, root_attributes_of
from sciops.datasets._native_files import replacing
from sciops.datasets._native_layout import create_group, set_attributes, stored_bytes
from sciops.datasets._native_parts import Plan, read_part
from sciops.datasets.native import now


def assemble_hdf5(plan: Plan, *, progress: bool = True) -> None:
    """Writes ``plan.output`` from all its parts, which stay.

    Raises OSError when a part is damaged: it is removed, and the same command makes it anew.
    """
    import h5netcdf
    from tqdm.auto import tqdm

    groups = groups_of(plan, read_part(plan, 0))
    shapes = [
        (dims, tuple(group.sizes[d] for d in dims), dtype)
        for group in groups
        for dims, dtype, _ in group.variables.values()
    ]
    size = 0 if plan.compression is not None else stored_bytes(shapes)
    with (
        replacing(plan.output, plan.parts / f"assembling.{platform.node()}.h5", size=size) as temporary,
        h5netcdf.File(temporary, "w") as file,
        tqdm(total=plan.samples, unit="sample", desc="assembling", disable=not progress) as bar,
    ):
        set_attributes(file, {**root_attributes_of(plan), "created": now()})
        for group in groups:
            create_group(
                file, group.name, group.sizes, group.variables, attrs=group.attrs, compression=plan.compression
            )
            for name, values in group.fixed.items():
                file[group.name].variables[name][:] = values
        for index in range(plan.chunks):
            start, stop = plan.bounds(index)
            for key, values in read_part(plan, index).items():
                group, name = key.split("/")
                # netCDF has no booleans
                file[group].variables[name][start:stop] = values.astype("int8") if values.dtype.kind == "b" else values
            bar.update(stop - start)
