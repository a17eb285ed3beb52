"""The page of the docs that `studies.benchmarks` writes from its results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from studies.kit.profiles import BETWEEN, rows_of

_VERSIONS = ("python", "sciops", "torch", "numpy", "scipy", "numba", "h5py", "neuraloperator", "pyamg")


def page(results: Mapping[str, Any]) -> str:
    """Markdown of what results.json holds: machine and versions, a table a study, and a line for each miss that
    says why."""
    return (
        "\n\n".join([*_head(results), *(part for item in results["studies"].items() for part in _study(*item))]) + "\n"
    )


def _head(results: Mapping[str, Any]) -> list[str]:
    machine, targets = results["environment"], results["targets"]
    versions = ", ".join(f"{name} {machine['versions'][name]}" for name in _VERSIONS if name in machine["versions"])
    met = sum(row["met"] for row in targets)
    return [
        "# Benchmarks: target beside result",
        f"**{met} of {len(targets)} targets are met.**",
        f"```bash\n{results['command']}\n```",
        f"Written by that command with `--page` in {results['seconds']:.0f} s. "
        "Contestants take turns in one run; numbers are ratios of medians where nothing else is said; a result that "
        "is not equal to its reference ends its study. *At the limit*: the ratio if ours took no longer than its "
        "products at the rate of a large matrix product, and no longer than its memory takes at the rate of a copy, "
        "both measured in the same run.",
        f"{machine['cpu']}, {machine['cpu_count']} cores, {machine['time'][:10]}; {versions}.",
    ]


def _study(name: str, record: Mapping[str, Any]) -> list[str]:
    head = [f"## {name}", f"{record['title']} `python -m studies.{name}`, {record['seconds']:.0f} s."]
    if record["error"]:
        return [*head, f"Failed: {_cell(record['error'])}."]
    limited = any("limit" in row for row in record["targets"])
    lines = ["| | target | result | at the limit | |" if limited else "| | target | result | |"]
    lines.append("| --- | --- | --- | --- | --- |" if limited else "| --- | --- | --- | --- |")
    for row in record["targets"]:
        mark = "met" if row["met"] else "**missed**"
        if row["target"] == "–":
            mark = ""
        cells = [_cell(row["what"]), row["target"], f"{float(row['value']):.3g}"]
        if limited:
            cells.append(f"{float(row['limit']):.3g}" if "limit" in row else "")
        lines.append(f"| {' | '.join([*cells, mark])} |")
    missed: dict[str, list[str]] = {}
    for row in record["targets"]:
        if not row["met"] and row.get("note"):
            missed.setdefault(row["note"], []).append(row["what"])
    notes = [f"* Missed, {'; '.join(names)}: {note}" for note, names in missed.items()]
    return [*head, "\n".join(lines), *(["\n".join(notes)] if notes else []), *_profiles(record["results"])]


def _profiles(results: Mapping[str, Any]) -> list[str]:
    """Where the time of some steps goes, one column a step, as `studies.kit.profiles` measured it."""
    profiles = results.get("profiles") or {}
    if not profiles:
        return []
    rows = {what: {row["kind"]: row for row in rows_of(one)} for what, one in profiles.items()}
    kinds = list(dict.fromkeys(kind for own in rows.values() for kind in own))
    kinds.sort(key=lambda kind: kind == BETWEEN)
    lines = [f"| where the time goes, ms | {' | '.join(_cell(what) for what in profiles)} |"]
    lines.append("| --- |" + " --- |" * len(profiles))
    for kind in kinds:
        cells = [
            f"{own[kind]['milliseconds']:.2f} ({own[kind]['share']:.0%})" if kind in own else ""
            for own in rows.values()
        ]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    wholes = [f"{1e3 * one['seconds']:.2f}" for one in profiles.values()]
    rates = [f"{1e-9 * one['rate']:.0f}" for one in profiles.values()]
    lines.append(f"| whole step | {' | '.join(wholes)} |")
    lines.append(f"| operations called | {' | '.join(str(one['calls']) for one in profiles.values())} |")
    lines.append(f"| products, GFLOP/s | {' | '.join(rates)} |")
    return ["\n".join(lines)]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
