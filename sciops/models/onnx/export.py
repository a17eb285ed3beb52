"""Export of models to ONNX files, which are checked before they are kept."""

from __future__ import annotations

import copy
import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sciops.files.whole_files import replacing
from sciops.grids import Grid
from sciops.models.apply import real_dtype_of, unwrapped
from sciops.models.onnx import operators

__all__ = ["OnnxFile", "export_onnx"]


@dataclass(frozen=True)
class OnnxFile:
    """An exported model.

    path : the file
    inputs : names, in the order of the model's arguments
    shape : of the first input; its first axis, the batch, is arbitrary if `any_batch`
    any_batch : whether the file accepts batches of other sizes than the example
    deviation : ‖y − y*‖/‖y*‖ between onnxruntime and the model; None where onnxruntime is not installed
    """

    path: Path
    inputs: tuple[str, ...]
    shape: tuple[int, ...]
    any_batch: bool
    deviation: float | None


def export_onnx(
    model: nn.Module,
    path: str | os.PathLike[str],
    example: Tensor | Sequence[Tensor] | Grid | Sequence[int],
    *,
    in_channels: int = 1,
    any_batch: bool = True,
    tolerance: float = 1e-5,
) -> OnnxFile:
    """Writes the model as an ONNX file and checks that onnxruntime gets the model's values from it.

    The file is run on other samples than it was written with, and kept where

        ‖y − y*‖₂ ≤ tolerance · ‖y*‖₂,

    y being what onnxruntime returns (first output, CPU) and y* what the model does.

    Parameters
    ----------
    model : torch module
        Any model of `sciops.build_model`, its wrappers, or another module; written as in evaluation mode, and itself
        left as it is.
    path : path
        The file appears, or is replaced, only when whole and checked.
    example : tensor, tensors, Grid or shape
        What the model is called with: the grid or length of the file is that of the example. For a grid or the shape
        of one, a random field (2, in_channels, \\*shape) in the model's precision.
    in_channels : int
        Channels of that field.
    any_batch : bool
        Whether the file takes any number of samples; False writes that of the example.
    tolerance : float
        The deviation that is accepted; 10⁻⁵ suits float32, about 10⁻² float16.

    Returns
    -------
    OnnxFile
        With the deviation; it is None, and nothing was checked, where onnxruntime is not installed.

    Raises
    ------
    ImportError
        Where onnx or onnxscript is missing.
    NotImplementedError
        For a model with an operator that ONNX has no form of, naming it, or that depends on values or on the number of
        samples.
    ValueError
        For an example that the model does not accept, and for a file whose values deviate by more than the tolerance.

    Notes
    -----
    Fourier transforms of `SpectralMixer` are written as products with real matrices, solves with triangular matrices
    as products, other solves as Newton's iteration for the inverse, and the kernels of state spaces as constants.
    """
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise ImportError("export_onnx needs onnx and onnxscript: pip install 'sciops[onnx]'") from None
    if not tolerance > 0:
        raise ValueError(f"tolerance={tolerance}: expected a positive number, such as 1e-5")
    model = copy.deepcopy(unwrapped(model)).eval().requires_grad_(False)
    inputs = _inputs(model, example, in_channels)
    program = _program(model, inputs, any_batch)
    with replacing(Path(path)) as temporary:
        _save(program, temporary)
        names, deviation = _checked(model, temporary, inputs, any_batch, tolerance)
    return OnnxFile(Path(path), names or _names(program), tuple(inputs[0].shape), any_batch, deviation)


def _inputs(model: nn.Module, example: Any, in_channels: int) -> tuple[Tensor, ...]:
    if isinstance(example, Tensor):
        example = (example,)
    shape: Any = example.shape if isinstance(example, Grid) else example
    if len(shape) and all(isinstance(n, int) for n in shape):
        at = next(model.parameters(), torch.empty(0)).device
        generator = torch.Generator().manual_seed(0)
        field = torch.randn(2, in_channels, *shape, generator=generator, dtype=real_dtype_of(model) or torch.float32)
        return (field.to(at),)
    if not (len(shape) and all(isinstance(x, Tensor) and x.ndim and len(x) for x in shape)):
        raise ValueError(f"example={example!r}: expected what the model is called with, a tensor or several, or a grid")
    if len({len(x) for x in shape}) > 1:
        raise ValueError(f"the example's tensors hold {[len(x) for x in shape]} samples; expected the same number")
    # a batch of one would be taken to be one in every file
    return tuple(x.detach() if len(x) > 1 else torch.cat([x.detach(), x.detach()]) for x in shape)


def _program(model: nn.Module, inputs: tuple[Tensor, ...], any_batch: bool) -> Any:
    """The ONNX program in memory."""
    batch = torch.export.Dim("batch", min=1, max=2**20)
    sizes = tuple({0: batch} for _ in inputs) if any_batch else None
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter's own deprecations
        try:
            table = operators.replacements()
            program = torch.export.export(model, inputs, dynamic_shapes=sizes).run_decompositions(table)
            plain = operators.with_complex_constants(program)
            program = torch.export.export(plain, inputs, dynamic_shapes=sizes).run_decompositions(table)
            return torch.onnx.export(program, inputs, dynamo=True, dynamic_shapes=sizes, verbose=False)
        except Exception as error:
            raise NotImplementedError(f"{type(model).__name__} as an ONNX file: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """The reason of a failed export, in one line."""
    chain = [error]
    while below := chain[-1].__cause__ or chain[-1].__context__:
        chain.append(below)
    text = " ".join(" ".join(map(str, chain)).split())
    own = [str(e) for e in chain if isinstance(e, NotImplementedError) and "\n" not in str(e)]
    if own:
        return own[-1]
    missing = re.search(r"No ONNX function found for <OpOverload\(op='([\w.]+)'", text)
    if missing:
        of = " of complex numbers" if "complex-valued input" in text else ""
        return f"ONNX has no form of the operator {missing[1]}{of}"
    if "Constraints violated" in text or "specialized it to be a constant" in text:
        return "it works only for the example's number of samples: pass any_batch=False"
    if "data-dependent" in text:
        return "its operations depend on values, which a file cannot: " + str(chain[-1]).split("\n")[0].split(" (")[0]
    return f"torch.export: {type(chain[-1]).__name__}: {' '.join(str(chain[-1]).split())[:300]}"


def _save(program: Any, path: Path) -> None:
    try:
        program.save(str(path), external_data=False)
    except ValueError as error:  # protobuf's
        raise NotImplementedError(f"the file would be larger than the 2 GB that ONNX holds: {error}") from error


def _names(program: Any) -> tuple[str, ...]:
    return tuple(value.name for value in program.model.graph.inputs)


def _checked(
    model: nn.Module, path: Path, inputs: tuple[Tensor, ...], any_batch: bool, tolerance: float
) -> tuple[tuple[str, ...], float | None]:
    try:
        import onnxruntime
    except ImportError:
        return (), None
    try:
        session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no class of their own that is public
        raise NotImplementedError(
            f"onnxruntime does not take the file: {' '.join(str(error).split())[:300]}"
        ) from error
    others = tuple(x.flip(0) for x in inputs)
    if any_batch:
        others = tuple(torch.cat([x, x[:1]]) for x in others)
    with torch.no_grad():
        expected = model(*others)
    expected = expected[0] if isinstance(expected, (tuple, list)) else expected
    names = tuple(node.name for node in session.get_inputs())
    found = session.run(None, {name: x.cpu().numpy() for name, x in zip(names, others)})[0]
    found, expected = torch.from_numpy(found).double(), expected.cpu().double()
    if found.shape != expected.shape:
        raise ValueError(f"onnxruntime returns shape {tuple(found.shape)}; the model {tuple(expected.shape)}")
    deviation = float((found - expected).norm() / expected.norm().clamp_min(1e-300))
    if not deviation <= tolerance:
        raise ValueError(
            f"onnxruntime's values deviate from the model's by {deviation:.1e} of their norm; expected at most "
            f"{tolerance:.0e}: nothing was written; pass a larger tolerance if that is accurate enough"
        )
    return names, deviation
