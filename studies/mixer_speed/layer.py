"""The spectral mixer beside neuraloperator's spectral convolution: equal, then timed; memory; product against FFT."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops.mixers import SpectralMixer
from sciops.mixers.spectral import fourier
from sciops.models.operators.neuralop_spectral import computes
from studies.kit.timing import device_peak, interleaved, peak_memory, ratio, require_equal, threads


def synchronizer(device: str) -> Callable[[], Any] | None:
    return torch.cuda.synchronize if torch.device(device).type == "cuda" else None


def pair(channels: int, modes: int, device: str, seed: int = 0) -> tuple[nn.Module, SpectralMixer]:
    """(their layer, ours with its weights): n_modes = 2·modes per axis, that is 2·modes rows and modes + 1 columns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from neuralop.layers.spectral_convolution import SpectralConv
    torch.manual_seed(seed)
    conv = SpectralConv(channels, channels, (2 * modes, 2 * modes), bias=False)
    # version 2.0.0 moves the output by one mode at odd sizes: the same function is compared, fault included
    odd = (4 * modes + 1,) * 2
    mixer = SpectralMixer.from_neuralop(conv, compat_shift=computes(conv, odd, odd) == "rolled")
    return conv.to(device), mixer.to(device)


def gradients(layer: nn.Module, x: Tensor, cotangent: Tensor) -> list[Tensor]:
    """Those of the input and of every weight."""
    return list(torch.autograd.grad(layer(x), [x, *layer.parameters()], cotangent))


def check(name: str, conv: nn.Module, mixer: SpectralMixer, x: Tensor, cotangent: Tensor) -> float:
    """The largest relative difference of outputs and gradients in float32; RuntimeError above 1e-6 (CUDA 5e-6).

    x, cotangent : channels first; gradients of the weights are compared in our layout.
    """
    last, g_last = x.detach().movedim(1, -1).contiguous().requires_grad_(), cotangent.movedim(1, -1).contiguous()
    most = 1e-6 if x.device.type == "cpu" else 5e-6
    theirs, ours = gradients(conv, x, cotangent), gradients(mixer, last, g_last)
    found = [require_equal(f"{name}, output", mixer(last).movedim(-1, 1), conv(x), most)]
    found.append(require_equal(f"{name}, gradient of the input", ours[0].movedim(-1, 1), theirs[0], most))
    # their weight is (in, out, rows −K … K−1, columns); ours (rows 0 … K−1, −1 … −K, columns, in, 2, out)
    rows = conv.weight.shape[2] // 2
    order = [*range(rows, 2 * rows), *range(rows - 1, -1, -1)]
    weight = torch.view_as_real(theirs[1])[:, :, order].permute(2, 3, 0, 4, 1)
    found.append(require_equal(f"{name}, gradient of the weights", ours[1], weight, most))
    return max(found)


def check_float64(points: Sequence[int] = (16, 17, 85), device: str = "cpu") -> float:
    """The largest relative error against rfft2, a product per mode and irfft2, both ways, in float64; at most 1e-12."""
    worst = 0.0
    for n in points:
        torch.manual_seed(n)
        k = min(6, n // 2)
        mixer = SpectralMixer(3, (k, k + 1)).double().to(device)
        x = torch.randn(2, n, n, 3, dtype=torch.float64, device=device)
        weight = torch.complex(*mixer.parts[0].weight.unbind(-2))
        rows = [*range(k), *range(-1, -k - 1, -1)]
        spectrum = torch.fft.rfft2(x, dim=(1, 2))
        result = torch.zeros_like(spectrum)
        result[:, rows, : k + 1] = torch.einsum("bxyi,xyio->bxyo", spectrum[:, rows, : k + 1], weight)
        reference = torch.fft.irfft2(result, s=(n, n), dim=(1, 2))
        for method in ("product", "fft"):
            mixer.parts[0].method = method
            worst = max(worst, require_equal(f"float64 at {n}², {method}", mixer(x), reference, 1e-12))
    return worst


def speed(
    case: tuple[int, int, int, int], *, rounds: int, count: int, device: str = "cpu", seed: int = 0
) -> dict[str, Any]:
    """One row of the table: (batch, channels, modes, points), times and ratios on `count` threads.

    "door" is ours with channels first on both sides: the conversion of the layout and of the gradient included.
    """
    batch, channels, modes, n = case
    conv, mixer = pair(channels, modes, device, seed)
    x = torch.randn(batch, channels, n, n, device=device, requires_grad=True)
    g = torch.randn(batch, channels, n, n, device=device)
    last, g_last = x.detach().movedim(1, -1).contiguous().requires_grad_(), g.movedim(1, -1).contiguous()

    def door(y: Tensor) -> Tensor:
        return mixer(y.movedim(1, -1)).movedim(-1, 1)

    def without_gradients(layer: Callable, y: Tensor) -> Tensor:
        with torch.no_grad():
            return layer(y)

    calls = {
        "theirs": lambda: gradients(conv, x, g),
        "ours": lambda: gradients(mixer, last, g_last),
        "door": lambda: torch.autograd.grad(door(x), [x, *mixer.parameters()], g),
        "theirs, forward": lambda: without_gradients(conv, x),
        "ours, forward": lambda: without_gradients(mixer, last),
    }
    with threads(count):
        difference = check(f"{n}²", conv, mixer, x, g)
        times = interleaved(calls, rounds=rounds, warmup=2, synchronize=synchronizer(device))
    return {
        "case": case,
        "threads": count,
        "difference": difference,
        "seconds": {name: float(np.median(t)) for name, t in times.items()},
        "both": ratio(times["theirs"], times["ours"]),
        "forward": ratio(times["theirs, forward"], times["ours, forward"]),
        "door": ratio(times["theirs"], times["door"]),
    }


def work(case: tuple[int, int, int, int]) -> tuple[int, int]:
    """(operations, bytes) of forward and backward in float32, the products as `SpectralMixer` writes them.

    Two transforms and two transposed ones of B·n rows, n → 2M and of B columns, 2n → 4K; K·M complex products of C × C
    weights and two for their gradients. x and its cotangent are read, y and the gradient of x written.
    """
    batch, channels, k, n = case
    m = k + 1
    last, leading = 4 * m * n * n * channels * batch, 16 * k * n * m * channels * batch
    mixing = 16 * batch * k * m * channels**2
    return 4 * (last + leading) + 3 * mixing, 4 * 4 * batch * n * n * channels


def one_pass(
    whose: str, batch: int, channels: int, modes: int, n: int, count: int, device: str = "cpu"
) -> Callable[[], Any]:
    """What `memory` measures: forward and backward, weights and input made beforehand."""
    torch.set_num_threads(count)
    conv, mixer = pair(channels, modes, device)
    layer = conv if whose == "theirs" else mixer

    def fields(points: int) -> tuple[Tensor, Tensor]:
        shape = (batch, channels, points, points) if whose == "theirs" else (batch, points, points, channels)
        return torch.randn(shape, device=device, requires_grad=True), torch.randn(shape, device=device)

    # libraries take buffers at their first call and keep them; what is measured is a step, not a start
    gradients(layer, *fields(2 * modes))
    x, g = fields(n)
    return lambda: gradients(layer, x, g)


def memory(case: tuple[int, int, int, int], *, repeats: int, count: int, device: str = "cpu") -> dict[str, Any]:
    """Peak bytes of forward and backward beyond input and weights, the median of `repeats` processes of their own."""
    peaks = {}
    for whose in ("theirs", "ours"):
        if torch.device(device).type == "cuda":
            peaks[whose] = device_peak(one_pass(whose, *case, count, device))
        else:
            function = "studies.mixer_speed.layer:one_pass"
            peaks[whose] = float(np.median([peak_memory(function, whose, *case, count) for _ in range(repeats)]))
    return {"case": case, **peaks, "ratio": peaks["ours"] / peaks["theirs"]}


def crossing(
    axes: Mapping[str, Sequence[int]], modes: Sequence[int], *, rounds: int, count: int, device: str = "cpu"
) -> list[dict[str, Any]]:
    """Time by FFT over time by products of one axis, forward and inverse, for growing numbers of kept modes.

    axes : {"last" or "leading": lengths}; 4·10⁶ numbers each
    """
    rows = []
    for kind, lengths in axes.items():
        for n in lengths:
            most = n // 2 + 1 if kind == "last" else n // 2
            for k in (k for k in modes if k <= most):
                rows.append(_crossing(kind, n, k, rounds, count, device))
    return rows


def _crossing(kind: str, n: int, k: int, rounds: int, count: int, device: str) -> dict[str, Any]:
    place = torch.float32, torch.device(device)
    if kind == "last":
        x = torch.randn(max(1, 4 * 10**6 // (n * 32)), n, 32, device=device)
    else:
        # one leading axis alone: complex columns as the last axis leaves them
        x = torch.randn(max(1, 4 * 10**6 // (n * 1024)), n, 2, 512, device=device)

    def there_and_back(method: str) -> Callable[[], Tensor]:
        leading, _, last = fourier.tables(
            (n,) if kind == "last" else (n, 1), (k,) if kind == "last" else (k, 1), *place, method
        )
        if kind == "last":
            return lambda: fourier.last_axis_transposed(fourier.last_axis(x, last).reshape(len(x), 2, k, 32), last, n)
        table = leading[0]
        return lambda: fourier.leading_axis_transposed(
            fourier.leading_axis(x, table).reshape(len(x), 2, 2 * k, 512), table, n
        )

    calls = {method: there_and_back(method) for method in ("product", "fft")}
    with threads(count), torch.no_grad():
        require_equal(
            f"{kind} axis of {n}, {k} modes", calls["fft"]().reshape(-1), calls["product"]().reshape(-1), 1e-5
        )
        times = interleaved(calls, rounds=rounds, synchronize=synchronizer(device))
    return {"axis": kind, "points": n, "modes": k, "ratio": ratio(times["fft"], times["product"])["median"]}
