"""Runs the tests that compare numbers exactly under settings that stand for other processors.

``python tests/portable.py [SETTING …]``; exits with 1 when a test fails under one of them. The settings choose other
kernels of MKL, OpenBLAS, oneDNN, ATen and NumPy on the processor at hand; the last replaces the matrix products.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__


def _without(first: str) -> str:
    """NumPy's optimised kernels from this one on, as far as the processor has them: those that are to be left out."""
    found = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
    return " ".join(found[found.index(first) :]) if first in found else ""


ONE, TWO = ({"SCIOPS_TEST_THREADS": n, "OMP_NUM_THREADS": n, "OPENBLAS_NUM_THREADS": n} for n in "12")
SETTINGS = {
    "oldest": {
        **ONE,
        "MKL_CBWR": "COMPATIBLE",
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",  # ATen asks oneDNN whether the processor packs bfloat16
        "OPENBLAS_CORETYPE": "Prescott",
        "NPY_DISABLE_CPU_FEATURES": _without("X86_V3"),
    },
    "haswell": {
        **ONE,
        "MKL_CBWR": "AVX2,STRICT",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": _without("X86_V4"),
    },
    "zen": {
        **ONE,
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Zen",
    },
    "two threads": {**TWO, "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "OPENBLAS_CORETYPE": "SkylakeX"},
    "row-dependent": ONE,
}


def main(names: list[str]) -> int:
    unknown = set(names) - set(SETTINGS)
    if unknown:
        print(f"{', '.join(sorted(unknown))}: expected {', '.join(map(repr, SETTINGS))}", file=sys.stderr)
        return 2
    failed = []
    for name in names or SETTINGS:
        print(f"--- {name}: {' '.join(f'{key}={value}' for key, value in SETTINGS[name].items())}", flush=True)
        command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "--exact"]
        command += ["--row-dependent"] if name == "row-dependent" else []
        done = subprocess.run(command, cwd=Path(__file__).parents[1], env={**os.environ, **SETTINGS[name]})
        failed += [name] if done.returncode else []
    print(
        f"{len(names or SETTINGS) - len(failed)} of {len(names or SETTINGS)} settings passed",
        *failed,
        sep="\n  failed: ",
    )
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
