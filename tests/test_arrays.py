"""numpy in, numpy out; torch in, torch out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sciops.arrays.kinds import as_tensor, like, refuse_masked
from sciops.datasets import Normalizer, TensorFields
from sciops.evaluation import correlation_time, half_widths, paired_verdict, score_text, spread, window_errors
from sciops.grids import Grid
from sciops.plotting import draw_field, draw_spectra


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f8", ">f4", "c8", "c16"])
@pytest.mark.parametrize("layout", ["plain", "strided", "reversed", "fortran", "read-only"])
def test_numpy_round_trip(dtype, layout):
    a = (np.arange(24).reshape(4, 6) - 7.5).astype(dtype)
    if layout == "strided":
        a = a[::2, ::3]
    elif layout == "reversed":
        a = a[::-1, ::-1]
    elif layout == "fortran":
        a = np.asfortranarray(a)
    elif layout == "read-only":
        a.setflags(write=False)
    tensor, restore = as_tensor(a)
    assert isinstance(tensor, torch.Tensor)
    back = restore(tensor)
    assert isinstance(back, np.ndarray) and back.dtype == a.dtype.newbyteorder("=")
    np.testing.assert_array_equal(back, a)
    if layout == "read-only":
        tensor += 1  # writes to a copy
        assert a[0, 0] == -7.5


@pytest.mark.parametrize(("wide", "held"), [(np.longdouble, torch.float64), (np.clongdouble, torch.complex128)])
def test_long_doubles_become_doubles(wide, held):
    a = np.array([[1.5, -2.0]], dtype=wide)
    tensor, restore = as_tensor(a)
    assert tensor.dtype == held
    np.testing.assert_array_equal(restore(tensor), a)
    if held == torch.float64:
        field = np.arange(18, dtype=wide).reshape(2, 1, 3, 3)
        data = TensorFields(field, field + 1, Grid((3, 3)))
        assert data.x.dtype == torch.float64 and Normalizer.fit(field).mean.item() == 8.5


def test_memory_is_shared_where_it_can_be():
    a = np.zeros(3)
    tensor, restore = as_tensor(a)
    tensor[1] = 5
    assert a[1] == 5 and np.shares_memory(restore(tensor), a)


@pytest.mark.parametrize("value", [True, 3, 2.5, [1, 2, 3], ((True, False),), np.float32(0.1), np.uint16([7])])
def test_lists_scalars_and_whole_numbers(value):
    tensor, restore = as_tensor(value)
    assert tensor.is_floating_point()
    if np.asarray(value).dtype.kind in "biu":
        assert tensor.dtype == torch.float64
    np.testing.assert_array_equal(restore(tensor), np.asarray(value, dtype=restore(tensor).dtype))


def test_a_number_keeps_its_digits():
    for value in (0.1, np.float64(0.1), np.array(0.1)):
        assert as_tensor(value)[0].dtype == torch.float64 and as_tensor(value)[0].item() == 0.1
    assert as_tensor(np.float32(0.1))[0].dtype == torch.float32


def test_tensors_pass_through_with_their_graph():
    x = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    tensor, restore = as_tensor(x)
    assert tensor is x and restore(tensor) is x
    assert as_tensor(torch.tensor([1, 2]))[0].dtype == torch.float64
    assert as_tensor(torch.tensor([True]))[0].dtype == torch.float64
    assert as_tensor(torch.ones(1, dtype=torch.complex64))[0].dtype == torch.complex64


def test_like_and_graphs_left_behind():
    x = torch.ones(2, requires_grad=True) * 2
    assert like(x, x) is x
    assert np.array_equal(like([1.0], x), [2, 2]) and isinstance(like(np.zeros(1), x), np.ndarray)


@pytest.mark.parametrize(
    "value", ["a string", [object()], {"a": 1}, np.array(["x"]), np.array(["2020"], "M8[Y]"), None]
)
def test_refuses_what_holds_no_numbers(value):
    with pytest.raises(TypeError, match="u: got .*expected an array of numbers"):
        as_tensor(value, "u")


def test_masked_values_are_refused_with_the_remedy():
    gap = np.ma.masked_greater(np.array([[1.0, 1e20], [3.0, 4.0]]), 1e10)
    for value in (gap, [gap, gap], (np.zeros((2, 2)), [gap, gap])):
        with pytest.raises(ValueError, match=r"u: 1 of 4 values are masked.*pass u\.filled\(np\.nan\)"):
            as_tensor(value, "u")
        with pytest.raises(ValueError, match="masked"):
            refuse_masked(value, "u")
    assert as_tensor(gap.filled(np.nan), "u")[0][0, 1].isnan()
    whole = np.ma.masked_array([1.0, 2.0], mask=[False, False])  # a mask that hides nothing
    refuse_masked(whole, "u")
    assert as_tensor(whole)[0].tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="masked"):
        as_tensor(np.ma.masked_array([1, 2], mask=True))


@pytest.mark.parametrize(
    "function",
    [
        lambda gap: correlation_time(gap, np.ones(2)),
        lambda gap: correlation_time(np.arange(2.0), gap),
        lambda gap: window_errors(gap, windows=((1, 2),)),
        lambda gap: paired_verdict(gap, np.ones(2)),
        lambda gap: half_widths([gap, gap]),
        lambda gap: spread(gap),
        lambda gap: score_text(None, gap, context=2),
        lambda gap: draw_spectra(None, {"u": (np.arange(2), gap)}),
        lambda gap: draw_field(None, None, gap, None, title=""),
    ],
)
def test_functions_of_results_refuse_masked_values(function):
    with pytest.raises(ValueError, match="1 of 2 values are masked"):
        function(np.ma.masked_greater([0.5, 1e20], 1e10))


def test_a_mask_that_hides_nothing_changes_nothing():
    whole = np.ma.masked_array([0.9, 0.5], mask=False)
    assert correlation_time(whole.cumsum(), whole) == correlation_time([0.9, 1.4], [0.9, 0.5])
    assert window_errors(whole, windows=((1, 2),))["1–2"] == pytest.approx(0.7)
    assert spread(whole).mean == pytest.approx(0.7) and paired_verdict(whole, whole).difference == 0
