"""Figures: files only when whole, and panels that show the numbers they were given."""

from __future__ import annotations

import numpy as np
import pytest

from sciops.grids import Grid
from sciops.plotting import PALETTE, draw_field, draw_intervals, draw_spectra, figure, series


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
