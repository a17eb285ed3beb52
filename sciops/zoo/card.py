"""Cards of trained models, in the form of the Hugging Face hub: text that people read, data that tests read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from sciops.files.json_files import write_atomically, write_json
from sciops.files.untrusted import read_json

_DATA, _TEXT = "card.json", "README.md"
_METRICS = {"relative_l2": "relative L2 error", "error_rate": "share of wrong answers"}


@dataclass(frozen=True)
class ModelCard:
    """What a trained model is, and how well it does.

    Parameters
    ----------
    name, title : str
        Name in the zoo, and one line of what the model does.
    equation : str
        Formula, as in the generator's help.
    law : str
        Distribution of the data in one sentence.
    data, training : str
        Commands that make the training fields and train the model.
    model : str
        Name of the architecture; `parameters` its number of weights, complex ones counted twice.
    grid : str
        Points and centering of the training fields.
    train_samples, test_samples : int
    metric : str
        Name of what `error`, `spread` and `check` are.
    error, spread, worst : float
        Mean over the test samples, standard deviation over them, and the largest.
    seeds : dict
        Of the training fields, the test fields and the initial weights.
    check : tuple of float
        The metric of the first test samples, which ``sciops study zoo --part score`` computes again.
    shift : tuple of dict
        Rows {"grid", "method", "samples", "direct", "resampled"}: the mean error of the first test samples on other
        grids than that of training, with the model called there directly, and on its own grid with the result resampled
        by that method.
    baseline : dict
        Name → the same metric of what needs no training, such as the first frame kept, or a solver.
    limits : tuple of str
        What the model is not for.
    seconds : float
        Of training, on the machine named by `processor`.
    """

    name: str
    title: str
    equation: str
    law: str
    data: str
    training: str
    model: str
    parameters: int
    grid: str
    train_samples: int
    test_samples: int
    metric: str
    error: float
    spread: float
    worst: float
    seeds: dict[str, int]
    check: tuple[float, ...]
    shift: tuple[dict[str, Any], ...] = ()
    baseline: dict[str, float] | None = None
    limits: tuple[str, ...] = ()
    seconds: float = 0.0
    processor: str = ""
    versions: dict[str, str] | None = None

    def text(self) -> str:
        """The card as a README with the hub's metadata (YAML, of which JSON is a part) at its head."""
        named = _METRICS.get(self.metric, self.metric)
        metric = {"type": self.metric, "value": round(self.error, 6), "name": named}
        result = {
            "task": {"type": "other", "name": "PDE surrogate" if self.equation else "image classification"},
            "dataset": {"type": "generated", "name": self.law},
            "metrics": [metric],
        }
        head = {
            "library_name": "sciops",
            "license": "mit",
            "tags": ["neural-operator", "pde", self.model] if self.equation else ["image-classification"],
            "model-index": [{"name": self.name, "results": [result]}],
        }
        front = "\n".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items())
        rows = [
            ("equation", self.equation),
            ("data", self.law),
            ("model", f"{self.model}, {self.parameters:,} parameters"),
            ("grid", self.grid),
            ("samples", f"{self.train_samples} to train on, {self.test_samples} to test on"),
            ("seeds", ", ".join(f"{key} {value}" for key, value in self.seeds.items())),
            ("training", f"{self.seconds:.0f} s on {self.processor}"),
        ]
        table = "\n".join(f"| {key} | {_cell(value)} |" for key, value in rows if value)
        shift = "".join(
            f"| {row['grid']} | {row['direct']:.4f} | {row['resampled']:.4f} ({row['method']}) |\n"
            for row in self.shift
        )
        if shift:
            many = f"{self.shift[0]['samples']} test samples"
            shift = (
                f"## On other grids\n\nMean error over {many}, of the model called on the grid itself, and of its "
                "result on its own grid, resampled.\n\n| grid | direct | resampled |\n"
                f"| --- | --- | --- |\n{shift}\n"
            )
        others = "".join(f"; {value:.4g} for {name}" for name, value in (self.baseline or {}).items())
        limits = "\n".join(f"- {limit}" for limit in self.limits)
        return (
            f"---\n{front}\n---\n\n# {self.name}\n\n{self.title}\n\n"
            f"{named[0].upper()}{named[1:]} {self.error:.4f} on average over {self.test_samples} test samples "
            f"(standard deviation {self.spread:.4f}, worst {self.worst:.4f}){others}.\n\n"
            f"| | |\n| --- | --- |\n{table}\n\n"
            f'## Use\n\n```python\nimport sciops\n\nmodel = sciops.load_model("zoo:{self.name}")\n```\n\n'
            f"## Training\n\n```bash\n{self.data}\n{self.training}\n```\n\n"
            f"{shift}## Limits\n\n{limits}\n"
        )


def write_card(folder: str | Path, card: ModelCard) -> Path:
    """Writes card.json and README.md into a model's folder; returns the folder."""
    folder = Path(folder)
    write_json(folder / _DATA, asdict(card))
    write_atomically(folder / _TEXT, card.text().encode())
    return folder


def has_card(folder: str | Path) -> bool:
    """Whether the folder is that of a model with a card."""
    return (Path(folder) / _DATA).is_file()


def read_card(folder: str | Path) -> ModelCard:
    """The card in a model's folder.

    Raises
    ------
    ValueError
        Where card.json is missing something, or is not a card.
    """
    path = Path(folder) / _DATA
    record = read_json(path)
    known = {field.name for field in fields(ModelCard)}
    if not isinstance(record, dict) or set(record) != known:
        raise ValueError(f"{path} is no card of a model: expected the entries {', '.join(sorted(known))}")
    values: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in record.items()}
    return ModelCard(**values)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
