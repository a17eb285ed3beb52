"""Figures: files only when whole, and panels that show the numbers they were given."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.plotting import PALETTE, draw_field, draw_intervals, draw_spectra, figure, plot_prediction, series


def test_a_figure_appears_only_when_its_block_and_its_writing_succeed(tmp_path):
    with pytest.raises(ZeroDivisionError), figure(tmp_path / "a.png"):
        raise ZeroDivisionError
    with pytest.raises(ValueError, match="format"), figure(tmp_path / "b.nonsense"):
        pass
    assert list(tmp_path.iterdir()) == []
    with figure(tmp_path / "deep" / "c.png", 2, 3) as (_, axes):
        assert axes.shape == (2, 3)
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["c.png"]
    assert (tmp_path / "deep" / "c.png").read_bytes().startswith(b"\x89PNG")


def test_spectra_leave_out_the_mean_and_what_lies_below_the_floor(tmp_path):
    k, energy = np.arange(5.0), np.array([7.0, 1.0, 0.0, 1e-3, 1e-9])
    with figure(tmp_path / "a.png") as (_, axes):
        draw_spectra(axes[0, 0], {"u": (k, energy)}, floor=1e-6)
        (line,) = axes[0, 0].get_lines()
        np.testing.assert_array_equal(line.get_xydata(), [[1.0, 1.0], [3.0, 1e-3]])


def test_intervals_are_coloured_by_their_side_of_zero(tmp_path):
    rows = [("better", -2.0, -3.0, -1.0), ("tie", 0.1, -1.0, 1.0), ("worse", 2.0, 1.0, 3.0)]
    with figure(tmp_path / "a.png") as (_, axes):
        draw_intervals(axes[0, 0], rows)
        bars = axes[0, 0].get_lines()[0:6:2]
        assert [bar.get_color() for bar in bars] == [PALETTE[0], "0.45", PALETTE[1]]
        assert [list(bar.get_xdata()) for bar in bars] == [[-3.0, -1.0], [-1.0, 1.0], [1.0, 3.0]]


def test_a_row_far_from_zero_is_an_arrow_that_does_not_squeeze_the_others(tmp_path):
    rows = [("near", -2.0, -3.0, -1.0), ("far", 50.0, 40.0, 60.0), ("near", 1.0, -1.0, 3.0)]
    with figure(tmp_path / "a.png", caption="three arms") as (_, axes):
        draw_intervals(axes[0, 0], rows)
        assert max(np.max(line.get_xdata()) for line in axes[0, 0].get_lines()) == 1.15 * 3.0
        assert [text.get_text() for text in axes[0, 0].texts] == ["+50"]
    assert b"three arms" in (tmp_path / "a.png").read_bytes()


def test_a_field_has_its_first_axis_to_the_right_and_signs_about_white(tmp_path):
    grid = Grid((3, 5), extent=((0.0, 1.0), (0.0, 2.0)))
    x, y = grid.meshgrid()
    with figure(tmp_path / "a.png") as (fig, axes):
        image = draw_field(fig, axes[0, 0], x - y, grid, title="x - y", signed=True)
        np.testing.assert_array_equal(image.get_array(), (x - y).T)
        assert image.get_clim() == (-2.0, 2.0)
        assert axes[0, 0].get_xlim()[1] < axes[0, 0].get_ylim()[1]


def test_eight_series_differ_in_colour_and_marker():
    styles = [style for style, _ in zip(series(), range(8))]
    assert len({s["color"] for s in styles}) == len({s["marker"] for s in styles}) == 8


def test_truth_and_prediction_share_colours_and_the_error_has_its_own(tmp_path):
    grid = Grid((4, 6))
    truth = np.arange(48.0).reshape(2, 4, 6) + 1
    guess = truth + 100
    drawn = plot_prediction(truth, truth, guess, grid, path=tmp_path / "a.png", labels=["one", "two"])
    images = [[axis.collections[0] for axis in row] for row in np.array(drawn.axes[:8]).reshape(2, 4)]
    for i, (given, true, predicted, error) in enumerate(images):
        assert true.get_clim() == predicted.get_clim() == (truth[i].min(), truth[i].max())
        assert error.get_clim() == (-100.5, 100.5) and given.get_clim() == true.get_clim()
        np.testing.assert_array_equal(predicted.get_array(), guess[i].T)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_predictions_on_a_line_lie_over_the_truth_and_what_does_not_fit_is_refused(tmp_path):
    truth = torch.sin(torch.linspace(0, 6, 20))
    drawn = plot_prediction(None, truth, truth + 0.1)
    over, error = drawn.axes
    np.testing.assert_array_equal(over.get_lines()[0].get_ydata(), truth)
    np.testing.assert_allclose(error.get_lines()[0].get_ydata(), 0.1, rtol=1e-5)
    assert len(plot_prediction(truth, None, truth).axes) == 2
    with pytest.raises(ValueError, match=r"truth has shape \(9,\): expected \(samples, \*\(20,\)\)"):
        plot_prediction(None, truth[:9], truth)
    with pytest.raises(ValueError, match="2 labels for 1 rows"):
        plot_prediction(None, truth, truth, labels=["a", "b"])
    with pytest.raises(ValueError, match="3 axes, expected one or two: draw a plane"):
        plot_prediction(None, None, np.zeros((3, 3, 3)), Grid((3, 3, 3)))
    plot_prediction(None, np.full(20, np.nan), np.full(20, np.inf), path=tmp_path / "b.png")


def test_an_interval_far_from_the_others_does_not_squeeze_them(tmp_path):
    rows = [("a", -1.0, -1.5, -0.5), ("b", 0.2, -0.1, 0.5), ("c", 1.0, 0.8, 1.2), ("far", 40.0, 38.0, 42.0)]
    with figure(tmp_path / "intervals.png") as (_, axes):
        draw_intervals(axes[0, 0], rows)
        low, high = axes[0, 0].get_xlim()
        assert -2 < low < -1.5 and 1.2 < high < 2
        assert [text.get_text() for text in axes[0, 0].texts] == ["+40"]
    with figure(tmp_path / "near.png") as (_, axes):
        draw_intervals(axes[0, 0], rows[:3])
        assert not axes[0, 0].texts
