"""Arrays named x, y, z, t say which axis is which: the description proposed for public forms runs and is right."""

import re
import warnings

import h5py
import numpy as np
import pytest
import scipy.io
import xarray as xr

from sciops.datasets import describe_arrays, grid_of, open_dataset, validate
from sciops.datasets.conventions import state_of
from sciops.datasets.formats.described.coordinates import dimension
from sciops.grids import Grid

RNG = np.random.default_rng(0)
N, M = 32, 21
T = np.linspace(0, 2, M)


def _open(low, high, n=N):
    return np.linspace(low, high, n + 1)[:-1]


def _advice(path):
    """The message for an unknown file, and the call in it (None where there is none)."""
    with pytest.raises(ValueError) as caught:
        open_dataset(path)
    text = str(caught.value)
    assert "\n" not in text
    call = re.search(r"sciops\.datasets\.(describe_arrays\(.*\)), which writes", text)
    return text, call and call[1].replace(repr(path.name), "path")


def _follow(path):
    """The message, and the data set where what it proposes is done; nothing the file says contradicts it."""
    text, call = _advice(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        eval(call, {"describe_arrays": describe_arrays, "Grid": Grid, "path": path})
    return text, open_dataset(path)


@pytest.mark.parametrize(
    ("x", "grid"),
    [
        (_open(-8, 8), Grid(N, ((-8.0, 8.0),), "periodic")),
        (_open(-np.pi, np.pi), Grid(N, ((-np.pi, np.pi),), "periodic")),
        (np.linspace(-1, 1, N), Grid(N, ((-1.0, 1.0),))),
        (np.linspace(0, 1, N), Grid(N, ((0.0, 1.0),))),
        ((np.arange(N) + 0.5) / N, Grid(N, ((0.0, 1.0),), "cell")),
        # points at h, 2h, …, L of the period L, as in a well-known Kuramoto–Sivashinsky program
        (32 * np.pi * np.arange(1, N + 1) / N, Grid(N, ((np.pi, 33 * np.pi),), "periodic")),
        (np.linspace(0.1234, 3.7777, N), Grid(N, ((0.1234, 3.7777),))),
    ],
)
@pytest.mark.parametrize("order", [("x", "t"), ("t", "x")])
@pytest.mark.parametrize("single", [False, True])
def test_one_trajectory_in_space_and_time(tmp_path, x, grid, order, single):
    u = RNG.standard_normal((N, M)) + 1j * RNG.standard_normal((N, M))
    stored = u if order == ("x", "t") else u.T
    name = "tt" if single else "t"
    vectors = {"x": x[None].astype("f4" if single else "f8"), name: T[:, None]}
    scipy.io.savemat(tmp_path / "file.mat", vectors | {"usol": stored})
    text, dataset = _follow(tmp_path / "file.mat")
    assert f"along axis {order.index('x')}" in text and "guess" not in text
    assert state_of(dataset) == ("usol_real", "usol_imag") and dict(dataset.sizes) == {"sample": 1, "time": M, "x": N}
    assert np.array_equal(dataset["usol_imag"].values[0], u.imag.T) and np.array_equal(dataset["time"].values, T)
    assert grid_of(dataset).centering == grid.centering and "notes" not in dataset.attrs
    np.testing.assert_allclose(dataset["x"].values, x, rtol=1e-6, atol=1e-6 * np.abs(x).max())
    np.testing.assert_allclose(grid_of(dataset).extent, grid.extent, rtol=1e-5 if single else 1e-12)


def test_two_fields_on_a_plane_of_equal_sides(tmp_path):
    u, v = RNG.standard_normal((2, 12, 12, M))
    side = _open(-10, 10, 12)[None]
    scipy.io.savemat(tmp_path / "rd.mat", {"t": T[None], "x": side, "y": side, "u": u, "v": v})
    text, dataset = _follow(tmp_path / "rd.mat")
    assert "is a guess, since sizes are equal: ('y', 'x', 'time') fits as well" in text
    assert state_of(dataset) == ("u", "v") and np.array_equal(dataset["v"].values[0], v.transpose(2, 0, 1))


def test_squares_of_space_and_time_are_ambiguous_and_mesh_grids_are_not(tmp_path):
    u, x, t = RNG.standard_normal((N, N)), _open(-1, 1), np.linspace(0, 1, N)
    np.savez(tmp_path / "a.npz", u=u, x=x, t=t)
    text, _ = _follow(tmp_path / "a.npz")
    assert "since sizes are equal: ('time', 'x') fits as well, so look at the values first" in text
    for indexing, order in (("xy", (0, 1)), ("ij", (1, 0))):
        X, TT = np.meshgrid(x, t, indexing=indexing)
        np.savez(tmp_path / f"{indexing}.npz", U=u, X=X, T=TT)
        text, dataset = _follow(tmp_path / f"{indexing}.npz")
        assert "guess" not in text and np.array_equal(dataset["U"].values[0], u.transpose(order))
        np.testing.assert_allclose(dataset["time"].values, t, rtol=1e-12)
        assert grid_of(dataset) == Grid(N, ((-1.0, 1.0),), "periodic")


@pytest.mark.parametrize("kind", ["netcdf3", "netcdf4", "groups"])
def test_names_of_the_axes_in_the_file_decide(tmp_path, kind):
    """A square field over (time, y, x): sizes leave it open, the file's own names do not."""
    u, side = RNG.standard_normal((4, 6, 6)), _open(0, 1, 6)
    path = tmp_path / "file.nc"
    if kind == "groups":
        with h5py.File(path, "w") as file:
            for name, points in (("t", T[:4]), ("y", side), ("x", side + 2)):
                file[f"grid/{name}"] = points
                file[f"grid/{name}"].make_scale(name)
            file["run/u"] = u
            for axis, name in enumerate("tyx"):
                file["run/u"].dims[axis].attach_scale(file[f"grid/{name}"])
    else:
        plain = xr.Dataset({"u": (("time", "y", "x"), u)}, {"time": T[:4], "y": side, "x": side + 2})
        plain.to_netcdf(path, engine="scipy" if kind == "netcdf3" else "h5netcdf")
    text, dataset = _follow(path)
    assert "guess" not in text and np.array_equal(dataset["u"].values[0], u.transpose(0, 2, 1))
    np.testing.assert_allclose(dataset["x"].values, side + 2, rtol=1e-12)
    np.testing.assert_allclose(dataset["y"].values, side, rtol=1e-12)
    assert np.array_equal(dataset["time"].values, T[:4])


def test_samples_and_components_are_said_to_be_guesses(tmp_path):
    u = RNG.standard_normal((20, M, 2, N))
    scipy.io.savemat(tmp_path / "a.mat", {"u": u, "x": _open(0, 1), "t": T})
    text, dataset = _follow(tmp_path / "a.mat")
    assert "Nothing says what the other axes are; axis 0 (20) as 'sample', axis 2 (2) as 'channel' is a guess" in text
    assert np.array_equal(dataset["u_1"].values, u[:, :, 1])
    scipy.io.savemat(tmp_path / "t.mat", {"u": u[:, :, 0, 0].T, "t": T})
    text, dataset = _follow(tmp_path / "t.mat")
    assert "axis 1 (20) as 'x' is a guess" in text and dict(dataset.sizes) == {"sample": 1, "time": M, "x": 20}


def test_points_that_make_no_grid_are_not_described(tmp_path):
    """The cylinder wake: a list of the points of a grid; and points anywhere."""
    sides = np.meshgrid(np.linspace(1, 8, 10), np.linspace(-2, 2, 5))
    listed = np.stack([side.ravel() for side in sides], 1)
    fields = {"t": T[:, None], "U_star": RNG.standard_normal((50, 2, M)), "p_star": RNG.standard_normal((50, M))}
    scipy.io.savemat(tmp_path / "wake.mat", fields | {"X_star": listed})
    text, call = _advice(tmp_path / "wake.mat")
    assert call is None and "X_star[50, 2] holds the positions of 50 points of U_star" in text
    assert "all points of a 10×5 grid" in text and "reshape that axis of the fields to (10, 5)" in text
    anywhere = {"x": RNG.random((50, 1)), "y": RNG.random((50, 1)), "t": T, "u": RNG.random((50, M))}
    scipy.io.savemat(tmp_path / "points.mat", anywhere)
    text, call = _advice(tmp_path / "points.mat")
    assert call is None and "holds the positions of 50 points of u, which do not lie on a grid: interpolate" in text


def test_axes_that_no_grid_has_are_refused_with_the_remedy(tmp_path):
    u = RNG.standard_normal((N, M))
    scipy.io.savemat(tmp_path / "a.mat", {"u": u, "x": np.cos(np.linspace(3, 0, N)), "t": T})
    text, call = _advice(tmp_path / "a.mat")
    assert call is None and "x is not uniform" in text and "interpolate the fields onto one" in text
    scipy.io.savemat(tmp_path / "b.mat", {"u": u, "x": _open(0, 1)[::-1], "t": T})
    text, call = _advice(tmp_path / "b.mat")
    assert call is None and "x does not increase" in text and "reverse the fields along it" in text


def test_names_of_coordinates_hold_fields_too(tmp_path):
    """x and y as inputs and outputs, as in many collections for learning."""
    x, y = RNG.standard_normal((2, 20, N))
    np.savez(tmp_path / "a.npz", x=x, y=y)
    assert "numbers do not say what their axes mean" in _advice(tmp_path / "a.npz")[0]
    np.savez(tmp_path / "b.npz", x=x, y=RNG.standard_normal(20))
    assert "numbers do not say what their axes mean" in _advice(tmp_path / "b.npz")[0]


def test_spellings():
    words = (
        "x",
        "X",
        "xx",
        "xs",
        "x_grid",
        "grid_x",
        "x-coordinate",
        "X_star",
        "xv",
        "lon",
        "y_vals",
        "zz",
        "a/b/mesh_y",
    )
    assert [dimension(word) for word in words] == ["x"] * 10 + ["y", "z", "y"]
    times = ("t", "tt", "T", "ts", "t_grid", "time", "Times", "tspan", "t-coordinate")
    assert [dimension(word) for word in times] == ["time"] * 9
    assert not any(map(dimension, ("u", "xi", "text", "theta", "exact", "Ux", "yaw", "tx", "rest")))


@pytest.fixture
def file(tmp_path):
    scipy.io.savemat(tmp_path / "c.mat", {"usol": np.ones((N, M)), "x": _open(-5, 5)[None], "t": T[None]})
    return tmp_path / "c.mat"


X_RUNS, T_RUNS = r"x of the file.* -5 … 4.6875 \(32 points\)", r"t of the file.* 0 … 2 \(21 points\)"
TRUE = {"grid": Grid(N, ((-5.0, 5.0),), "periodic"), "state": ("usol",), "times": {"array": "t"}}


@pytest.mark.parametrize(
    ("dims", "options", "messages"),
    [
        # time taken for x, and 32 samples of it: what the advice once was
        (("sample", "x"), {"grid": Grid(M, 1.0)}, [X_RUNS + ".*described as 'sample'", T_RUNS + ".*described as 'x'"]),
        (
            ("time", "x"),
            {"grid": Grid(M, 1.0), "state": ("usol",)},
            ["as 'time', not along x", "as 'x', not along time"],
        ),
        (
            ("x", "time"),
            TRUE | {"grid": Grid(N, 1.0, "periodic")},
            [X_RUNS + ", and the description puts x at 0 … 0.96875"],
        ),
        (("x", "time"), TRUE | {"grid": Grid(N, ((-5.0, 5.0),))}, [X_RUNS + ", and the description puts x at -5 … 5"]),
        (("x", "time"), TRUE | {"times": {"step": 0.2}}, [T_RUNS + ", and the description puts time at 0 … 4"]),
        (("x", "time"), TRUE | {"times": None}, ["no times are described, and t of the file holds 0 … 2"]),
    ],
)
def test_descriptions_that_contradict_the_file_are_reported(file, dims, options, messages):
    with pytest.warns(UserWarning) as caught:
        describe_arrays(file, {"usol": dims}, **options)
    assert len(caught) == len(messages)
    findings = [finding.message for finding in validate(file) if finding.severity == "warning"]
    for message in messages:
        assert any(re.search(message, str(one.message)) for one in caught)
        assert any(re.search(message, one) for one in findings), findings


def test_times_from_an_array_of_positions_are_reported(tmp_path):
    np.savez(tmp_path / "a.npz", u=np.ones((N, N)), x=_open(0, 1), t=np.linspace(0, 3, N))
    options = {"grid": Grid(N, 1.0, "periodic"), "state": ("u",), "times": {"array": "x"}}
    with pytest.warns(UserWarning, match="the array x, whose name is that of the axis x|t of the file runs over 0 … 3"):
        describe_arrays(tmp_path / "a.npz", {"u": ("time", "x")}, **options)


def test_names_of_axes_that_a_description_exchanges_are_reported(tmp_path):
    """Other spellings of the axes are reported; their very names are refused."""
    plain = xr.Dataset({"u": (("time", "Y", "X"), np.ones((4, 6, 6)))})
    plain.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with pytest.warns(UserWarning, match="the file calls an axis of u [XY], described as '[xy]'"):
        describe_arrays(tmp_path / "a.nc", {"u": ("time", "x", "y")}, grid=Grid((6, 6)))
    plain.rename(X="x", Y="y").to_netcdf(tmp_path / "b.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match=r"the file itself names them \(time, y, x\)"):
        describe_arrays(tmp_path / "b.nc", {"u": ("time", "x", "y")}, grid=Grid((6, 6)))


@pytest.mark.parametrize("x", [_open(-5, 5), np.linspace(-5, 5, N + 1), _open(-5, 5).astype("f4"), RNG.random(7)])
def test_what_agrees_or_belongs_elsewhere_is_not_reported(tmp_path, x):
    """The points themselves, the walls of cells, single precision, an array of another length."""
    kind = "cell" if len(x) == N + 1 else "periodic"
    np.savez(tmp_path / "a.npz", usol=np.ones((N, M)), x=x, t=T)
    describe_arrays(tmp_path / "a.npz", {"usol": ("x", "time")}, **TRUE | {"grid": Grid(N, ((-5.0, 5.0),), kind)})
    assert "notes" not in open_dataset(tmp_path / "a.npz").attrs


# forms of public sets of one trajectory: field, x (as stored), t (as stored), whether complex, what else is in the file
FORMS = {
    "PDE-FIND kdv": ("usol", (1, N), "t", (1, M), "x t", False, ()),
    "PDE-FIND burgers": ("usol", (1, N), "t", (M, 1), "x t", True, ()),
    "PDE-FIND nls": ("usol", (N, 1), "t", (1, M), "x t", True, ("k",)),
    "PDE-FIND, pysindy kuramoto_sivashinsky": ("uu", (N, 1), "tt", (1, M), "x t", False, ()),
    "DeepHPMs burgers, KS": ("usol", (1, N), "t", (M, 1), "x t", False, ("dt",)),
    "PINNs burgers_shock": ("usol", (N, 1), "t", (M, 1), "x t", False, ()),
    "PINNs AC": ("uu", (1, N), "tt", (1, M), "x t", False, ("dt", "k")),
    "PINNs NLS": ("uu", (1, N), "tt", (1, M), "x t", True, ()),
    "pysindy, transposed": ("u", (1, N), "t", (1, M), "t x", False, ()),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("packed", [False, True])
def test_public_forms_open_with_the_right_axes(tmp_path, form, packed):
    field, own, time, times, order, is_complex, others = FORMS[form]
    x = _open(-8, 8)
    u = np.sin(x - T[:, None]) + (1j * np.cos(x + T[:, None]) if is_complex else 0)
    more = {"dt": T[1], "k": np.fft.fftfreq(N)[None]}
    arrays = {time: T.reshape(times) + 0j * is_complex, "x": x.reshape(own), field: u.T if order == "x t" else u}
    scipy.io.savemat(tmp_path / "a.mat", arrays | {name: more[name] for name in others}, do_compression=packed)
    text, dataset = _follow(tmp_path / "a.mat")
    assert "guess" not in text and dict(dataset.sizes) == {"sample": 1, "time": M, "x": N}
    assert np.array_equal(dataset["time"].values, T) and grid_of(dataset) == Grid(N, ((-8.0, 8.0),), "periodic")
    found = {field: u} if not is_complex else {f"{field}_real": u.real, f"{field}_imag": u.imag}
    assert state_of(dataset) == tuple(found)
    for name, values in found.items():
        assert np.array_equal(dataset[name].values[0], values)
    assert not [finding for finding in validate(tmp_path / "a.mat") if finding.severity != "note"]
