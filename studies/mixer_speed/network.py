"""neuraloperator's FNO written with the parts of this package: the same function with the same weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.mixers import SpectralMixer
from sciops.models import build_model
from sciops.models.operators.neuralop_spectral import computes
from studies.kit.profiles import profiled
from studies.kit.timing import interleaved, ratio, require_equal, threads
from studies.mixer_speed.layer import synchronizer


class Twin(nn.Module):
    """u = Q(B_depth … B_1 P(a, ξ)),  B(x) = σ(M(σ(Kx + Wx)) + g·x), the last block without either σ.

    K is the spectral mixer, M a pointwise map through a narrower layer, g one number per channel. Built from a
    neuraloperator `FNO` of default architecture, whose weights it copies; its output at odd sizes is reproduced with
    the shift it has. (batch, in, *grid) → (batch, out, *grid); channels come last inside.
    """

    def __init__(self, fno: Any) -> None:
        super().__init__()
        blocks = fno.fno_blocks
        self.positions = fno.positional_embedding
        self.lift = _pointwise(fno.lifting)
        self.project = _pointwise(fno.projection)
        odd = tuple(4 * n + 1 for n in blocks.convs[0].n_modes)
        rolled = computes(blocks.convs[0], odd, odd) == "rolled"
        self.mixers = nn.ModuleList(SpectralMixer.from_neuralop(conv, compat_shift=rolled) for conv in blocks.convs)
        self.skips = nn.ModuleList(_linear(skip.conv) for skip in blocks.fno_skips)
        self.maps = nn.ModuleList(_pointwise(part) for part in blocks.channel_mlp)
        self.gates = nn.ParameterList(part.weight.detach().flatten().clone() for part in blocks.channel_mlp_skips)
        self._placed: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        shape = (x.shape[0], -1, *x.shape[2:])
        if self._placed is None or self._placed.shape[2:] != x.shape[2:]:
            with torch.no_grad():
                self._placed = self.positions(x[:1])[:, x.shape[1] :].clone()
        h = torch.cat([x, self._placed.expand(shape)], 1).movedim(1, -1)
        h = self.lift(h)
        depth = len(self.mixers)
        for i, (mixer, skip, mlp, gate) in enumerate(zip(self.mixers, self.skips, self.maps, self.gates)):
            y = _plus_linear(mixer(h), skip, h)
            y = mlp(y if i == depth - 1 else F.gelu(y))
            y = torch.addcmul(y, h, gate)
            h = y if i == depth - 1 else F.gelu(y)
        return self.project(h).movedim(-1, 1)


def _plus_linear(y: Tensor, linear: nn.Linear, h: Tensor) -> Tensor:
    """y + linear(h), the product added to y as it is made."""
    channels = y.shape[-1]
    y = torch.addmm(y.reshape(-1, channels), h.reshape(-1, h.shape[-1]), linear.weight.t()).view(y.shape)
    return y if linear.bias is None else y + linear.bias


def _linear(conv: Any) -> nn.Linear:
    """The convolution with one tap as a map of the last axis."""
    out, inner = conv.weight.shape[:2]
    linear = nn.Linear(inner, out, bias=conv.bias is not None)
    with torch.no_grad():
        linear.weight.copy_(conv.weight.reshape(out, inner))
        if conv.bias is not None:
            linear.bias.copy_(conv.bias)
    return linear


def _pointwise(mlp: Any) -> nn.Sequential:
    layers: list[nn.Module] = []
    for i, conv in enumerate(mlp.fcs):
        layers += [nn.GELU()] * (i > 0) + [_linear(conv)]
    return nn.Sequential(*layers)


def their_fno(width: int, depth: int, modes: int, *, columns: int | None = None) -> nn.Module:
    """neuraloperator's FNO in its default architecture, with rows −modes … modes − 1 and as many columns, one channel.

    columns : of the half spectrum, where it is not `modes`
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from neuralop.models import FNO
    n_modes = (2 * modes, 2 * ((columns or modes) - 1))
    return FNO(n_modes=n_modes, in_channels=1, out_channels=1, hidden_channels=width, n_layers=depth)


def our_models(width: int, depth: int, modes: tuple[int, int], grid: Grid) -> dict[str, nn.Module]:
    """Our own models of that width, depth and modes, which are other functions: `fno` and its classic block."""
    options = dict(in_channels=1, out_channels=1, width=width, depth=depth, modes=modes, grid=grid)
    return {"fno": build_model("fno", **options), "fno, classic block": build_model("fno", block="classic", **options)}


def step(
    width: int,
    depth: int,
    modes: int,
    points: int,
    batch: int,
    *,
    rounds: int,
    count: int,
    peer_compiled: bool,
    device: str = "cpu",
    seed: int = 0,
) -> dict[str, Any]:
    """Times of a training step: forward, backward with a random cotangent, Adam.

    Raises RuntimeError where the twin's output or the gradient of its input, compiled or not, is not that of
    neuraloperator's FNO (1e-5).
    """
    torch.manual_seed(seed)
    theirs = their_fno(width, depth, modes).to(device)
    x = torch.randn(batch, 1, points, points, device=device)
    g = torch.randn(batch, 1, points, points, device=device)
    theirs(x[:1])  # they make their positions at the first call
    grid = Grid((points, points))
    networks: dict[str, tuple[nn.Module, Callable]] = {"theirs": (theirs, theirs)}
    for name in ("same network", "same network, compiled"):
        twin = Twin(theirs).to(device)
        networks[name] = (twin, torch.compile(twin) if "compiled" in name else twin)
    if peer_compiled:
        copy = their_fno(width, depth, modes).to(device)
        copy.load_state_dict(theirs.state_dict())
        networks["theirs, compiled"] = (copy, torch.compile(copy))
    for name, model in our_models(width, depth, (modes, modes), grid).items():
        networks[name] = (model.to(device), model.to(device))

    def make_step(model: nn.Module, call: Callable) -> Callable[[], None]:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

        def one() -> None:
            optimizer.zero_grad(set_to_none=True)
            (call(x) * g).sum().backward()
            optimizer.step()

        return one

    def answers(call: Callable) -> tuple[Tensor, Tensor]:
        z = x.clone().requires_grad_()
        y = call(z)
        return y.detach(), torch.autograd.grad(y, z, g)[0]

    with threads(count):
        expected, difference, failed = answers(theirs), 0.0, ""
        for name, (_, call) in list(networks.items()):
            if not name.startswith(("same", "theirs,")):
                continue
            try:
                found = answers(call)
            except Exception as error:  # their network is not made for the compiler; ours must pass
                if name.startswith("same"):
                    raise
                failed = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
                del networks[name]
                continue
            for what, a, b in zip(("output", "gradient of the input"), found, expected):
                difference = max(difference, require_equal(f"{name}, {what}", a, b, 1e-5))
        calls = {name: make_step(*network) for name, network in networks.items()}
        times = interleaved(calls, rounds=rounds, warmup=2, synchronize=synchronizer(device))
        name = f"FNO step, {points}², same network"
        profiles = {name: profiled(calls["same network"], count)} if device == "cpu" else {}
    return {
        "points": points,
        "batch": batch,
        "threads": count,
        "difference": difference,
        "peer_compiler": failed,
        "profiles": profiles,
        "seconds": {name: float(np.median(t)) for name, t in times.items()},
        "ratio": {name: ratio(times["theirs"], t) for name, t in times.items() if name != "theirs"},
    }
