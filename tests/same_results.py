"""Do two checkouts print the same numbers? Runs the quick preset of studies in both and compares their results.json.

    git worktree add ../before v0.3
    python tests/same_results.py ../before . --studies integrator_orders spectral_norms
    python tests/same_results.py ../before .            # all of them: hours on two cores

Every number that is not a time, a rate or an amount of memory must agree to `--tolerance` (relative, 1e-6 by default:
float32 training on one machine is reproducible to the bit unless an order of operations has changed). Texts and the
structure must be the same. The exit status is 1 where anything differs, is missing or did not run. Results stay in
``--output``; a study that ran before in a checkout of the same commit is not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# what depends on the machine and its load, not on the mathematics: no number below such a key is compared
MEASURED = re.compile(
    r"(^|[_ ])(s|ms|us|seconds?|times?|wall|cpu|rate|rates|speed|speedup|ratio|throughput|memory|peak|mb|gb|bytes|"
    r"megabytes|per_second|latency|exponents?|versions?|machine|host|device|date|created|started|finished|commit|"
    r"git|python|path|folder|output|fingerprint|key|hash)([_ ]|$)",
    re.IGNORECASE,
)


def leaves(value: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """(place, number or text) of everything in a result that must not depend on the machine."""
    if place and MEASURED.search(place[-1]):
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*place, str(key)))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from leaves(item, (*place, str(i)))
    else:
        yield "/".join(place), value


def differences(before: Any, after: Any, tolerance: float) -> list[str]:
    """What two results say differently, a line each."""
    old, new = dict(leaves(before)), dict(leaves(after))
    found = [f"{place}: only before" for place in old if place not in new]
    found += [f"{place}: only after" for place in new if place not in old]
    for place in old:
        if place in new and not _same(old[place], new[place], tolerance):
            found.append(f"{place}: {old[place]!r} before, {new[place]!r} after")
    return found


def _same(old: Any, new: Any, tolerance: float) -> bool:
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (old, new))
    if not numbers:
        return old == new
    return math.isclose(old, new, rel_tol=tolerance, abs_tol=1e-12) or (math.isnan(old) and math.isnan(new))


def studies_of(checkout: Path) -> list[str]:
    """The names of the studies of a checkout: modules or packages with presets."""
    script = "from sciops.commands.packages import names_in; print(*names_in('studies'))"
    return _python(checkout, "-c", script, capture=True).stdout.split()


def run(checkout: Path, study: str, output: Path, timeout: float) -> dict[str, Any] | str:
    """results.json of the quick preset, or why there is none."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=checkout, capture_output=True, text=True).stdout.strip()
    folder = output / commit[:12] / study
    if not (folder / "results.json").is_file():
        try:
            ended = _python(
                checkout, "-m", f"studies.{study}", "--preset", "quick", "--output", str(folder), timeout=timeout
            )
        except subprocess.TimeoutExpired:
            return f"took more than {timeout:.0f} s"
        if not (folder / "results.json").is_file():
            return f"ended with status {ended.returncode} and left no results.json"
    return json.loads((folder / "results.json").read_text())


def _python(checkout: Path, *arguments: str, capture: bool = False, timeout: float | None = None) -> Any:
    environment = os.environ | {"PYTHONPATH": str(checkout.resolve()), "MPLBACKEND": "Agg"}
    log = subprocess.PIPE if capture else subprocess.DEVNULL
    return subprocess.run(
        [sys.executable, *arguments], cwd=checkout, env=environment, stdout=log, stderr=log, text=True, timeout=timeout
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="a checkout")
    parser.add_argument("after", type=Path, help="another one")
    parser.add_argument("--studies", nargs="*", help="default: all of the second checkout")
    parser.add_argument("--tolerance", type=float, default=1e-6, help="relative difference that is rounding")
    parser.add_argument("--output", type=Path, default=Path("runs/same_results"), help="folder for the results")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds that a study may take")
    options = parser.parse_args()
    wrong = 0
    for study in options.studies or studies_of(options.after):
        began = time.perf_counter()
        old, new = (run(c, study, options.output.resolve(), options.timeout) for c in (options.before, options.after))
        if isinstance(old, str) or isinstance(new, str):
            lines = [f"before: {old}" for old in [old] if isinstance(old, str)]
            lines += [f"after: {new}" for new in [new] if isinstance(new, str)]
        else:
            lines = differences(old, new, options.tolerance)
        compared = sum(1 for _ in leaves(new)) if isinstance(new, dict) else 0
        print(
            f"{study}: {len(lines)} differences in {compared} values ({time.perf_counter() - began:.0f} s)", flush=True
        )
        for line in lines[:20]:
            print(f"    {line}")
        wrong += bool(lines)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
