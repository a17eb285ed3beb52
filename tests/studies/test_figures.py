import numpy as np
import pytest

from sciops.plotting import figure
from studies.kit.figures import band, name_points, panels, ticks


def test_panels_that_are_not_asked_for_are_hidden(tmp_path):
    with panels(tmp_path / "a.png", 5, 3) as shown:
        every = shown[0].figure.axes
        assert len(shown) == 5 and [axis.get_visible() for axis in every] == [True] * 5 + [False]
    with panels(tmp_path / "b.png", 2, 3) as shown:
        assert len(shown[0].figure.axes) == 2
    assert (tmp_path / "a.png").exists() and (tmp_path / "b.png").exists()


def test_a_band_spans_the_seeds_and_ticks_stand_alone(tmp_path):
    with figure(tmp_path / "a.png") as (_, axes):
        axis = axes[0, 0]
        band(axis, [1, 10], [[1.0, 2.0], [3.0, 8.0]], label="fno", style={"color": "C0"})
        assert axis.lines[0].get_ydata() == pytest.approx([2, 5])
        corners = axis.collections[0].get_paths()[0].vertices
        assert {tuple(point) for point in corners} >= {(1, 1), (1, 3), (10, 2), (10, 8)}
        axis.set_xscale("log")
        ticks(axis.xaxis, [1, 3, 10], "{}²".format)
        assert [text.get_text() for text in axis.get_xticklabels()] == ["1²", "3²", "10²"]
        assert len(axis.get_xticks(minor=True)) == 0 and np.array_equal(axis.get_xticks(), [1, 3, 10])


def test_names_beside_points_cover_neither_points_nor_each_other(tmp_path):
    points = {f"net {i}": (1 + 0.02 * (i % 2), 1 + 0.08 * (i // 2)) for i in range(5)} | {"far": (3.0, 2.0)}
    with figure(tmp_path / "a.png", width=5, height=4) as (_, axes):
        axis = axes[0, 0]
        axis.plot(*np.transpose(list(points.values())), "o", label="all")
        axis.legend(loc="upper left")
        name_points(axis, points)
        assert [text.get_text() for text in axis.texts] and {t.get_text() for t in axis.texts} == set(points)
        axis.figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in axis.texts] + [axis.get_legend().get_window_extent()]
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_names_beside_points_cover_no_horizontal_line(tmp_path):
    with figure(tmp_path / "a.png", width=5, height=4) as (_, axes):
        axis = axes[0, 0]
        axis.plot([1.0], [1.0], "o")
        axis.set(xlim=(0, 2), ylim=(0, 2))
        level = axis.axhline(1.0)
        name_points(axis, {"on the line": (1.0, 1.0)})
        axis.figure.draw_without_rendering()
        assert not axis.texts[0].get_window_extent().overlaps(level.get_window_extent())
