"""Small models whose bounds are known, and the reasons why a model has none."""

import numpy as np
import torch
from stretching import jacobian
from torch import nn

from sciops import Grid
from sciops.lipschitz import lipschitz_bound
from sciops.models.spine.operator import Operator

LINE = Grid((4,), centering="cell")
SQUARE = Grid((5, 5), centering="cell")


def twice(n=3):
    layer = nn.Linear(n, n, bias=False)
    layer.weight.data = 2 * torch.eye(n)
    return layer


def reason(model, grid=LINE, **options):
    """Why there is no bound; fails where there is one."""
    bound = lipschitz_bound(model, grid, **options)
    assert bound.value is None, bound
    return "; ".join(row.reason for row in bound.blocks if row.value is None)


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class Standardised(nn.Linear):
    def forward(self, x):
        return nn.functional.linear(x, self.weight / self.weight.norm() * 10)


def nothing(*_):
    return None


def hooked(module):
    module.register_forward_hook(nothing)


def spine(**options):
    options = dict(width=3, depth=1, norm="none", mlp="plain", ndim=1, mixer_options={"modes": (2,)}) | options
    return Operator(1, 1, **options)


def stretched(model, grid, x):
    matrix, _ = jacobian(model.double(), x, None)
    true = float(np.linalg.norm(matrix.numpy(), 2))
    bound = lipschitz_bound(model, grid).value
    assert true <= bound * (1 + 1e-12)
    return bound, true
