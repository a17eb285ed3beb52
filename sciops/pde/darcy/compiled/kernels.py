"""Which kernels a form of the solver is made of, their compilation, and the table of addresses that they call by.

numba's cache on disk watches only the file of the function that is cached. What a kernel is compiled from lies in
several files: it is cached under a key that holds a checksum of all of them.
"""

from __future__ import annotations

import ctypes
import threading
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CellType, FunctionType
from typing import Any, NamedTuple

import numba
import numpy as np

from sciops.pde.announcement import announced
from sciops.pde.darcy.compiled import galerkin, interpolation, krylov, relaxation, relaxation_of_lines, transfer
from sciops.pde.darcy.compiled.calls import LETTERS, NUMBER, signature_of
from sciops.pde.darcy.compiled.cycle import cycle, nested_start
from sciops.pde.darcy.compiled.levels import FAST
from sciops.pde.darcy.compiled.sample import iterate, samples
from sciops.pde.darcy.compiled.setup import setup
from sciops.pde.darcy.multigrid import Way

COMPILING = (
    "the Darcy solver (once; about 8 s)"  # of processor time, as `studies.solver_speed --preset cold` measures it
)
_EXACT = {"faces", "true_residual"}  # sums in the order written, without fused products

_MODULES = (galerkin, interpolation, krylov, relaxation, relaxation_of_lines, transfer)
_CALLERS = {"setup": setup, "cycle": cycle, "nested_start": nested_start, "iterate": iterate, "samples": samples}
FUNCTIONS: dict[str, Callable] = {
    name: getattr(module, name) for name in LETTERS for module in _MODULES if hasattr(module, name)
} | _CALLERS

_POINTS = ("relax", "first_step")
_ROWS = ("interpolate_rows", "rows_from_five", "rows_from_nine", "restrict_rows", "prolong_rows")
_LINES = ("factor_lines", "tighten", "relax_row_lines", "relax_column_lines")


class Form(NamedTuple):
    """The kernels of one kind of samples: whether rows are halved alone on some levels, whether lines are smoothed."""

    rows: bool = False
    lines: bool = False

    @property
    def names(self) -> list[str]:
        """Those that a solve may call, which are compiled; `samples` is the last of them."""
        left_out = (_POINTS if self.lines else _LINES) + (() if self.rows else _ROWS)
        return [name for name in LETTERS if name not in left_out]

    @property
    def stored(self) -> type:
        """In which the levels are stored: lines are for couplings that differ by more than float32 resolves."""
        return np.float64 if self.lines else np.float32


def form_of(way: Way) -> Form:
    """Of samples that are coarsened and smoothed in this way."""
    return Form(rows=way.rows_alone > 0, lines=way.lines)


def sources() -> list[Path]:
    """The files whose code or numbers the kernels are compiled from."""
    here = Path(__file__).parent
    return [*sorted(here.glob("*.py")), here.parent / "multigrid.py"]


def sources_checksum() -> int:
    """CRC-32 of `sources`."""
    checksum = 0
    for file in sources():
        checksum = zlib.crc32(file.read_bytes(), checksum)
    return checksum


def keyed(function: Callable, checksum: int) -> Callable:
    """The function with the checksum among its closure variables, which it never reads and which are part of numba's
    key on disk."""
    code = function.__code__.replace(co_freevars=("checksum",))
    return FunctionType(code, function.__globals__, function.__name__, None, (CellType(checksum),))


@cache
def kernel(name: str) -> Any:
    """What numba compiles, with an entry for C alone."""
    if getattr(numba.config, "DISABLE_JIT", 0):
        raise RuntimeError(
            "numba's compiler is switched off: unset NUMBA_DISABLE_JIT, or pass backend='torch', which needs none"
        )
    options: dict[str, Any] = {
        "error_model": "numpy",
        "no_cpython_wrapper": True,
        "fastmath": False if name in _EXACT else FAST,
    }
    return numba.njit(cache=True, **options)(keyed(FUNCTIONS[name], sources_checksum()))


def _address(name: str, stored: type) -> int:
    """Compiled, or loaded from disk; the memory is the process's for good."""
    compiled = kernel(name).get_compile_result(signature_of(name, numba.from_dtype(np.dtype(stored))))
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)


class Solver:
    """A form's table of addresses, and its kernels as functions that Python calls without holding its lock."""

    def __init__(self, form: Form) -> None:
        self.stored, self.table = form.stored, np.zeros(len(LETTERS), dtype=np.int64)
        for name in form.names:
            self.table[NUMBER[name]] = _address(name, form.stored)

    def function(self, name: str) -> Callable:
        """A kernel that gives nothing; it takes addresses of arrays as whole numbers."""
        kinds = {"n": ctypes.c_int64, "d": ctypes.c_double, "t": np.ctypeslib.as_ctypes_type(self.stored)}
        taken: list[Any] = [kinds.get(letter, ctypes.c_void_p) for letter in LETTERS[name]]
        return ctypes.CFUNCTYPE(None, *taken)(int(self.table[NUMBER[name]]))


_lock = threading.Lock()
_solvers: dict[Form, Solver] = {}


def solver_of(form: Form) -> Solver:
    """Compiles what the form needs and neither this process nor the disk has, and says so."""
    with _lock:
        if form not in _solvers:
            with announced({kernel(name) for name in form.names}, COMPILING):
                _solvers[form] = Solver(form)
        return _solvers[form]


def kept_on_disk() -> bool:
    """Whether numba has compiled the solver from the present sources before, and kept it for other processes."""
    newest = max(file.stat().st_mtime for file in sources())
    last = kernel("samples")
    found = Path(last.stats.cache_path or "").glob("sample.samples-*.nbi")
    return any(index.stat().st_mtime >= newest for index in found)
