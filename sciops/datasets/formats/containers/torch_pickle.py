"""What a torch.save file would make is followed through, without making it, before torch loads the file.

``torch.load(weights_only=True)`` runs no code of the file. It still makes what the file asks for: lists without number,
tensors of any length, or keys of tuples in tuples, whose hash takes time exponential in the length of the file. The
pickle is a program for a small stack machine. It is run here on stand-ins: lists, dictionaries and tensors are one
object that is only counted; numbers, texts, names of classes and tuples are kept.
"""

from __future__ import annotations

import io
import itertools
import pickletools
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sciops.datasets.formats.containers.zips import unzipped, whole_member
from sciops.files.budget import Spending
from sciops.files.messages import shown

_OPERATIONS = 50  # of the stack machine that count as an object: a tensor takes about 30
_DEEPEST_TUPLE = 100
_MOST_KEYS = 10_000  # that are not texts: anybody can find numbers and tuples of one hash
_LEGACY = 5  # pickles of a file from before torch 1.6: two versions, the system, the content, the storages
_WHAT = "what it makes"
_MARK, _BYTES, _OTHER = object(), object(), object()
_PUSHED = {"NONE", "NEWTRUE", "NEWFALSE", "BINFLOAT", "EMPTY_LIST", "EMPTY_DICT", "EMPTY_SET"}
_VALUES = {"BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE", "SHORT_BINSTRING"}
_LENGTHS = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
# torch allows files to call these with a length, for bytes of which none is in the file
_BY_LENGTH = ("Tensor", "Storage", "builtins.bytearray")
_TYPED = "torch._tensor._rebuild_from_type_v2"  # calls its first argument with its third one


@dataclass(frozen=True)
class _Name:
    """A class or function that the pickle names."""

    name: str


@dataclass(frozen=True)
class _Tuple:
    """A tuple; `size` counts what is in it at any depth, each time that it is."""

    items: tuple[Any, ...]
    size: int
    depth: int


def check_torch_file(path: Path, spent: Spending) -> None:
    """Follows the pickle of a torch.save file.

    Raises OverBudget for one that makes more objects than the budget, and ValueError for archives whose members are
    compressed, which torch.save does not do, and for what no file of tensors holds.
    """
    if not zipfile.is_zipfile(path):
        with open(path, "rb") as file:
            for _ in range(_LEGACY):
                _follow(path, file, spent)
        return
    with unzipped(path, spent) as archive:
        for info in archive.filelist:
            if info.compress_type != zipfile.ZIP_STORED:
                name = shown(info.filename, 60)
                raise ValueError(f"{path} keeps {name} compressed, which torch does not read: save the tensors again")
        for name in archive.namelist():
            if name.rpartition("/")[2] == "data.pkl":
                _follow(path, io.BytesIO(whole_member(archive, name)), spent)


def _follow(path: Path, pickle: Any, spent: Spending) -> None:
    """Runs one pickle on stand-ins. What torch would refuse ends it: torch does so at the same place."""
    stack: list[Any] = []
    memory: dict[Any, Any] = {}
    keys = stored = 0
    for count, (operation, argument, _) in enumerate(pickletools.genops(pickle), 1):
        if count % _OPERATIONS == 0:
            spent.take(objects=1, what=_WHAT)
        kind = operation.name
        if kind in _VALUES:
            stack.append(argument)
        elif kind in ("BINPUT", "LONG_BINPUT"):
            memory[argument] = stack[-1]
        elif kind in ("BINGET", "LONG_BINGET"):
            stack.append(memory[argument])
        elif kind in _PUSHED:
            stack.append(_OTHER)
        elif kind == "MARK":
            stack.append(_MARK)
        elif kind == "GLOBAL":
            name = str(argument).replace(" ", ".")
            stack.append(_Name(name.replace("__builtin__.", "builtins.", 1)))  # as Python 2 had it
        elif kind in _LENGTHS:
            length = _LENGTHS[kind]
            stack[len(stack) - length :] = [_tuple(path, stack[len(stack) - length :])]
        elif kind == "TUPLE":
            stack.append(_tuple(path, _to_mark(stack)))
        elif kind == "APPEND":
            stack.pop()
        elif kind == "APPENDS":
            _to_mark(stack)
        elif kind in ("SETITEM", "SETITEMS"):
            items = _to_mark(stack) if kind == "SETITEMS" else [stack.pop(), stack.pop()][::-1]
            for key in items[::2]:
                keys += not isinstance(key, str)
                if isinstance(key, _Tuple):
                    spent.take(objects=key.size, what=_WHAT)
            if keys > _MOST_KEYS:
                raise ValueError(f"{path} holds more than {_MOST_KEYS} keys that are not texts: save lists or tensors")
        elif kind == "BINPERSID":
            stored += _length(stack.pop())
            if stored > spent.size:
                raise ValueError(f"{path} states to hold {stored} numbers in {spent.size} bytes: it is damaged")
            stack.append(_OTHER)
        elif kind in ("REDUCE", "NEWOBJ"):
            arguments, called = stack.pop(), stack.pop()
            _check_call(path, called, arguments)
            stack.append(_BYTES if called == _Name("_codecs.encode") else _OTHER)
        elif kind == "BUILD":
            stack.pop()
        elif kind not in ("PROTO", "STOP"):
            return


def _to_mark(stack: list[Any]) -> list[Any]:
    """Takes what lies above the last mark, and the mark."""
    found = list(itertools.takewhile(lambda one: one is not _MARK, reversed(stack)))
    del stack[len(stack) - len(found) - 1 :]
    return found[::-1]


def _tuple(path: Path, items: Sequence[Any]) -> _Tuple:
    inner = [item for item in items if isinstance(item, _Tuple)]
    depth = 1 + max((one.depth for one in inner), default=0)
    if depth > _DEEPEST_TUPLE:
        raise ValueError(f"{path} holds tuples nested more than {_DEEPEST_TUPLE} deep: save lists or tensors")
    return _Tuple(tuple(items), 1 + len(items) + sum(one.size for one in inner), depth)


def _length(identity: Any) -> int:
    """Numbers of a storage, as ("storage", type, key, place, length) states it."""
    items = identity.items if isinstance(identity, _Tuple) else ()
    return items[4] if len(items) > 4 and isinstance(items[4], int) else 0


def _check_call(path: Path, called: Any, arguments: Any) -> None:
    """Raises ValueError for a call that makes more than its arguments hold."""
    name = called.name if isinstance(called, _Name) else ""
    items = arguments.items if isinstance(arguments, _Tuple) else ()
    if name == _TYPED and len(items) > 2:
        _check_call(path, items[0], items[2])
    elif name == "_codecs.encode":
        if items[1:] != ("latin1",):  # other codes can take the square of a text's length
            raise pickled(path, name)
    elif name.endswith(_BY_LENGTH) and items not in ((), (_BYTES,)):
        raise pickled(path, name)


def pickled(path: Path, name: str = "") -> ValueError:
    """The error of a file that holds an object which is not made."""
    named = f" ({shown(name, 60)})" if name else ""
    return ValueError(
        f"{path} holds a pickled object{named}, and opening it could run code: where you trust the file, save plain "
        "tensors with torch.save({'x': x, 'y': y}, path), then open that"
    )
