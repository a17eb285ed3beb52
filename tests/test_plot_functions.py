"""What the pictures show: numbers, scales, positions and units, whatever kind of array was given."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
import torch
import xarray
from PIL import Image

from sciops.grids import Grid
from sciops.plotting import animate, plot_field, plot_layer_spectra, plot_spectrum, scale_of
from sciops.spectral import power_spectrum

GRID = Grid((6, 5), extent=((0.0, 1.0), (0.0, 2.0)), centering="cell")
X, Y = GRID.meshgrid()


def labelled(values, *dims, name="u", **attrs):
    coords = {"x": GRID.coordinates()[0], "y": GRID.coordinates()[1]}
    return xarray.DataArray(values, dims=(*dims, "x", "y"), coords=coords, name=name, attrs=attrs)


def image_of(figure, number=0):
    return figure.axes[number].collections[0]


@pytest.mark.parametrize(
    "given",
    [
        X - Y,
        torch.from_numpy(X - Y).requires_grad_(),
        labelled(X - Y),
        labelled(X - Y).transpose("y", "x"),
        (X - Y).tolist(),
    ],
    ids=["numpy", "torch", "xarray", "transposed", "list"],
)
def test_an_image_holds_the_field_at_its_positions_whatever_kind_it_is(given):
    figure = plot_field(given, GRID)
    image = image_of(figure)
    np.testing.assert_allclose(image.get_array(), (X - Y).T, rtol=1e-12)
    assert image.get_clim() == (-np.abs(X - Y).max(), np.abs(X - Y).max()) and image.get_cmap().name == "RdBu_r"
    np.testing.assert_allclose(figure.axes[0].get_xlim(), (0, 1), atol=1e-12)  # cells end at the walls
    np.testing.assert_allclose(figure.axes[0].get_ylim(), (0, 2), atol=1e-12)


def test_no_window_and_no_state_of_pyplot_is_left(tmp_path):
    plot_field(X, GRID, path=tmp_path / "new" / "a.pdf")
    plot_field(X, GRID, path=str(tmp_path / "b.PNG"))
    assert (tmp_path / "new" / "a.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "b.PNG").read_bytes().startswith(b"\x89PNG")
    helpers = sys.modules.get("matplotlib._pylab_helpers")  # of pyplot alone
    assert helpers is None or not helpers.Gcf.get_all_fig_managers()


def test_a_positive_field_is_sequential_and_so_is_one_that_undershoots_a_little():
    assert scale_of(np.array([3.0, 12.0])).options() == {"cmap": "cividis", "vmin": 3.0, "vmax": 12.0}
    assert not scale_of(np.array([-0.01, 1.0])).diverging
    assert scale_of(np.array([-0.2, 1.0, np.nan, np.inf])) == scale_of(np.array([-1.0, 1.0]))
    assert scale_of(np.array([0.5, 1.0]), signed=True).low == -1.0
    assert (
        scale_of(np.array([0.5]), limits=(-2, 2)).diverging and not scale_of(np.array([0.5]), limits=(-1, 2)).diverging
    )
    constant = scale_of(np.zeros(3))
    assert constant.low < 0 < constant.high


def test_panels_share_one_scale_unless_each_asks_for_its_own():
    shared = plot_field({"a": X, "b": 10 * X + 1}, GRID)
    assert image_of(shared, 0).get_clim() == image_of(shared, 1).get_clim() == (X.min(), 10 * X.max() + 1)
    each = plot_field({"a": X, "b": 10 * X + 1}, GRID, scale="each")
    assert image_of(each, 0).get_clim() == (X.min(), X.max())
    assert [axis.get_title() for axis in each.axes[:2]] == ["a", "b"]


def test_names_units_and_times_of_xarray_are_written_and_only_what_is_drawn_is_read():
    field = labelled(np.stack([X, 2 * X, 3 * X]), "time", name="p", units="Pa")
    field = field.assign_coords(time=("time", [0.0, 0.5, 1.0], {"units": "s"}))
    field["x"].attrs["units"] = "m"
    figure = plot_field(field, most=2, title="pressure")
    assert [axis.get_title() for axis in figure.axes[:2]] == ["time 0 s", "time 0.5 s"]
    assert figure.axes[0].get_xlabel() == "x (m)" and figure.axes[-1].get_ylabel() == "p (Pa)"
    assert figure.get_suptitle() == "pressure, first 2 of 3"
    assert image_of(figure).get_clim()[1] == 2 * X.max()


def test_curves_are_told_apart_and_slices_lie_where_they_say():
    line = Grid(8, centering="periodic")
    figure = plot_field({"one": line.coordinates()[0], "two": -line.coordinates()[0]}, line, label="h", units="m")
    first, second = figure.axes[0].lines
    assert (first.get_color(), first.get_linestyle()) != (second.get_color(), second.get_linestyle())
    assert figure.axes[0].get_ylabel() == "h (m)" and len(figure.axes[0].get_legend().texts) == 2
    box = Grid((4, 5, 6))
    u = np.arange(120.0).reshape(box.shape)
    middle = plot_field(u, box)
    assert [axis.get_title() for axis in middle.axes[:3]] == ["z = 0.6", "y = 0.5", "x = 0.6667"]
    np.testing.assert_array_equal(image_of(middle, 1).get_array(), u[:, 2].T)
    np.testing.assert_array_equal(image_of(plot_field(u, box, at={"z": 0.21})).get_array(), u[:, :, 1].T)


def test_a_trajectory_of_one_axis_is_drawn_over_space_and_time():
    u = np.arange(12.0).reshape(3, 4)
    figure = plot_field(xarray.DataArray(u, dims=("time", "x"), coords={"time": [0.0, 1.0, 2.0]}))
    np.testing.assert_array_equal(image_of(figure).get_array(), u)
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("x", "time")


def test_gaps_are_grey_and_do_not_count():
    u = X.copy()
    u[0, 0], u[1, 1] = np.nan, np.inf
    image = image_of(plot_field(u, GRID))
    assert image.get_array().mask.sum() == 2 and image.get_clim()[1] == X.max()


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        (np.zeros((2, 6, 6)), {"grid": GRID}, r"\(2, 6, 6\); expected its last axes to be the grid \(6, 5\)"),
        (np.zeros((2, 6, 5)), {}, r"pass grid=sciops.Grid\(\(6, 5\)\), or one field of it"),
        (np.full((6, 5), np.nan), {}, "no finite number"),
        (np.zeros((0, 6, 5)), {"grid": GRID}, "nothing to draw"),
        (1j * X, {}, "expected real numbers"),
        (np.array([["a"]]), {}, "expected an array of numbers"),
        (np.ma.masked_less(X, 0.5), {}, "masked"),
        (X, {"limits": (1, 0)}, r"limits=\(1, 0\)"),
        (X, {"scale": "log"}, "expected 'shared' or 'each'"),
        (X, {"most": 0}, "most=0"),
        (X, {"grid": (6, 5)}, r"expected a Grid"),
        (1e308 * (X - 0.5), {"limits": (-1.5e308, 1.5e308)}, "divide the field by a unit"),
        ({}, {}, "no field in the mapping"),
        ({"a": X, "b": X[0]}, {}, "draw them apart"),
        (np.zeros((4, 4, 4)), {"grid": Grid((4, 4, 4)), "at": {"w": 0.5}}, "at names 'w'"),
        (xarray.Dataset({"a": labelled(X)}), {}, r"pass one of its fields"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_line(given, options, words):
    with pytest.raises((ValueError, TypeError), match=words) as refused:
        plot_field(given, **options)
    assert "\n" not in str(refused.value)


def test_a_spectrum_is_that_of_the_field_and_its_nyquist_wavenumber_is_marked():
    fine, coarse = Grid((16, 16), centering="periodic"), Grid((8, 8), centering="periodic")
    u = np.random.default_rng(0).standard_normal((3, 16, 16))
    figure = plot_spectrum({"fine": torch.from_numpy(u), "coarse": u[:, ::2, ::2]}, {"fine": fine, "coarse": coarse})
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    k, energy = power_spectrum(u, fine).mean()
    np.testing.assert_allclose(lines["fine"].get_xydata(), np.stack([k, energy], 1)[1:], rtol=1e-12)
    marks = [line.get_xdata()[0] for name, line in lines.items() if name.startswith("_")]
    np.testing.assert_allclose(marks, [8, 4])
    assert [text.get_text() for text in figure.axes[0].texts] == ["Nyquist of 16×16", "Nyquist of 8×8"]


def test_the_spectrum_of_xarray_finds_its_grid_and_of_walls_has_cosine_modes():
    nodes = Grid(17)
    (x,) = nodes.coordinates()
    about = {"centering": "node", "extent": np.array([0.0, 1.0])}
    u = xarray.DataArray(np.cos(3 * np.pi * x), dims=("x",), coords={"x": ("x", x, about)})
    figure = plot_spectrum(u)
    assert "cosine modes" in figure.axes[0].get_xlabel()
    np.testing.assert_allclose(figure.axes[0].lines[0].get_xydata(), [[2.0, 0.5]])  # three half-waves, in shell 1.5–2.5
    assert figure.axes[0].lines[1].get_xdata()[0] == pytest.approx(8)
    with pytest.raises(ValueError, match="part of its grid along x"):
        plot_spectrum(u[:9])
    for wrong, words in ((np.ones(17), "constant"), (np.full(17, np.nan), "NaN or infinity")):
        with pytest.raises(ValueError, match=words):
            plot_spectrum(wrong, nodes)
    with pytest.raises(ValueError, match="needs the grid"):
        plot_spectrum(np.ones(17))


def test_layer_spectra_are_lines_of_their_own_look_with_names_that_do_not_overlap():
    k = np.arange(17.0)
    names = [f"layer.{i}" for i in range(12)]
    spectra = xarray.DataArray(
        np.exp(-k / 4) * (1 + 1e-3 * np.arange(12))[:, None],
        dims=("layer", "wavenumber"),
        coords={"layer": names, "wavenumber": k},
    )
    axis = plot_layer_spectra(spectra, title="fno").axes[0]
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in axis.lines}
    assert len(looks) == len(axis.lines) == 8 and axis.get_title() == "fno (8 of 12 layers)"
    heights = np.sort([text.xyann[1] for text in axis.texts])
    assert len(heights) == 8 and np.diff(heights).min() > 0.05 and heights[-1] <= 1.0
    chosen = plot_layer_spectra(spectra, layers=["layer.1*"]).axes[0]
    assert [line.get_label() for line in chosen.lines] == ["layer.1", "layer.10", "layer.11"]
    with pytest.raises(ValueError, match="no layer 'nowhere'"):
        plot_layer_spectra(spectra, layers=["nowhere"])
    with pytest.raises(TypeError, match="layer_spectra"):
        plot_layer_spectra(np.ones((3, 4)))


def test_an_animation_keeps_its_scale_and_says_the_time(tmp_path):
    u = np.stack([X, -3 * X, 2 * X])
    figure = animate(torch.from_numpy(u).requires_grad_(), GRID, times=[0.0, 0.25, 0.5], path=tmp_path / "a.gif")
    assert image_of(figure).get_clim() == (-3 * X.max(), 3 * X.max())
    np.testing.assert_array_equal(image_of(figure).get_array(), 2 * X.T)
    assert figure.get_suptitle() == "time 0.5"
    with Image.open(tmp_path / "a.gif") as film:
        assert film.n_frames == 3 and film.info["duration"] == 80  # GIF counts in hundredths of a second
        assert film.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
    assert figure.film == (tmp_path / "a.gif").read_bytes() and "data:image/gif" in figure._repr_html_()


def test_animations_of_curves_of_xarray_and_of_several_fields():
    line = Grid(4, centering="periodic")
    u = xarray.DataArray(np.arange(20.0).reshape(5, 1, 4), dims=("time", "sample", "x"), name="h")
    figure = animate({"truth": u, "prediction": u - 1}, most=3)
    assert figure.get_suptitle() == "time 4" and [line.get_label() for line in figure.axes[0].lines][0] == "truth"
    assert figure.axes[0].get_ylim()[0] < -1 and figure.axes[0].get_ylim()[1] > 19
    with Image.open(io.BytesIO(figure.film)) as film:
        assert film.n_frames == 3
    for given, options, words in (
        (u.isel(time=0), {}, "expected one called time"),
        (np.zeros((2, 3, 4)), {"grid": line}, r"expected \(time, 4\)"),
        (np.zeros((3, 4)), {}, "needs the grid"),
        (np.zeros((3, 4)), {"grid": line, "times": [0, 1]}, "times has 2 entries"),
        (np.zeros((0, 4)), {"grid": line}, "nothing to draw"),
        ({"a": np.zeros((3, 4)), "b": np.zeros((2, 4))}, {"grid": line}, "expected the same of all"),
        (np.zeros((3, 4)), {"grid": line, "fps": 0}, "fps=0"),
        (np.zeros((3, 4)), {"grid": line, "path": "a.avi"}, "expected an animation's ending"),
    ):
        with pytest.raises(ValueError, match=words):
            animate(given, **options)


def test_an_mp4_is_written_by_ffmpeg_and_refused_without_it(tmp_path):
    import matplotlib

    line = Grid(4, centering="periodic")
    stand_in = tmp_path / "ffmpeg"
    stand_in.write_text('#!/bin/sh\nfor last; do :; done\nwc -c > "$last"\n')
    stand_in.chmod(0o755)
    with matplotlib.rc_context({"animation.ffmpeg_path": str(stand_in)}):
        figure = animate(np.eye(4), line, path=tmp_path / "a.mp4")
    width, height = (int(side * 100) for side in figure.get_size_inches())
    assert int((tmp_path / "a.mp4").read_text()) == 4 * 4 * width * height  # four frames of RGBA
    with matplotlib.rc_context({"animation.ffmpeg_path": str(tmp_path / "nowhere")}):
        with pytest.raises(OSError, match=r"ffmpeg is not installed.*or name b.gif"):
            animate(np.eye(4), line, path=tmp_path / "b.mp4")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mp4", "ffmpeg"]


@pytest.mark.gpu
def test_fields_on_a_device_are_drawn():
    u = torch.from_numpy(X).cuda().requires_grad_()
    np.testing.assert_array_equal(image_of(plot_field(u, GRID)).get_array(), X.T)
    assert plot_spectrum(u[None], GRID, taper="hann").axes[0].lines
