"""Models in folders and repositories of the Hugging Face hub's form: config.json, model.safetensors, README.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sciops.files.json_files import write_atomically
from sciops.models.persistence import CONFIG, WEIGHTS, load_model, save_model

_FILES = [CONFIG, WEIGHTS, "README.md"]
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


def save_pretrained(model: nn.Module, folder: str | Path, *, card: str | None = None) -> Path:
    """Saves a model to a folder that can be uploaded to the Hugging Face hub as it is.

    Parameters
    ----------
    model : nn.Module
        As in `sciops.save_model`.
    folder : str or Path
        Created if it does not exist.
    card : str, optional
        Text of README.md, such as ``sciops.zoo.card(name).text()``; by default the name of the model alone.

    Returns
    -------
    Path
        The folder; ``huggingface_hub.upload_folder(repo_id=…, folder_path=…)`` publishes it.

    Raises
    ------
    TypeError, OSError
        As `sciops.save_model`.
    """
    folder = save_model(model, folder)
    text = card or f"---\nlibrary_name: sciops\n---\n\n# {Path(folder).resolve().name}\n"
    write_atomically(folder / "README.md", text.encode())
    return folder


def from_pretrained(
    source: str | Path,
    *,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    local_files_only: bool = True,
    device: torch.device | str = "cpu",
) -> nn.Module:
    """The model of a folder, or of a repository of the Hugging Face hub, in evaluation mode.

    Nothing is fetched unless it is asked for: a repository is looked up in the hub's cache on this machine.

    Parameters
    ----------
    source : str or Path
        A folder of `save_pretrained` or `sciops.save_model`, or "owner/name".
    revision : str, optional
        Branch, tag or commit of the repository.
    cache_dir : str or Path, optional
        The hub's cache; by default its own.
    local_files_only : bool
        False fetches what the cache lacks.
    device : torch.device or str
        Where the model is put.

    Raises
    ------
    FileNotFoundError
        For a folder that is not there, and a repository that is neither in the cache nor can be fetched.
    ImportError
        For a repository, without huggingface_hub.
    ValueError
        For files that are damaged or do not fit each other, as `sciops.load_model`.
    """
    folder = Path(source)
    if not folder.is_dir():
        if not isinstance(source, str) or not _REPOSITORY.fullmatch(source):
            raise FileNotFoundError(f"{source}: no such folder, and not owner/name of a repository of the hub")
        folder = _fetched(source, revision=revision, cache_dir=cache_dir, local_files_only=local_files_only)
    return load_model(folder, device=device)


def _fetched(repository: str, *, local_files_only: bool, **options: Any) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise ImportError(
            f"{repository}: no such folder; repositories need huggingface_hub: pip install 'sciops[download]'"
        ) from None
    try:
        return Path(snapshot_download(repository, allow_patterns=_FILES, local_files_only=local_files_only, **options))
    except LocalEntryNotFoundError:
        how = "pass local_files_only=False to fetch it" if local_files_only else "the hub did not answer"
        raise FileNotFoundError(f"{repository}: no such folder, and not in the hub's cache; {how}") from None
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise FileNotFoundError(f"{repository}: {' '.join(str(error).split())[:200]}") from None
