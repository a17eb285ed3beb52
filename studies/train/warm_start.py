"""Training that begins with another run: what ``--from RUN`` of `studies.train` means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from sciops.grids import Grid
from sciops.models import DISTRIBUTIONS
from sciops.training.checkpoints import load_checkpoint
from sciops.training.warm_start import core_of, source_of
from studies.train.tasks import channels_of

if TYPE_CHECKING:
    from studies.train import TrainStudyConfig

_ARCHITECTURE = ("model", "mixer", "width", "depth", "modes", "options")  # options that --from decides


@dataclass(frozen=True)
class Beginning:
    """The architecture of another run.

    source : as it was named; digest : SHA-256 of its weights, of a resumed run those it began with
    described : the description of its model, without the wrappers around it
    """

    source: str
    digest: str | None
    described: Mapping[str, Any]

    def build(self, config: TrainStudyConfig, task: str, train: Any) -> nn.Module:
        """The same architecture for the new fields: their channels, and their first grid as its reference.

        Raises ValueError where the number of axes differs.
        """
        import torch

        from sciops.models import build_model

        options = dict(self.described["options"])
        grid: Grid = train.grid
        axes = options.get("ndim") or len(options.get("modes") or grid.shape)
        if axes != grid.ndim:
            raise ValueError(f"--from {self.source} was trained on {axes} axes, these fields have {grid.ndim}")
        if "grid" in options:
            options["grid"] = grid
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            return build_model(self.described["name"], **options | channels_of(task, train))

    def line(self, core: nn.Module) -> str:
        """What the training begins with, for the terminal."""
        options = self.described["options"]
        shown = [f"{name} {options[name]}" for name in ("width", "depth", "modes") if name in options]
        count = sum(p.numel() for p in core.parameters())
        return f"from {self.source}: {', '.join([self.described['name'], *shown])}, {count:,} parameters"


def beginning(config: TrainStudyConfig) -> Beginning:
    """What ``--from`` names.

    Raises ValueError for a model without a description, for other weights than those of ``start_digest``, and where an
    option asks for another architecture; FileNotFoundError for a source that is not there.
    """
    from sciops.files.digest import digest_of
    from studies.train import PRESETS

    for name in _ARCHITECTURE:
        value = getattr(config, name)
        if all(value != getattr(preset, name) for preset in PRESETS.values()):
            shown = " ".join(map(str, value)) if isinstance(value, tuple) else value
            raise ValueError(
                f"--{name} {shown}: --from {config.start_from} takes the architecture of that run; leave --{name} out, "
                "or leave --from out and train a new model"
            )
    last, digest = Path(config.folder) / "last.safetensors", None
    if config.resume and last.is_file():  # the source may have changed since, or be gone
        state = load_checkpoint(last)[1]
        described, digest = state.get("model"), (state.get("start") or {}).get("digest")
    else:
        tensors, described = source_of(config.start_from)
        digest = digest_of(tensors)
    core = core_of(described)
    if not isinstance(core, Mapping) or not {"name", "options"} <= core.keys():
        raise ValueError(
            f"--from {config.start_from} does not say how its model is built: build it and call fit with "
            "TrainConfig(start_from=...)"
        )
    if core["name"] in DISTRIBUTIONS:
        raise ValueError(
            f"--from {config.start_from} is a model of a distribution ({core['name']}): build it and call fit with "
            "TrainConfig(start_from=...)"
        )
    if config.start_digest not in (None, digest):
        raise ValueError(
            f"--from {config.start_from} holds other weights: sha256 {digest}, --start-digest is {config.start_digest}"
        )
    return Beginning(str(config.start_from), digest, core)
