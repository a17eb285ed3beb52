"""Tables of whatever a results.json holds: lists of records, records by name, single numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sciops.evaluation import Spread
from sciops.reports.parts import Facts, text_of
from sciops.reports.tables import Table

MOST_TABLES = 40
DEEPEST = 5  # levels of names that are looked into
_SPREAD = {"mean", "deviation", "low", "high", "seeds"}
_SCALARS = (str, int, float, bool, type(None))


def tables_in(results: Any, *, leave_out: Iterable[str] = ()) -> list[Table | Facts]:
    """The tables that can be read from results: of each list of records, of each group of records by name, and of the
    numbers that stand alone.

    Parameters
    ----------
    results : dict
        As JSON gives it.
    leave_out : iterable of str
        Names of the first level that are shown elsewhere.
    """
    if not isinstance(results, Mapping):
        return [record_table(results, "results")] if _is_records(results) else []
    left = {name: value for name, value in results.items() if name not in set(leave_out)}
    found = []
    for part in _walk(left, "", 0):
        found.append(part)
        if len(found) == MOST_TABLES:
            break
    return found


def record_table(rows: Iterable[Mapping[str, Any]], title: str = "", note: str = "") -> Table:
    """A table with a column for every name of the records, in the order in which they come first."""
    flat = [_flat(row) for row in rows]
    columns = list(dict.fromkeys(name for row in flat for name in row))
    cells = tuple(tuple(text_of(row.get(name)) for name in columns) for row in flat)
    return Table(tuple(columns), cells, title, note)


def _walk(value: Mapping[str, Any], title: str, level: int) -> Iterator[Table | Facts]:
    alone = {name: one for name, one in value.items() if isinstance(one, _SCALARS) or _is_spread(one)}
    lists = {name: one for name, one in value.items() if _is_plain_list(one)}
    if alone or lists:
        yield Facts({name: _flat({name: one})[name] for name, one in (alone | lists).items()}, title or "Numbers")
    for name, one in value.items():
        path = f"{title}, {name}" if title else str(name)
        if name in alone or name in lists:
            continue
        if _is_records(one):
            yield record_table(one, path)
        elif isinstance(one, Mapping) and one and all(map(_is_row, one.values())) and len(one) > 1:
            yield record_table(({"name": key, **row} for key, row in one.items()), path)
        elif isinstance(one, Mapping) and level < DEEPEST:
            yield from _walk(one, path, level + 1)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a record, with those of a record in it beside them, and the mean and deviation of a `Spread`."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if _is_spread(value):
            found[str(name)] = str(Spread.read({key: _number(one) for key, one in value.items() if key in _SPREAD}))
        elif isinstance(value, Mapping) and all(isinstance(one, _SCALARS) for one in value.values()) and len(value) < 9:
            found |= {f"{name}: {key}": one for key, one in value.items()}
        else:
            found[str(name)] = value
    return found


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value  # "inf" and "nan", which JSON has no numbers for


def _is_spread(value: Any) -> bool:
    if not (isinstance(value, Mapping) and set(value) == _SPREAD):
        return False
    fits = (int, float)
    return all(
        isinstance(one, fits) or one in ("inf", "nan", "-inf") or key == "deviation" for key, one in value.items()
    )


def _is_row(value: Any) -> bool:
    return isinstance(value, Mapping) and any(isinstance(one, _SCALARS) for one in value.values())


def _is_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) and one for one in value)


def _is_plain_list(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(one, (list, Mapping)) for one in value)
