"""ONNX files give the model's values, or are not written; operators that ONNX lacks are written out rightly."""

import pytest
import torch
from torch import nn

import sciops
from sciops.models.onnx import operators


@pytest.fixture
def runtime():
    for name in ("onnx", "onnxscript"):
        pytest.importorskip(name)
    return pytest.importorskip("onnxruntime")


def _triangular(n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, n, n, dtype=torch.float64, generator=generator).tril(-1) / 3 + torch.eye(n).double() * 1.5


@pytest.mark.parametrize("n", [1, 2, 5, 16, 23])
@pytest.mark.parametrize("options", [{}, {"unitriangular": True}, {"left": False}])
def test_triangular_solves_by_products(n, options):
    A, B = _triangular(n), torch.randn(2, n, n, dtype=torch.float64)
    for upper in (False, True):
        matrix = A.mT if upper else A
        expected = torch.linalg.solve_triangular(matrix, B, upper=upper, **options)
        found = operators.triangular_solve(matrix, B, upper=upper, **options)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_general_solves_by_newtons_iteration():
    A, B = _triangular(7) + _triangular(7, 1).mT / 2, torch.randn(2, 7, 3, dtype=torch.float64)
    torch.testing.assert_close(operators.solve(A, B), torch.linalg.solve(A, B), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(operators.solve(A, B[..., 0]), torch.linalg.solve(A, B[..., 0]), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(
        operators.solve(A, B.mT, left=False), torch.linalg.solve(A, B.mT, left=False), rtol=1e-10, atol=1e-10
    )


def test_fno_at_85_has_no_transforms_and_agrees_to_float32(runtime, tmp_path):
    import onnx

    torch.manual_seed(0)
    model = sciops.build_model("fno", width=4, depth=1, modes=(12, 12)).train()
    written = sciops.export_onnx(model, tmp_path / "fno.onnx", sciops.Grid((85, 85)), tolerance=1e-6)
    assert written.deviation <= 1e-6 and written.shape == (2, 1, 85, 85) and model.training
    assert not {"DFT", "STFT"} & {node.op_type for node in onnx.load(written.path).graph.node}
    session = runtime.InferenceSession(str(written.path), providers=["CPUExecutionProvider"])
    x = torch.randn(1, 1, 85, 85)
    (found,) = session.run(None, {written.inputs[0]: x.numpy()})
    expected = model.eval()(x)
    assert (torch.from_numpy(found) - expected).norm() <= 1e-6 * expected.norm()


class _Exponential(nn.Module):
    """With an oscillation as parameters, which ONNX could not take the exponential of."""

    def __init__(self):
        super().__init__()
        self.rate = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x):
        turned = torch.exp(torch.complex(torch.zeros_like(self.rate), self.rate))
        return torch.linalg.solve(torch.eye(3) * 2 + x[:, None] * turned.real, x[..., None])[..., 0]


def test_complex_constants_and_solves_leave_files_that_run(runtime, tmp_path):
    written = sciops.export_onnx(_Exponential(), tmp_path / "a.onnx", torch.rand(2, 3))
    assert written.deviation < 1e-6


class _Batch(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] == 2 else x * 3


class _Sinc(nn.Module):
    def forward(self, x):
        return torch.linalg.eigh(x.mT @ x)[0]


def test_what_cannot_be_a_file_is_refused_in_one_line_and_leaves_the_earlier_one(runtime, tmp_path):
    path = tmp_path / "a.onnx"
    path.write_bytes(b"earlier")
    linear = nn.Linear(3, 3)
    rounded = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Softmax(-1))  # not to the last bit
    for model, example, options, error, words in (
        (_Batch(), torch.ones(2, 3), {}, NotImplementedError, "any_batch=False"),
        (_Sinc(), torch.ones(2, 3, 3), {}, NotImplementedError, "no form of the operator aten._linalg_eigh"),
        (rounded, torch.linspace(-1, 1, 512).reshape(8, 64), {"tolerance": 1e-30}, ValueError, "nothing was written"),
        (linear, torch.ones(2, 3), {"tolerance": 0.0}, ValueError, "tolerance=0.0"),
        (linear, [torch.ones(2, 3), torch.ones(1, 3)], {}, ValueError, "same number"),
        (linear, (), {}, ValueError, "expected what the model is called with"),
    ):
        with pytest.raises(error, match=words) as caught:
            sciops.export_onnx(model, path, example, **options)
        assert "\n" not in str(caught.value)
    assert path.read_bytes() == b"earlier" and [p.name for p in tmp_path.iterdir()] == ["a.onnx"]
    sciops.export_onnx(_Batch(), path, torch.ones(2, 3), any_batch=False)
