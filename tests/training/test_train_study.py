"""The training study on real fields: what it prints is what the saved model does, and it goes on where it stopped."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from data_gen import navier_stokes
from sciops import Grid
from sciops.datasets import TrajectoryDataset, build_dataset, load_splits, open_dataset, write_native
from sciops.evaluation import correlation_time, errors_against_time, frames_of, persistence
from sciops.metrics import relative_l2
from sciops.mixers import SpectralMixer
from sciops.models import build_model, load_model
from sciops.training import evaluate
from studies import train
from studies.train import PRESETS, _methods, _option, report, run
from studies.train.evolution import draw_errors, evolution
from studies.train.evolution import table as evolution_table
from studies.train.mixers import mixer_options
from studies.train.tasks import load_parts, notes_on


@pytest.fixture
def undrawn(monkeypatch):
    """Runs whose figures nothing looks at: to draw them takes as long as all the rest."""
    monkeypatch.setattr(train, "draw_all", lambda *_: None)


def small(real_data, folder, **changes):
    base = replace(
        PRESETS["real16"],
        data=real_data,
        train_samples=48,
        validation_samples=16,
        epochs=2,
        width=8,
        depth=2,
        modes=3,
        folder=folder,
        progress=False,
    )
    return replace(base, **changes)


def test_results_are_those_of_the_saved_model_and_the_same_command_changes_nothing(real_data, tmp_path, capsys):
    config = small(real_data, tmp_path / "run")
    results = run(config)
    printed = capsys.readouterr().out
    stored = json.loads((tmp_path / "run" / "results.json").read_text())
    model = load_model(tmp_path / "run" / "model")
    for points in (16, 32):
        errors = evaluate(model, load_splits(real_data, points).test)["relative_l2"]
        row = stored["test"][f"{points}×{points}"]["model"]
        np.testing.assert_allclose(row["relative_l2_of_samples"], errors, rtol=1e-6)
        assert f"{errors.mean():.4f} ±" in printed
    history = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [record["epoch"] for record in history] == [1, 2]
    assert min(record["validation"] for record in history) == stored["validation"]
    for name in ("config.json", "environment.json", "citations.bib", "figures/learning_curve.png"):
        assert (tmp_path / "run" / name).stat().st_size > 0
    again = run(config)
    assert again["seconds"] == results["seconds"]
    assert again["test"]["16×16"]["model"]["relative_l2"] == results["test"]["16×16"]["model"]["relative_l2"]


@pytest.mark.usefixtures("undrawn")
def test_a_folder_of_another_run_keeps_its_description(real_data, tmp_path):
    run(small(real_data, tmp_path / "run", epochs=1))
    before = (tmp_path / "run" / "config.json").read_bytes()
    with pytest.raises(ValueError, match="trained with weight_decay=0.001, this config has 0.1"):
        run(small(real_data, tmp_path / "run", epochs=1, weight_decay=0.1))
    assert (tmp_path / "run" / "config.json").read_bytes() == before


@pytest.mark.usefixtures("undrawn")
def test_two_grids_train_together_and_each_is_tested(real_data, tmp_path):
    # the 32-grid file holds test fields alone: strided from it, 16 and 11 points nest
    config = small(real_data / "darcy_test_32.pt", tmp_path / "run", resolution=(16, 32), test_resolutions=(), epochs=1)
    results = run(replace(config, train_samples=None, validation_samples=None, symmetrize=False))
    assert set(results["test"]) == {"16×16", "32×32"}
    record = json.loads((tmp_path / "run" / "log.jsonl").read_text())
    assert set(record["validation_by_grid"]) == {"16x16", "32x32"}


@pytest.mark.usefixtures("undrawn")
def test_modes_are_what_the_coarsest_training_grid_holds_and_it_says_so(real_data, tmp_path, capsys):
    config = small(real_data / "darcy_test_32.pt", tmp_path / "run", resolution=(32, 16), test_resolutions=(), epochs=1)
    run(replace(config, train_samples=None, validation_samples=None, symmetrize=False, modes=12))
    model = load_model(tmp_path / "run" / "model")
    assert {part.modes for part in model.modules() if isinstance(part, SpectralMixer)} == {(8, 8)}
    assert "modes: 8×8" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("local=true", ("local", True)),
        ("window=4", ("window", 4)),
        ("basis=sine", ("basis", "sine")),
        ("modes=[3, 4]", ("modes", [3, 4])),
        ("a=b=c", ("a", "b=c")),
    ],
)
def test_options_are_json_where_they_can_be(text, expected):
    assert _option(text, "options") == expected


def test_bad_requests_are_one_line(real_data, tmp_path):
    with pytest.raises(ValueError, match="expected name=value"):
        _option("local", "options")
    with pytest.raises(ValueError, match="pass --data FILE"):
        run(replace(PRESETS["quick"], folder=tmp_path))
    with pytest.raises(TypeError, match="unknown option 'bases'"):
        run(small(real_data, tmp_path / "x", options=("bases=sine",)))


@pytest.mark.usefixtures("undrawn")
def test_a_rule_for_gradients_gets_its_options(real_data, tmp_path):
    few = small(real_data, tmp_path / "a", epochs=1, gradients="highway", rule_options=("iterations=0",))
    all_of_them = replace(few, folder=tmp_path / "b", rule_options=("iterations=20",))
    by_backprop = replace(few, folder=tmp_path / "c", gradients="backprop", rule_options=())
    for config in (few, all_of_them, by_backprop):
        run(config)
    weights = [torch.cat([p.flatten() for p in load_model(tmp_path / name / "model").parameters()]) for name in "abc"]
    torch.testing.assert_close(weights[1], weights[2], rtol=1e-3, atol=1e-4)
    assert (weights[0] - weights[2]).abs().max() > 1e-3
    with pytest.raises(ValueError, match="no option 'sweeps'"):
        run(replace(few, folder=tmp_path / "d", rule_options=("sweeps=3",)))


def heat_file(folder, samples=30, times=9):
    """Decaying waves of u_t = 0.1 u_xx on a period of 2π, and a constant field beside them."""
    rng = np.random.default_rng(0)
    grid = Grid((16,), ((0.0, 2 * np.pi),), "periodic")
    t, u = 0.25 * np.arange(times), np.zeros((samples, times, 16))
    for k in range(1, 4):
        amplitude, phase = rng.uniform(1, 2, (samples, 1, 1)), rng.uniform(0, 2 * np.pi, (samples, 1, 1))
        u += amplitude * np.exp(-0.1 * k**2 * t)[None, :, None] * np.cos(k * grid.coordinates()[0] + phase)
    fields = {"u": (("sample", "time", "x"), u, {}), "f": (("sample", "x"), 0 * u[:, 0] + 1, {})}
    options = dict(layout="native", equation="heat", state=("u",), times=t, time_units="s")
    return write_native(folder / "heat.h5", build_dataset(fields, grid, **options)), u


def evolving(path, folder, **changes):
    options = dict(data=path, epochs=6, batch_size=8, learning_rate=1e-2, width=8, depth=1, modes=4, progress=False)
    return replace(PRESETS["step"], folder=folder, **(options | changes))


def test_a_step_is_learned_and_run_on_its_own_predictions(tmp_path, capsys):
    path, u = heat_file(tmp_path)
    config = evolving(
        path, tmp_path / "run", task="auto", history=2, inputs=("f",), validation_samples=4, test_samples=5
    )
    results = run(config)
    stored = json.loads((tmp_path / "run" / "results.json").read_text())["evolution"]["16"]
    model, truth = load_model(tmp_path / "run" / "model"), torch.from_numpy(u[-5:]).float()
    x = torch.cat([truth[:, :2], torch.ones(5, 1, 16)], 1)
    for step in range(7):
        with torch.no_grad():
            frame = model(x, model.model.model.reference)
        error = relative_l2(frame[:, 0], truth[:, 2 + step]).mean()
        assert stored["model"]["relative_l2"][step] == pytest.approx(float(error), rel=1e-4)
        still = relative_l2(truth[:, 1], truth[:, 2 + step]).mean()
        assert stored["persistence"]["relative_l2"][step] == pytest.approx(float(still), rel=1e-5)
        x = torch.cat([x[:, 1:2], frame, x[:, 2:]], 1)
    assert results["evolution"]["16"]["model"]["whole"] < 0.3 * results["evolution"]["16"]["persistence"]["whole"]
    np.testing.assert_allclose(stored["times"], 0.25 * np.arange(2, 9))
    said = capsys.readouterr().out
    assert "16, 5 test trajectories from t=0.25 s" in said and f"{stored['model']['whole']:.4f}" in said
    for name in ("learning_curve", "error_against_time", "frames"):
        assert (tmp_path / "run" / "figures" / f"{name}.png").stat().st_size > 0


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("task", ["trajectory", "space-time", "final"])
def test_other_tasks_of_trajectories_learn_what_they_say(task, tmp_path):
    path, u = heat_file(tmp_path)
    config = evolving(path, tmp_path / "run", task=task, validation_samples=4, test_samples=5, epochs=12, width=12)
    results = run(config)
    truth = u[-5:]
    (row,) = results["test"]["16"].values()
    later = truth[:, -1:] if task == "final" else truth[:, 1:]
    still = float(relative_l2(np.broadcast_to(truth[:, :1], later.shape), later).mean())
    assert row["relative_l2"] < 0.5 * still
    if task == "final":
        assert "evolution" not in results
    else:  # the same frames, whichever way they are compared
        assert results["evolution"]["16"]["model"]["whole"] == pytest.approx(row["relative_l2"], rel=1e-5)
        assert results["evolution"]["16"]["persistence"]["whole"] == pytest.approx(still, rel=1e-5)


@pytest.mark.parametrize("through", ["full", "pushforward", "detached"])
@pytest.mark.usefixtures("undrawn")
def test_unrolled_training_ends_in_a_stepper_that_says_how(through, tmp_path):
    path, _ = heat_file(tmp_path, samples=12)
    config = evolving(path, tmp_path / "run", unroll=3, through=through, noise=1e-3, epochs=1, test_samples=2)
    results = run(config)
    options = json.loads((tmp_path / "run" / "model" / "config.json").read_text())["model"]["options"]
    assert (options["steps"], options["gradient"], options["noise"]) == (3, through, 1e-3)
    windows = results["test"]["16"]["model"]["samples"]
    assert windows == 2 * (9 - 1 - 3 + 1)
    assert len(results["evolution"]["16"]["times"]) == 8


def stirred_file(folder, samples=24, times=13):
    """u_t = −u + f at every point, with f known at every time and linear between; u written down step by step."""
    rng = np.random.default_rng(0)
    grid = Grid((8,), centering="periodic")
    t = 0.2 * np.arange(times)
    f = rng.standard_normal((samples, times, 1)) * np.cos(2 * np.pi * grid.coordinates()[0] + rng.uniform(0, 6))
    u, decay = np.zeros((samples, times, 8)), np.exp(-0.2)
    u[:, 0] = rng.standard_normal((samples, 1))
    for k in range(times - 1):
        whole = 1 - decay
        u[:, k + 1] = decay * u[:, k] + f[:, k] * whole + (f[:, k + 1] - f[:, k]) * (1 - whole / 0.2)
    fields = {name: (("sample", "time", "x"), value, {}) for name, value in (("u", u), ("f", f))}
    options = dict(layout="native", equation="stirred", state=("u",), times=t)
    return write_native(folder / "stirred.h5", build_dataset(fields, grid, **options)), u


@pytest.mark.usefixtures("undrawn")
def test_a_known_forcing_is_used_and_without_it_nothing_can_be_learned(tmp_path):
    path, _ = stirred_file(tmp_path, samples=16)
    changes = dict(epochs=6, test_samples=4, batch_size=16)
    told = run(evolving(path, tmp_path / "told", forcings=("f",), unroll=2, through="random", **changes))
    untold = run(evolving(path, tmp_path / "untold", **changes))
    errors = [one["evolution"]["8"]["model"]["relative_l2"][-1] for one in (told, untold)]
    assert errors[0] < 0.5 * errors[1]
    options = json.loads((tmp_path / "told" / "model" / "config.json").read_text())["model"]["options"]
    assert (options["forcings"], options["gradient"]) == (1, "random") and "time_step" not in options


def test_several_strides_train_one_model_and_each_is_tested(tmp_path, capsys):
    path, u = heat_file(tmp_path, samples=16, times=17)
    config = evolving(path, tmp_path / "run", stride=(1, 4), time_step=True, test_samples=5, epochs=4)
    results = run(config)
    found = results["evolution"]
    assert set(found) == {"16 stride 1", "16 stride 4"} == set(results["test"])
    np.testing.assert_allclose(found["16 stride 4"]["times"], [1, 2, 3, 4])
    for row in found.values():
        assert row["model"]["whole"] < 0.4 * row["persistence"]["whole"]
    assert "16 stride 4, 5 test trajectories" in capsys.readouterr().out
    for name in ("frames_16_stride_1", "error_against_time_16_stride_4"):
        assert (tmp_path / "run" / "figures" / f"{name}.png").stat().st_size > 0
    model, x = load_model(tmp_path / "run" / "model"), torch.from_numpy(u[-5:, :1]).float()
    with torch.no_grad():
        frame = model(torch.cat([x, torch.full((5, 1, 16), 1.0)], 1), model.model.model.reference)
    error = relative_l2(frame, torch.from_numpy(u[-5:, 4:5]).float()).mean()
    assert found["16 stride 4"]["model"]["relative_l2"][0] == pytest.approx(float(error), rel=1e-4)


def test_times_that_lie_unevenly_are_said_where_the_model_is_not_told_them(tmp_path):
    path, _ = heat_file(tmp_path, samples=12)
    with open_dataset(path) as dataset:
        uneven = dataset.load().assign_coords(time=np.arange(9.0) ** 2)
    write_native(tmp_path / "uneven.h5", uneven)
    said = "times lie from 1 to 15 apart, and the model is not told how long a step is: --time-step tells it"
    for name, task, told, expected in (
        ("uneven", "step", False, [said]),
        ("uneven", "step", True, []),
        ("uneven", "final", False, []),
        ("heat", "step", False, []),
    ):
        config = evolving(tmp_path / f"{name}.h5", tmp_path / "run", time_step=told)
        assert notes_on(config, task, [load_parts(config, task, None).train]) == expected


def test_a_force_in_its_place_is_named_where_the_model_has_no_coordinates(tmp_path):
    law = replace(navier_stokes.PRESETS["quick"], samples=4, duration=1.0, resolutions=(16,), progress=False)
    for forcing, coordinates, named in (
        ("li2020", "none", True),
        ("li2020", "periodic", False),
        ("none", "none", False),
    ):
        path = navier_stokes.run(replace(law, forcing=forcing, output=tmp_path / f"{forcing}.h5"))
        config = evolving(path, tmp_path / "run")
        train = load_parts(config, "step", None).train
        model = build_model("fno", width=4, depth=1, modes=(2, 2), coordinates=coordinates, grid=train.grid)
        notes = notes_on(config, "step", [train], model)
        assert notes == [note for note in notes if "a force that stays in its place (li2020)" in note]
        assert len(notes) == named


def test_variables_of_other_scales_have_errors_of_their_own():
    rng = np.random.default_rng(0)
    fields = {
        name: (("sample", "time", "x"), scale * rng.standard_normal((3, 5, 8)), {})
        for name, scale in (("pressure", 1e5), ("speed", 1e-3))
    }
    options = dict(layout="native", equation="test", state=("pressure", "speed"), times=np.arange(5.0))
    data = TrajectoryDataset(build_dataset(fields, Grid((8,), centering="periodic"), **options), dtype=torch.float64)
    found = evolution(persistence(channels=2), "step", data)
    for name, (_, values, _) in fields.items():
        expected = relative_l2(np.broadcast_to(values[:, :1], values[:, 1:].shape)[:, 2], values[:, 3]).mean()
        assert found["model"][f"relative_l2 of {name}"][2] == pytest.approx(expected, rel=1e-12)
        assert any(line.split()[0] == name for line in evolution_table("8", found))
    c = np.mean(errors_against_time(*frames_of(persistence(channels=2), "step", data)).errors["correlation"], 0)
    expected = correlation_time(np.arange(5.0), np.concatenate([[1.0], c]))  # of the mean, as in the literature
    assert found["model"]["correlation_time_of_mean"] == pytest.approx(float(expected), rel=1e-12)


def test_frames_that_vanish_have_infinite_errors_and_are_drawn(tmp_path):
    u = np.random.default_rng(0).standard_normal((3, 5, 8))
    u[:, 3] = 0
    fields, grid = {"u": (("sample", "time", "x"), u, {})}, Grid((8,), centering="periodic")
    options = dict(layout="native", equation="test", state=("u",), times=np.arange(5.0))
    data = TrajectoryDataset(build_dataset(fields, grid, **options), dtype=torch.float64)
    found = evolution(persistence(), "step", data)
    assert np.isinf(found["model"]["relative_l2_quartiles"][:, 2]).all()
    others = relative_l2(u[:, 0], u[:, 4])
    np.testing.assert_allclose(found["model"]["relative_l2_quartiles"][:, 3], np.quantile(others, (0.25, 0.5, 0.75)))
    draw_errors(found, tmp_path / "errors.png")
    assert (tmp_path / "errors.png").stat().st_size > 0


def test_a_model_that_breaks_in_its_rollout_is_reported_and_drawn(tmp_path, monkeypatch, capsys):
    path, _ = heat_file(tmp_path, samples=12)

    def blow_up(model, x0, grid, *, steps):
        frames = x0[:, None, :1].repeat(1, steps, 1, 1)
        frames[1:, 3:] = torch.nan
        frames[0] = torch.nan
        return frames

    monkeypatch.setattr("sciops.evaluation.frames.rollout", blow_up)
    found = run(evolving(path, tmp_path / "run", epochs=1, test_samples=4))["evolution"]["16"]
    assert found["model"]["broke"] == 4 and "4 not finite" in capsys.readouterr().out
    assert (tmp_path / "run" / "figures" / "frames.png").stat().st_size > 0


def test_steady_and_evolving_tasks_refuse_the_other_s_data_in_one_line(real_data, tmp_path):
    path, _ = heat_file(tmp_path)
    for config, message in (
        (evolving(real_data / "darcy_train_16.pt", tmp_path / "a"), r"\(darcy\) is steady.*--task steady"),
        (evolving(path, tmp_path / "b", task="steady"), r"\(heat\) holds trajectories.*--task step"),
        (
            evolving(path, tmp_path / "c", task="trajectory", unroll=2),
            "unroll=2 is for --task step; this is trajectory",
        ),
        (evolving(path, tmp_path / "c", task="final", residual=False), "residual=False is for --task step"),
        (evolving(path, tmp_path / "c", task="final", time_step=True), "time_step=True is for --task step"),
        (evolving(path, tmp_path / "c", stride=(1, 2)), r"stride=\(1, 2\): one model of several .* --time-step"),
        (evolving(path, tmp_path / "c", stride=(2, 2), time_step=True), "expected one or several different numbers"),
        (evolving(path, tmp_path / "c", unroll=0), "unroll=0: expected a whole number of at least 1"),
        (evolving(path, tmp_path / "c", forcings=("f",)), r"forcings has 'f': expected fields over time and x"),
        (evolving(real_data, tmp_path / "c", task="steady", parameters=("nu",)), r"parameters=\('nu',\): a steady"),
        (evolving(path, tmp_path / "d", history=20), "history=20, lead=0, horizon=1: a trajectory has 9 frames"),
        (replace(evolving(path, tmp_path / "e"), task="steps"), "task='steps': expected one of auto, steady, step"),
    ):
        with pytest.raises(ValueError, match=message):
            run(config)


def test_the_public_burgers_files_in_every_form(real_data, tmp_path, monkeypatch):
    for other in ("_draw", "draw_prediction", "draw_errors"):  # frames alone are looked at
        monkeypatch.setattr(report, other, lambda *_: None)
    # a trajectory is one sample, or fifteen steps
    for preset, samples, most in (
        ("burgers16", 200, 0.25),
        ("burgers16-space-time", 200, 0.25),
        ("burgers16-step", 60, 0.1),
    ):
        changes = dict(train_samples=samples, test_samples=40, width=12, depth=2, epochs=4, progress=False)
        config = replace(PRESETS[preset], data=real_data, folder=tmp_path / preset, **changes)
        found = run(config)["evolution"]["16"]
        assert found["trajectories"] == 40 and len(found["times"]) == 16
        assert found["persistence"]["whole"] > 0.4 and found["model"]["whole"] < most
        assert (tmp_path / preset / "figures" / "frames.png").stat().st_size > 0


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """Tiny files of the generators: waves of Burgers' equation and their later form, two-phase Darcy fields."""
    from data_gen import burgers, darcy

    folder, split = tmp_path_factory.mktemp("generated"), dict(samples=20, validation=4, test=4)
    waves = replace(
        burgers.PRESETS["quick"],
        resolutions=(32,),
        law="gaussian",
        modes=8,
        viscosity=0.05,
        duration=0.5,
        every=0.5,
        output=folder / "burgers.h5",
        **split,
    )
    burgers.run(waves)
    darcy.run(replace(darcy.PRESETS["quick"], resolutions=(9,), output=folder / "darcy.h5", **split))
    return folder


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("mixer", [("self_attention",), ("polynomial",), ("spectral", "polynomial")])
@pytest.mark.parametrize(("equation", "task"), [("burgers", "final"), ("darcy", "steady")])
def test_any_mixer_by_name(generated, equation, task, mixer, tmp_path):
    config = replace(
        PRESETS["quick"], data=generated / f"{equation}.h5", task=task, mixer=mixer, width=8, depth=2, epochs=40
    )
    results = run(replace(config, folder=tmp_path / "run", progress=False, validate_every=20, checkpoint_every=40))
    options = json.loads((tmp_path / "run" / "model" / "config.json").read_text())["model"]["options"]
    while "model" in options:
        options = options["model"]["options"]
    assert options["mixer"] == (mixer[0] if len(mixer) == 1 else list(mixer))
    assert options["coordinates"] == ("periodic" if equation == "burgers" else "linear")
    names = {type(part).__name__ for part in load_model(tmp_path / "run" / "model").modules()}
    assert len(names & {"SelfAttention", "PolynomialMixer", "SpectralMixer"}) == len(mixer)
    (row,) = (kinds["model"] for kinds in results["test"].values())
    assert row["relative_l2"] < 0.75, "a guess of 0 has 1"
    lines = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    assert losses[-1] < 0.6 * losses[0]


def test_unknown_mixers_and_other_models_are_refused_in_one_line(generated, tmp_path):
    config = replace(PRESETS["quick"], data=generated / "darcy.h5", folder=tmp_path)
    for changes, message in (
        (dict(mixer=("polynomials",)), "--mixer polynomials: expected one of spectral, multipole, .*polynomial"),
        (dict(mixer=("polynomial",), model="mano"), "--mixer polynomial makes .* leave --model mano out"),
    ):
        with pytest.raises(ValueError, match=message):
            run(replace(config, **changes))
    with pytest.raises(TypeError, match="mixer 'polynomial': unknown option 'heads'"):
        run(replace(config, mixer=("polynomial",), options=('mixer_options={"heads": 2}',)))
    with pytest.raises(ValueError, match="mixer_options=3: expected an object such as"):
        run(replace(config, mixer=("polynomial",), options=("mixer_options=3",)))
    with pytest.raises(ValueError, match="of several one by name"):
        run(replace(config, mixer=("spectral", "polynomial"), options=('mixer_options={"spectral": 3}',)))


def test_modes_reach_the_spectral_mixer_however_its_options_are_written():
    config, grid, most = replace(PRESETS["quick"], mixer=("spectral",), modes=9), Grid((16, 12)), [8, 6]
    expected = {"modes": (8, 6), "basis": "sine"}
    for written in ({"basis": "sine"}, {"spectral": {"basis": "sine"}}):
        found = mixer_options(config, {"mixer_options": written}, grid, most)
        assert found["mixer_options"].get("spectral", found["mixer_options"]) == expected
        model = build_model("operator", width=4, depth=1, grid=grid, **found)
        assert [part.modes for part in model.modules() if isinstance(part, SpectralMixer)] == [(8, 6)]


def test_mixers_and_rules_that_a_run_uses_are_cited():
    config = replace(PRESETS["quick"], model="operator", mixer=("state_space", "polynomial"), gradients="highway")
    assert _methods(config, "steady") == ["state_space", "highway", "adamw", "onecycle"]
    assert _methods(PRESETS["step"], "step") == ["fno", "adamw", "onecycle", "correlation_time"]
