"""Command lines from frozen dataclasses: one flag a field, presets as starting points, one-line errors."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sciops.files.budget import Budget, opening_within

_FIRST = ("data", "model", "samples", "resolutions", "arms", "layouts", "epochs", "seeds", "seed", "workers")
_BUDGET = (
    "--budget bytes=8e9,objects=1e6,seconds=60 is what a file may take that you trust (default: a gigabyte of memory "
    "besides its own size, 100,000 objects, 10 s)."
)


def command(
    run: Callable[[Any], Any],
    presets: Mapping[str, Any],
    arguments: Sequence[str] | None = None,
    *,
    prog: str | None = None,
) -> Any:
    """Parses `arguments` (default: the process's own) into a config and calls ``run(config)``.

    presets : name → frozen dataclass instance, all of one class; the first is the default. ``--preset NAME`` picks the
        starting point, every other flag changes one field of it.

    Errors end the process with status 2 and one line; set SCIOPS_DEBUG=1 to see the traceback.
    """

    def parse_and_run() -> Any:
        rest = list(sys.argv[1:] if arguments is None else arguments)
        with given_budget(rest):
            name = _take_option(rest, "--preset", next(iter(presets)))
            if name not in presets:
                raise ValueError(f"--preset {name}: expected one of {', '.join(presets)}")
            module = getattr(sys.modules["__main__"], "__spec__", None)  # None for a file that is run by its path
            called = prog or (f"python -m {module.name.removesuffix('.__main__')}" if module else None)
            description = _with_commands(sys.modules[run.__module__].__doc__ or "", run.__module__, called)
            description += f"\n\n--preset NAME picks the starting values: {', '.join(presets)} (now: {name})."
            description += f" Most used besides: {', '.join(_most_used(presets[name]))}."
            description += f"\n\n{_BUDGET}"
            return run(parse(type(presets[name]), rest, default=presets[name], prog=called, description=description))

    return guarded(parse_and_run)


def _with_commands(text: str, module: str, called: str | None) -> str:
    """The text of a module with its example commands as one types them, one a line, remarks after a #."""
    lines = []
    for line in text.strip().splitlines():
        if line.split()[:1] in (["python"], ["sciops"], ["torchrun"]):
            line = "    " + re.sub(r"(?<=\S)\s{3,}(?=[^\s#])", "    # ", line.strip())
            line = line.replace(f"python -m {module}", called or f"python -m {module}")
        lines.append(line)
    return "\n".join(lines)


def _most_used(preset: Any) -> list[str]:
    """The flags that a first command needs, of those that the configuration has."""
    names = {field.name for field in dataclasses.fields(preset)}
    flags = [f"--{name}" for name in _FIRST if name in names]
    return [*flags, "--output"] if names & {"output", "folder"} else flags


def parse(target: Callable[..., Any], arguments: Sequence[str], **options: Any) -> Any:
    """What ``tyro.cli(target, args=arguments, **options)`` returns; `target` must only build something, not act.

    Raises ValueError with tyro's framed refusals (unknown flags, missing or wrong values) in one line.
    """
    import tyro

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(target, args=arguments, **options)
    except SystemExit as stop:
        if not stop.code:  # --help
            raise
        raise ValueError(_unframed(said.getvalue())) from None


@contextlib.contextmanager
def given_budget(arguments: list[str]) -> Iterator[None]:
    """Files are opened within the budget of ``--budget``, which is taken out of the arguments.

    Raises ValueError for a text that is not a budget.
    """
    text = _take_option(arguments, "--budget", "")
    with opening_within(Budget.parse(text) if text else None):
        yield


def guarded(action: Callable[[], Any]) -> Any:
    """Calls `action`; an expected failure (bad input, file, missing extra, solver) ends the process in one line."""
    if os.environ.get("SCIOPS_DEBUG"):
        return action()
    try:
        try:
            return action()
        finally:
            sys.stdout.flush()  # here, where a pipe that nobody reads any more is not a failure
    except KeyboardInterrupt:
        sys.exit("stopped; run the same command again to resume")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to be flushed
        sys.exit(1)
    except (ValueError, TypeError, KeyError, OSError, ImportError, RuntimeError, MemoryError) as error:
        text = error.args[0] if isinstance(error, KeyError) and error.args else error
        print(f"error: {' '.join(str(text).split()) or type(error).__name__}", file=sys.stderr)
        sys.exit(2)


def _unframed(text: str) -> str:
    """tyro's framed refusal as one line: what is wrong, the flag that may have been meant, where the help is."""
    lines = (line.strip(" │") for line in text.splitlines() if line[:1] not in "╭╰")
    lines = (line for line in lines if line.strip("-─"))
    said = " ".join(" ".join(lines).split())
    said = re.sub(
        r"^(Unrecognized options|Value error|Invalid choice|Missing argument|Required options) (?=\w)", "", said
    )
    said = re.sub(r"^Error parsing (?=\w)[\w.]+: ", "", said)  # of a configuration: the message names the field itself
    said, _, after = said.partition("For full helptext, ")
    said = re.sub(r" Perhaps you meant: (--[\w-]+).*", r"; did you mean \1?", said)
    said = re.sub(r"(;? Got errors:| Argument helptext:) .*", "", said).strip(" ;.")
    help_of = re.search(r"(?:run|see):? (.+ --help)", after)
    return said[:1].lower() + said[1:] + (f"; {help_of[1]} tells more" if help_of else "")


def _take_option(arguments: list[str], flag: str, default: str) -> str:
    for i, argument in enumerate(arguments):
        if argument == flag:
            if i + 1 == len(arguments):
                raise ValueError(f"{flag} needs a value")
            del arguments[i]
            return arguments.pop(i)
        if argument.startswith(flag + "="):
            del arguments[i]
            return argument.split("=", 1)[1]
    return default
