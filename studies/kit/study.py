"""The frame of a study's run: folder and options at the start; results, figures, tables and faults at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import Any

from sciops.runs import RunFolder, write_json
from studies.kit.tables import Recorder


def opened(config: Any, **about: Any) -> RunFolder:
    """The folder ``config.output``, with the configuration and the environment in it.

    about : seeds, methods and data, for `RunFolder.describe`

    Raises ValueError where ``config.device`` is none, before anything is written.
    """
    if hasattr(config, "device"):
        from sciops.arrays.devices import device_called

        device_called(config.device)
    folder = RunFolder(config.output)
    folder.describe(config, **about)
    return folder


def device_name(device: str) -> str:
    """What results call it: the model of a CUDA device, otherwise the name itself. Raises ValueError as `opened`."""
    import torch

    from sciops.arrays.devices import device_called

    found = device_called(device)
    return torch.cuda.get_device_name(found) if found.type == "cuda" else device


def picked(config: Any, names: str, prefix: str = "") -> dict[str, Any]:
    """Fields of a configuration by name, the names separated by spaces; `prefix` stands before them in the fields."""
    return {name: getattr(config, prefix + name) for name in names.split()}


def finished(
    folder: RunFolder,
    results: dict[str, Any],
    draw: Callable[..., Any],
    show: Callable[..., Any],
    *given: Any,
    answer: Callable[[dict[str, Any]], str],
    picture: str = "",
    wrong: str = "",
) -> dict[str, Any]:
    """Writes results.json, draws the figures, prints the tables and the folder; returns the results.

    What is printed is kept in report.json, from which ``sciops report`` makes a page.

    Parameters
    ----------
    folder : RunFolder
    results : dict
    draw, show : callables
        Called as ``draw(results, *given, path)`` and ``show(results, *given)``.
    *given
        The configuration, where both take it.
    answer : callable
        Of the results alone: what the study found, in one sentence, the first of its page (`studies.kit.answers`).
    picture : str
        Name of the one figure; by default `draw` is given the folder of the figures.
    wrong : str
        What does not hold, for which the study has to fail after all is written.

    Raises
    ------
    RuntimeError
        With the text of `wrong` where it is not empty.
    """
    folder.write_results(results)
    draw(results, *given, folder.figures / picture)
    with redirect_stdout(Recorder(sys.stdout)) as printed:
        show(results, *given)
    blocks = [block if isinstance(block, str) else asdict(block) for block in printed.blocks]
    figures = [picture] if picture else sorted(path.name for path in folder.figures.iterdir())
    found = answer(results)
    write_json(folder.path / "report.json", {"answer": found, "blocks": blocks, "figures": figures})
    print(f"\n{found}" if found else "")
    print(f"results.json and figures{picture and '/'}{picture} in {folder.path}")
    print(f"sciops report {folder.path} makes a page of them")
    if wrong:
        raise RuntimeError(wrong)
    return results
