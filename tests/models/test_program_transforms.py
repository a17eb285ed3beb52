"""Models and mixers under torch.func, torch.export, ONNX and torch.compile, against eager float64."""

from __future__ import annotations

import pytest
import torch
from torch.func import grad, vmap

import sciops
from sciops._compiling import kept
from sciops.mixers import LinearAttention
from studies._transform_cells import filled
from studies._transform_subjects import subjects

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's exporter and compiler trip over their own deprecations

SUBJECTS = subjects()
OURS = [
    name
    for name in SUBJECTS
    if not name.startswith(("transformers:", "neuralop:", "corrector", "effective_coefficient", "recurrent", "speech"))
]


@pytest.mark.parametrize("cell", ["jvp", "grad", "vmap(grad)"])
@pytest.mark.parametrize("name", OURS)
def test_torch_func_gives_the_eager_derivatives(name, cell):
    assert "ok" in (result := filled(SUBJECTS[name], cell, "eager")), result


@pytest.mark.parametrize("name", ["fno", "mixer window", "mixer linear_attention causal"])
def test_exported_programs_take_another_batch_and_leave_the_eager_model_as_it_was(name):
    assert "ok" in (result := filled(SUBJECTS[name], "export", "eager")), result


def test_a_first_call_inside_of_export_leaves_real_tables():
    grid = sciops.Grid((23, 19))  # met nowhere else in the tests
    model = sciops.build_model("fno", width=4, depth=1, modes=(3, 3), grid=grid, wall="zero").double()
    x = torch.randn(2, 1, *grid.shape, dtype=torch.float64)
    program = torch.export.export(model, (x,))
    model(x).square().sum().backward()
    torch.testing.assert_close(program.module()(x), model(x), rtol=1e-12, atol=1e-12)


def test_kept_tables_are_plain_tensors_whatever_asks_first():
    @kept(4)
    def table(n: int) -> torch.Tensor:
        return torch.arange(n).double()

    def f(x):
        return (x * table(3)).sum()

    vmap(grad(f))(torch.randn(2, 3, dtype=torch.float64))
    with torch.inference_mode():
        table(4)
    for n in (3, 4):
        assert type(table(n)) is torch.Tensor and not table(n).is_inference()
        assert table(n) is table(n) and torch.func.debug_unwrap(table(n)) is table(n)


def test_a_kept_table_raises_what_its_function_raises():
    @kept(4)
    def table(n: int) -> torch.Tensor:
        raise ValueError(f"n={n}")

    with pytest.raises(ValueError, match="n=2"):
        table(2)


def test_compiled_linear_attention_at_lengths_around_its_chunk():
    layer = LinearAttention(8, heads=2, causal=True).double()
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="aot_eager")
    for n in (40, 33, 72, 150):
        x = torch.randn(2, n, 8, dtype=torch.float64)
        torch.testing.assert_close(compiled(x), layer(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(85, 85), (64, 48)])
def test_fno_runs_in_onnxruntime_without_transforms_or_complex_numbers(shape, tmp_path):
    onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    model, path = sciops.build_model("fno", width=8, depth=1, modes=(12, 12)).eval(), tmp_path / "fno.onnx"
    batch = {0: torch.export.Dim("batch", min=1, max=64)}
    torch.onnx.export(
        model, (torch.randn(2, 1, *shape),), path, dynamo=True, dynamic_shapes=(batch,), external_data=False
    )
    assert not {"DFT", "STFT"} & {node.op_type for node in onnx.load(path).graph.node}
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    x = torch.randn(3, 1, *shape)
    found = torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])
    with torch.no_grad():
        truth = model(x)
    assert (found - truth).norm() <= 1e-6 * truth.norm()
