"""`sciops predict` and `evaluate`: the verbs that use a trained model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tyro

from sciops.commands.command_line import parse


def predict(rest: list[str]) -> None:
    """Writes what a trained model predicts for a file."""

    def predict(
        run: tyro.conf.Positional[Path],
        data: Path,
        output: Path,
        samples: tuple[str, ...] = (),
        split: str | None = None,
        steps: int | None = None,
        resolution: tuple[int, ...] | None = None,
        batch_size: int | None = None,
        device: str | None = None,
        overwrite: bool = False,
    ) -> dict[str, Any]:
        """Predicts the fields of a file with a trained model, and writes them with their errors as a native file.

        The file holds u_predicted, and where the data hold u the error u_error = u_predicted - u and the relative L2
        error of each sample.

        Args:
            run: the folder of a sciops train run, or of a saved model
            data: a file of any known layout, on any grid that the model takes
            output: the native file to write, such as predictions.h5
            samples: numbers of samples, or ranges such as 0:10; default all
            split: train, validation or test: these samples alone
            steps: frames that a model of one step of time predicts; default as many as the data hold
            resolution: points per axis, for files that hold or nest several grids; default the finest
            batch_size: samples of a forward pass; default what fits into memory
            device: where the model runs, such as cuda; default cpu
            overwrite: replace an output that exists
        """
        return locals()

    from sciops.trained.prediction_file import write_predictions

    asked = parse(predict, rest, prog="sciops predict")
    asked["samples"], asked["resolution"] = _numbers(asked["samples"]), _points(asked["resolution"])
    print(write_predictions(asked.pop("run"), asked.pop("data"), asked.pop("output"), **asked))


def _numbers(texts: Sequence[str]) -> list[int] | None:
    """[0, 1, 2, 7] of ("0:3", "7"); None of no text."""
    numbers: list[int] = []
    for text in texts:
        first, colon, end = text.partition(":")
        if not (first.isdecimal() and (end.isdecimal() if colon else True)):
            raise ValueError(f"--samples {text}: expected numbers from 0 and ranges such as 0:10")
        numbers += range(int(first), int(end)) if colon else [int(first)]
    if texts and not numbers:
        raise ValueError(
            f"--samples {' '.join(texts)}: that is not a sample; a range holds its first number, not its last"
        )
    return numbers or None


def _points(shape: tuple[int, ...] | None) -> int | tuple[int, ...] | None:
    return shape[0] if shape is not None and len(shape) == 1 else shape


def evaluate(rest: list[str]) -> None:
    """Prints and writes how well a trained model does on a file."""

    def evaluate(
        run: tyro.conf.Positional[Path],
        data: Path,
        output: Path | None = None,
        samples: tuple[str, ...] = (),
        split: str | None = None,
        steps: int | None = None,
        resolution: tuple[int, ...] | None = None,
        solutions: int = 16,
        phases: tuple[float, float] | None = None,
        batch_size: int | None = None,
        device: str | None = None,
    ) -> dict[str, Any]:
        """Errors of a trained model on a file: their spread, by wavenumber, by step, beside the native solver.

        The folder holds results.json, table.txt, figures/errors.png and figures/samples.png, which shows the worst and
        the median sample.

        Args:
            run: the folder of a sciops train run, or of a saved model
            data: a file of any known layout that holds the truth; of the training's own data the test part is taken
            output: the folder of the results; default RUN/evaluation/NAME of the data
            samples: numbers of samples, or ranges such as 0:10
            split: train, validation or test: these samples alone
            steps: frames of a rollout; default as many as the data hold
            resolution: points per axis, for files that hold or nest several grids; default the finest, of the
                training's own data that of the training
            solutions: samples that the native solver solves too, where the equation is known; 0 for none
            phases: the low and the high value of a coefficient that only tells two phases apart, for the solver
            batch_size: samples of a forward pass; default what fits into memory
            device: where the model runs, such as cuda; default cpu
        """
        return locals()

    from sciops.trained.evaluation import evaluate_on
    from sciops.trained.evaluation_report import EvaluationConfig, output_of, write_evaluation

    asked = parse(evaluate, rest, prog="sciops evaluate")
    numbers = _numbers(asked["samples"])
    asked["samples"] = None if numbers is None else tuple(numbers)
    config = EvaluationConfig(**asked | {"resolution": _points(asked["resolution"])})
    output = output_of(config)
    options = {key: value for key, value in vars(config).items() if key not in ("run", "data", "output")}
    print(write_evaluation(evaluate_on(config.run, config.data, **options), config, output))
    print(f"results.json, table.txt and figures in {output}")


def zoo(rest: list[str]) -> None:
    """Lists the trained models that come with the package, or shows the card of one."""

    def zoo(name: tyro.conf.Positional[str | None] = None) -> dict[str, Any]:
        """Lists the trained models that come with the package; with a name, shows its card.

        sciops zoo burgers256
        sciops predict zoo:burgers256 --data burgers.h5 --output predictions.h5
        sciops study zoo --preset score          # computes the errors on the cards again

        Args:
            name: a model of the list
        """
        return locals()

    from sciops import zoo as models

    name = parse(zoo, rest, prog="sciops zoo")["name"]
    if name is not None:
        print(models.card(name).text())
        return
    for one in map(models.card, models.names()):
        size = sum(path.stat().st_size for path in models.folder_of(one.name).rglob("*") if path.is_file())
        error = f"{one.error:.4f} ± {one.spread:.4f}"
        print(f"zoo:{one.name:24s}{error:>18s} {one.metric:12s}{size / 1e6:5.1f} MB  {one.title}")
