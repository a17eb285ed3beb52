"""One cell of the table: what a program transform makes of a model, compared with eager float64."""

from __future__ import annotations

import copy
import io
import pickle
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vmap

from sciops import export_onnx
from studies.kit.subjects import Subject, built, example, output

Parameters = dict[str, Tensor]


class Wrong(AssertionError):
    """The transform gave a value, but not that of the model."""


def relative(value: Tensor, truth: Tensor) -> float:
    """‖value − truth‖/‖truth‖ in float64."""
    value, truth = value.detach().double(), truth.detach().double()
    if value.shape != truth.shape:
        raise Wrong(f"shape {tuple(value.shape)}, expected {tuple(truth.shape)}")
    return float((value - truth).norm() / truth.norm().clamp(min=1e-300))


def _within(error: float, most: float) -> float:
    if not error <= most:
        raise Wrong(f"relative error {error:.1e}, expected at most {most:.0e}")
    return error


def _round_off(subject: Subject) -> float:
    return 2e-4 if subject.single else 1e-9


def _parts(subject: Subject) -> tuple[nn.Module, Parameters, dict[str, Tensor], tuple[Tensor, ...]]:
    model = built(subject)
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    return model, parameters, dict(model.named_buffers()), example(subject)


def _scalar(model: nn.Module, parameters: Parameters, buffers: Any, inputs: tuple[Tensor, ...]) -> Tensor:
    y = functional_call(model, {**parameters, **buffers}, inputs)
    return (y[0] if isinstance(y, tuple) else y).square().sum()


def _joined(tree: Parameters) -> Tensor:
    return torch.cat([t.flatten() for t in tree.values()]) if tree else torch.zeros(1)


def _jvp(subject: Subject, backend: str) -> float:
    """The directional derivative in parameters and inputs, against central differences."""
    model, parameters, buffers, inputs = _parts(subject)
    floats = [] if subject.constant else [i for i, x in enumerate(inputs) if x.is_floating_point()]

    def f(parameters: Parameters, *given: Tensor) -> Tensor:
        whole = list(inputs)
        for i, x in zip(floats, given):
            whole[i] = x
        y = functional_call(model, {**parameters, **buffers}, tuple(whole))
        return y[0] if isinstance(y, tuple) else y

    torch.manual_seed(1)
    primals = (parameters, *(inputs[i] for i in floats))
    tangents = ({n: torch.randn_like(p) for n, p in parameters.items()}, *(torch.randn_like(inputs[i]) for i in floats))
    _, change = jvp(f, primals, tangents)
    step = 1e-2 if subject.single else 1e-5

    def moved(by: float) -> Tensor:
        named = {n: p + by * t for (n, p), t in zip(parameters.items(), tangents[0].values())}
        with torch.no_grad():
            return f(named, *(p + by * t for p, t in zip(primals[1:], tangents[1:])))

    near, far = ((moved(h) - moved(-h)) / (2 * h) for h in (step, 2 * step))  # of fourth order in the step together
    return _within(relative(change, (4 * near - far) / 3), 1e-3 if subject.single else 1e-6)


def _eager_gradient(model: nn.Module, inputs: tuple[Tensor, ...]) -> Parameters:
    model.zero_grad(set_to_none=True)
    y = output(model, inputs)
    if y.requires_grad:  # a mixer without parameters has no gradient
        y.square().sum().backward()
    return {n: torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}


def _grad(subject: Subject, backend: str) -> float:
    """`torch.func.grad` by the parameters, against `backward`."""
    model, parameters, buffers, inputs = _parts(subject)
    found = grad(lambda p: _scalar(model, p, buffers, inputs))(parameters)
    return _within(relative(_joined(found), _joined(_eager_gradient(model, inputs))), _round_off(subject))


def _per_sample(subject: Subject, backend: str) -> float:
    """`vmap(grad)`: the gradients of all samples at once, as private training needs them, against a loop."""
    model, parameters, buffers, inputs = _parts(subject)

    def of_one(parameters: Parameters, *sample: Tensor) -> Parameters:
        return grad(lambda p: _scalar(model, p, buffers, tuple(x[None] for x in sample)))(parameters)

    found = vmap(of_one, in_dims=(None, *(0 for _ in inputs)))(parameters, *inputs)
    loop = [_eager_gradient(model, tuple(x[i : i + 1] for x in inputs)) for i in range(len(inputs[0]))]
    truth = {name: torch.stack([one[name] for one in loop]) for name in parameters}
    return _within(relative(_joined(found), _joined(truth)), _round_off(subject))


def _dynamic(subject: Subject, inputs: tuple[Tensor, ...]) -> tuple[dict[int, Any], ...] | None:
    if not subject.any_batch:
        return None
    # one name, since several inputs share the batch
    batch = torch.export.Dim("batch", min=1, max=1024)
    return tuple({0: batch} for _ in inputs)


def _others(subject: Subject) -> tuple[Tensor, ...]:
    """Other samples than those of `example`, and another number of them where programs take that."""
    batch = 3 if subject.any_batch else 2
    return tuple(x.flip(0) for x in example(subject, batch=batch))


def _export(subject: Subject, backend: str) -> float:
    """An exported program at another batch size, and the eager model after it."""
    model, inputs = built(subject), example(subject)
    program = torch.export.export(model, inputs, dynamic_shapes=_dynamic(subject, inputs))
    others = _others(subject)
    with torch.no_grad():
        truth = output(model, others)
        error = relative(output(program.module(), others), truth)
    _eager_gradient(model, inputs)  # no traced tensor was left behind
    return _within(error, _round_off(subject))


def _onnx(subject: Subject, backend: str) -> float:
    """`sciops.export_onnx`: onnxruntime in float32 at another batch size, against the eager float64 model."""
    import onnxruntime

    model = built(subject)
    single = copy.deepcopy(model).float()
    inputs = tuple(x.float() if x.is_floating_point() else x for x in example(subject))
    with tempfile.TemporaryDirectory() as folder:
        written = export_onnx(single, Path(folder) / "model.onnx", inputs, any_batch=subject.any_batch, tolerance=1e-4)
        session = onnxruntime.InferenceSession(str(written.path), providers=["CPUExecutionProvider"])
    others = _others(subject)
    given = {n: (x.float() if x.is_floating_point() else x).numpy() for n, x in zip(written.inputs, others)}
    found = torch.from_numpy(session.run(None, given)[0])
    with torch.no_grad():
        return _within(relative(found, output(model, others)), 1e-4 if subject.single else 1e-5)


def _compile(subject: Subject, backend: str) -> float:
    """Compiled code on grids or lengths one after the other, values and gradients."""
    model, worst = built(subject), 0.0
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    for number in range(len(subject.shapes)):
        inputs = example(subject, number=number)
        truth, expected = output(model, inputs), _eager_gradient(model, inputs)
        worst = max(worst, relative(output(compiled, inputs), truth))
        worst = max(worst, relative(_joined(_eager_gradient(compiled, inputs)), _joined(expected)))
    return _within(worst, _round_off(subject))


def _deepcopy(subject: Subject, backend: str) -> float:
    """A copy of a used model: the same values, and parameters of its own."""
    model, inputs = built(subject), example(subject)
    _eager_gradient(model, inputs)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        truth = output(model, inputs)
        error = relative(output(twin, inputs), truth)
        for p in twin.parameters():
            p.add_(1.0)
        if not torch.equal(output(model, inputs), truth):
            raise Wrong("a change of the copy changes the model")
    return _within(error, 0.0)


def _state(subject: Subject, backend: str) -> float:
    """The state in a safetensors file, and saved by `torch.save` and loaded with weights_only; no pickle is run."""
    model, inputs = built(subject), example(subject)
    state, file = model.state_dict(), io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    saved = [torch.load(file, weights_only=True)]
    if not any(t.is_complex() for t in state.values()):  # `sciops.save_model` writes those as pairs of reals
        saved.append(load(save({name: t.contiguous() for name, t in state.items()})))
    return _within(max(_loaded(subject, state, model, inputs) for state in saved), 0.0)


def _pickle(subject: Subject, backend: str) -> float:
    """The state through `pickle`, as worker processes get it."""
    model, inputs = built(subject), example(subject)
    return _within(_loaded(subject, pickle.loads(pickle.dumps(model.state_dict())), model, inputs), 0.0)


def _loaded(subject: Subject, state: Any, model: nn.Module, inputs: tuple[Tensor, ...]) -> float:
    """Deviation of a model of another seed with this state."""
    other = built(subject, seed=1)
    other.load_state_dict(state)
    with torch.no_grad():
        return relative(output(other, inputs), output(model, inputs))


def _autocast(subject: Subject, backend: str) -> float:
    """Values and gradients under bfloat16 autocast, against float64; bfloat16 has 3 digits."""
    model = built(subject)
    single = copy.deepcopy(model).float()
    inputs = example(subject)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = output(single, tuple(x.float() if x.is_floating_point() else x for x in inputs))
    if y.requires_grad:
        y.float().square().sum().backward()
    if not all(torch.isfinite(p.grad).all() for p in single.parameters() if p.grad is not None):
        raise Wrong("a gradient is not finite")
    with torch.no_grad():
        return _within(relative(y, output(model, inputs)), 0.1)


CELLS: dict[str, Callable[[Subject, str], float]] = {
    "jvp": _jvp,
    "grad": _grad,
    "vmap(grad)": _per_sample,
    "export": _export,
    "onnx": _onnx,
    "compile": _compile,
    "deepcopy": _deepcopy,
    "state": _state,
    "pickle": _pickle,
    "bf16": _autocast,
}


def filled(subject: Subject, cell: str, backend: str) -> dict[str, Any]:
    """{"ok": error}, {"refused": line} where the subject allows it, or {"failed": line}."""
    expected = subject.refused.get(cell)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            error = CELLS[cell](subject, backend)
        except Exception as caught:
            line = f"{type(caught).__name__}: {caught}"
            if expected is not None and expected in line and "\n" not in line.strip():
                return {"refused": str(caught)}
            return {"failed": " ".join(line.split())[:600]}
    return {"ok": error}
