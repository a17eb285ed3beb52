"""Models and mixers under torch.func, torch.export, ONNX and torch.compile, against eager float64."""

from __future__ import annotations

import pytest
import torch
from torch.func import grad, vmap

import sciops
from sciops.arrays.compiling import kept
from sciops.mixers import LinearAttention
from sciops.mixers.resolvent.block_layout import in_blocks
from studies.kit.subjects import subjects
from studies.program_transforms.cells import filled

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's exporter and compiler trip over their own deprecations

SUBJECTS = subjects()
# one of each mechanism; `studies.program_transforms` has them all
KINDS = [
    "operator",
    "mano",
    "corrector",
    "effective_coefficient",
    "Stepper",
    "mixer window cosine",
    "mixer slices",
    "mixer recurrence",
    "mixer resolvent",
    "mixer block_resolvent level 2",
    "mixer linear_attention causal",
    "mixer polynomial causal",
    "mixer state_space",
]


@pytest.mark.parametrize("cell", ["jvp", "vmap(grad)"])
@pytest.mark.parametrize("name", KINDS)
def test_torch_func_gives_the_eager_derivatives(name, cell):
    found = filled(SUBJECTS[name], cell, "eager")
    assert "ok" in found or (cell in SUBJECTS[name].refused and "refused" in found), found


@pytest.mark.parametrize("name", ["corrector", "mixer window", "mixer linear_attention causal"])
def test_exported_programs_take_another_batch_and_leave_the_eager_model_as_it_was(name):
    found = filled(SUBJECTS[name], "export", "eager")
    assert ("refused" if name == "corrector" else "ok") in found, found


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
    for n in (40, 128):
        x = torch.randn(2, n, 8, dtype=torch.float64)
        torch.testing.assert_close(compiled(x), layer(x), rtol=1e-12, atol=1e-12)


def test_compiled_blocks_of_transposed_tokens_with_and_without_padding():
    def f(x):
        return in_blocks(x.mT.unflatten(1, (2, 4)).mT, 8) @ torch.ones(4, 3, dtype=x.dtype)

    torch._dynamo.reset()
    compiled = torch.compile(f, backend="aot_eager", dynamic=True)
    for n in (41, 40):
        x = torch.randn(2, n, 8, dtype=torch.float64)
        torch.testing.assert_close(compiled(x), f(x), rtol=1e-12, atol=0)
