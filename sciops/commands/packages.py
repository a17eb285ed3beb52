"""The generators and studies that come with sciops: found beside it, and described by the first line of each."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import pkgutil
import shutil
import sys
from pathlib import Path
from types import ModuleType

_ROOT = Path(__file__).resolve().parents[2]


def own_package(name: str) -> ModuleType:
    """Imports "data_gen" or "studies" from beside sciops, also where the current directory has a folder of that name.

    A folder of the user comes first on the path under ``python -m``; processes that this one starts copy its path.
    """
    if name not in sys.modules or not _is_ours(sys.modules[name]):
        for module in [one for one in sys.modules if one == name or one.startswith(f"{name}.")]:
            del sys.modules[module]
        spec = importlib.util.find_spec(name)
        if spec is None or not _is_ours(spec):
            sys.path.insert(0, str(_ROOT))
    return importlib.import_module(name)


def own_environment() -> dict[str, str]:
    """The variables of this process, with which ``python -m studies.…`` runs ours in whatever folder it is."""
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


def names_in(package: str) -> list[str]:
    """Names of the generators in "data_gen" or of the studies in "studies"; what studies share is left out."""
    found = pkgutil.iter_modules(own_package(package).__path__)
    return sorted(module.name for module in found if module.name[0] != "_" and module.name != "kit")


def listing(package: str) -> str:
    """One line a name: the name, and the first sentence of what it is; nothing is imported for it."""
    names = names_in(package)
    wide = max(map(len, names)) + 2
    columns = max(60, shutil.get_terminal_size((100, 24)).columns)
    return "\n".join(f"  {name:{wide}s}{_cut(_about(package, name), columns - wide - 2)}" for name in names)


def _is_ours(found: object) -> bool:
    """Whether a module or the specification of one lies beside sciops."""
    origin = getattr(found, "origin", None) or getattr(found, "__file__", None)
    return origin is not None and Path(origin).resolve().is_relative_to(_ROOT)


def _about(package: str, name: str) -> str:
    folder = Path(str(own_package(package).__file__)).parent
    path = folder / name / "__init__.py"
    text = (path if path.exists() else folder / f"{name}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


def _cut(text: str, most: int) -> str:
    """At most so many characters, whole words."""
    return text if len(text) <= most else text[: most - 2].rpartition(" ")[0].rstrip(",;:") + " …"
