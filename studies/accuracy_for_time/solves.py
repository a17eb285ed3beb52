"""What needs no network: the equation solved on the coefficient of the coarse nodes, and sums of two such solves."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sciops.datasets import Splits, TensorFields
from sciops.grids import Grid
from sciops.models import Corrector
from sciops.training import evaluate
from studies.accuracy_for_time.latency import latency

NATIVE, FINER = {"refine": 1}, {"refine": 2}
_FITTED = 200  # training fields by which solves are weighted, at most


class Solves(nn.Module):
    """Σ w u of solves of the same coefficient; each term is a weight w and the options of `Corrector` that give u."""

    def __init__(self, *terms: tuple[float, dict[str, int]]) -> None:
        super().__init__()
        self.weights = [weight for weight, _ in terms]
        self.solvers = nn.ModuleList(Corrector(nn.Identity(), tol=1e-8, **options) for _, options in terms)
        for solver in self.solvers:
            solver.correct = False

    def forward(self, x: Tensor, grid: Grid) -> Tensor:
        return sum(weight * solver(x, grid) for weight, solver in zip(self.weights, self.solvers))


def solver_rows(splits: Splits) -> dict[str, dict[str, Any]]:
    """Name → {"error", "errors" of the test fields, "milliseconds" a sample, "weights"}.

    Richardson's extrapolation takes the native and the finer solve for second order, (4u_2 − u_1)/3; the weighted
    solves are w_1 u_1 + w_2 u_2 with the weights of `fitted_weights`.
    """
    fitted = fitted_weights(splits.train)
    models = {
        "solve, 2× coarser": Solves((1.0, {"coarsen": 2})),
        "native solve": Solves((1.0, NATIVE)),
        "solve, 2× finer": Solves((1.0, FINER)),
        "Richardson extrapolation": Solves((-1 / 3, NATIVE), (4 / 3, FINER)),
        "weighted solves": Solves((fitted[0], NATIVE), (fitted[1], FINER)),
    }
    found = {}
    for name, model in models.items():
        errors = evaluate(model, splits.test, ("relative_l2",))["relative_l2"]
        found[name] = {"error": float(errors.mean()), "errors": errors, "weights": model.weights}
        found[name]["milliseconds"] = latency(model, splits.test)
    return found


def fitted_weights(train: TensorFields) -> list[float]:
    """[w_1, w_2] with the least Σ ‖w_1 u_1 + w_2 u_2 − u‖²/‖u‖² over the first training fields, in float64."""
    x, u = train.x[:_FITTED].double(), train.y[:_FITTED].double().flatten(1)
    size = u.norm(dim=1, keepdim=True)
    columns = [(Solves((1.0, how))(x, train.grid).flatten(1) / size).ravel() for how in (NATIVE, FINER)]
    return torch.linalg.lstsq(torch.stack(columns, 1), (u / size).reshape(-1, 1)).solution.ravel().tolist()
