"""Checks before a study begins: of names that a configuration chooses from a list, and of what must be installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping


def require_known(flag: str, names: Iterable[str], known: Iterable[str], *, some: bool = False) -> None:
    """Refuses names that are not on the list.

    Parameters
    ----------
    flag : str
        What the user typed, "--arms".
    names, known : iterables of str
        The chosen names, and those there are.
    some : bool
        Whether an empty choice is refused too.

    Raises
    ------
    ValueError
        With the flag, the unknown names and the known ones.
    """
    names, known = list(names), list(known)
    unknown = [name for name in names if name not in known]
    if unknown or (some and not names):
        got, expected = " ".join(map(_typed, unknown)) or "(none)", ", ".join(map(_typed, known))
        raise ValueError(f"{flag} {got}: expected some of {expected}")


def require_installed(packages: Mapping[str, str]) -> None:
    """Raises ImportError for the first module that is not there, with the package to install, of module → package."""
    for module, package in packages.items():
        if importlib.util.find_spec(module) is None:
            raise ImportError(f"the study needs {module}: pip install {package}")


def _typed(name: str) -> str:
    return repr(name) if " " in name else name
