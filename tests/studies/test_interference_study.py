"""The study of interference: data, side-by-side training, and a small run that leaves its numbers."""

import json
import struct
from dataclasses import replace
from math import sin

import numpy as np
import pytest
import torch

from sciops.runs import plain
from studies import interference as study
from studies.interference import analysis, catalogues, equations, grammars, networks, plan, tasks, training

CONFIG = replace(
    study.PRESETS["quick"],
    characters=2000,
    equations=("advection +1", "wave", "diffusion"),
    points=16,
    fields=(12, 8),
    seeds=(0, 1),
    text_steps=3,
    text_batch=12,
    text_width=4,
    field_steps=2,
    field_batch=12,
    field_width=4,
    field_depth=1,
    widths=(3,),
    mixtures=1,
    wavenumbers=(1,),
    permutations=99,
    workers=1,
)


def catalogue(messages, order="<", charset="UTF-8"):
    """The bytes of a compiled catalogue of gettext."""
    head = f"Content-Type: text/plain; charset={charset}\n"
    pairs = sorted([(b"", head.encode()), *((k.encode(charset), v.encode(charset)) for k, v in messages.items())])
    at, tables, body = 28 + 16 * len(pairs), [], b""
    for side in (0, 1):
        for pair in pairs:
            tables += [len(pair[side]), at + len(body)]
            body += pair[side] + b"\0"
    start = 28 + 8 * len(pairs)
    return struct.pack(f"{order}7I{len(tables)}I", 0x950412DE, 0, len(pairs), 28, start, 0, 0, *tables) + body


def put(folder, code, name, messages, **how):
    place = folder / code / "LC_MESSAGES"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{name}.mo").write_bytes(catalogue(messages, **how))


@pytest.mark.parametrize("how", [{}, {"order": ">"}, {"charset": "KOI8-R"}])
def test_catalogues_are_read(tmp_path, how):
    put(tmp_path, "ru", "a", {"Open": "Открыть", "%d file\0%d files": "%d файл\0%d файла"}, **how)
    path = tmp_path / "ru" / "LC_MESSAGES" / "a.mo"
    assert catalogues.read_catalogue(path) == {"Open": "Открыть", "%d file": "%d файл"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda content: b"text" * 9, "not a compiled catalogue"),
        (lambda content: content[:12], "not a compiled catalogue"),
        (lambda content: content[:40], "ends before its tables"),
        (lambda content: content.replace(b"UTF-8", b"UTF-9"), "encoding 'UTF-9'"),
        (lambda content: content.replace(b"\xd0", b"\xff"), "not text in its encoding"),
    ],
)
def test_damaged_catalogues_are_refused_in_one_line(tmp_path, change, says):
    path = tmp_path / "a.mo"
    path.write_bytes(change(catalogue({"Open": "Открыть"})))
    with pytest.raises(ValueError, match=says) as error:
        catalogues.read_catalogue(path)
    assert "\n" not in str(error.value)


def test_messages_are_the_same_in_all_languages(tmp_path):
    long = "<b>The file</b> “%s” could not be opened {name}, code 42"
    put(
        tmp_path,
        "fr",
        "a",
        {"k": "Le fichier « %s » n’a pas pu être ouvert", "m": "Un autre message assez long", "n": "bref"},
    )
    put(
        tmp_path,
        "ru",
        "a",
        {"k": "Файл _file «%s» не удалось открыть", "m": "m", "n": "Другое достаточно длинное сообщение"},
    )
    put(tmp_path, "fr", "iso_1", {"z": "une chaîne qui est bien assez longue"})
    put(tmp_path, "ru", "iso_1", {"z": "строка которая достаточно длинная"})
    found = catalogues.messages(["fr", "ru"], tmp_path)
    assert found == {"fr": ["le fichier n a pas pu être ouvert"], "ru": ["файл не удалось открыть"]}
    assert catalogues.cleaned(long, "Latin") == "the file could not be opened , code"
    assert catalogues.script_of("Файл file") == "Cyrillic" and catalogues.family_of("kk") == "Turkic"
    with pytest.raises(FileNotFoundError, match="xx"):
        catalogues.messages(["fr", "xx"], tmp_path)


def write_texts(folder, **letters):
    folder.mkdir(exist_ok=True)
    for k, (name, own) in enumerate(letters.items()):
        lines = ("".join(row) for row in np.random.default_rng(k).choice(list(own), (500, 50)))
        (folder / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")


def test_texts_of_ones_own(tmp_path):
    write_texts(tmp_path, fr="abcdefgh", ru="абвгдежз")
    found = tasks.language_tasks(tmp_path / "data", str(tmp_path), (), 21_000)
    assert found.names == ("fr", "ru") and found.symbols == 2 * 8 + 2
    assert found.predictors["same script"] == [[1, 0], [0, 1]] and found.predictors["shared characters"][0][1] == 0
    x, y, x_test, y_test = tasks.read_examples(found.file, 2)[0]
    assert x.shape == (len(y), 8) and abs(len(x) - 6 * len(x_test)) < len(x) / 2 and y.max() < found.symbols
    np.testing.assert_array_equal(x[4:-4, 4], y[5:-3])  # the next character is the first to the right
    (tmp_path / "ru.txt").write_text("а" * 30, encoding="utf-8")
    with pytest.raises(ValueError, match="ru: 30 characters of text after cleaning, expected at least 20,000"):
        tasks.language_tasks(tmp_path / "data", str(tmp_path), (), 21_000)
    with pytest.raises(FileNotFoundError, match="language packs"):
        tasks.language_tasks(tmp_path / "data", "catalogues", ("xx", "yy"), 21_000)


def test_an_alphabet_is_a_relabelling():
    one, two = (grammars.written(0, alphabet, 500) for alphabet in (0, 1))
    np.testing.assert_array_equal(two - one, grammars.LETTERS)
    assert one.max() < grammars.LETTERS and not np.array_equal(one, grammars.written(0, 0, 500, sample=1))
    assert not np.array_equal(one, grammars.written(1, 0, 500))


def test_the_mean_of_opposite_shifts_errs_by_sine():
    """‖G₊u − G₋u‖ / 2‖u‖ = |sin kT|; at rest, the wave equation gives just this mean."""
    rng = np.random.default_rng(0)
    for k in (1, 2, 3):
        f, right = equations.single_waves(1, k, 5, 32, np.random.default_rng(k))
        _, left = equations.single_waves(-1, k, 5, 32, np.random.default_rng(k))
        floor = np.linalg.norm(right - left, axis=1) / 2 / np.linalg.norm(f, axis=1)
        np.testing.assert_allclose(floor, abs(sin(k * equations.TIME)), atol=1e-12)
    f = equations.initial_fields("rough", 3, 64, rng)
    both = [equations.EQUATIONS[name].solve(f) for name in ("advection +1", "advection −1", "wave")]
    np.testing.assert_allclose((both[0] + both[1]) / 2, both[2], atol=1e-12)


def test_equations_are_solved_to_their_grid():
    """Twice the points change the solution by less than the models can tell."""
    for name, equation in equations.EQUATIONS.items():
        f = equations.initial_fields(equation.law, 3, 512, np.random.default_rng(0))
        np.testing.assert_allclose(np.square(f).mean(1), 1, rtol=1e-9)
        fine, used = equation.solve(f)[:, ::2], equation.solve(f[:, ::2])
        assert np.linalg.norm(fine - used) < 2e-3 * np.linalg.norm(fine), name


@pytest.mark.parametrize("kind", ["text", "fields"])
def test_seeds_side_by_side_are_trained_as_alone(kind, tmp_path):
    if kind == "text":
        found = tasks.grammar_tasks(tmp_path, "grammars", ("A1", "B2", "B1"), 500)
    else:
        found = tasks.wave_tasks(tmp_path, (1, 2), 16, 12, 4)
    mixtures = (found.names[:2], found.names[1:3])
    spec = training.Spec(found.digest, mixtures, 1.0, (3, 4), 2, 4, 1e-2, 4, 1, True)
    together = training.trained(spec, found)["losses"]
    for mixture, losses in zip(mixtures, together):
        for s, seed in enumerate((3, 4)):
            (alone,) = training.trained(replace(spec, mixtures=(mixture,), seeds=(seed,)), found)["losses"]
            assert {name: values[s] for name, values in losses.items()} == pytest.approx(
                {name: values[0] for name, values in alone.items()}, rel=1e-5
            )
        assert losses[mixture[0]][0] != losses[mixture[0]][1]
    assert together[0][found.names[1]] != together[1][found.names[1]]
    with pytest.raises(ValueError, match="divide the batch"):
        training.trained(replace(spec, batch=5), found)


def test_side_by_side_equals_each_network():
    make = lambda: networks.field_net(2, 16, width=4, depth=2, modes=4)  # noqa: E731
    net = networks.SideBySide(make, (0, 5))
    x = torch.randn(2, 3, 3, 16)
    for s, seed in enumerate((0, 5)):
        torch.manual_seed(seed)
        torch.testing.assert_close(net(x)[s], make()(x[s]), rtol=1e-5, atol=1e-6)
    assert net.each == sum(p.numel() for p in make().parameters())


def test_examples_of_a_task_come_in_the_same_order_in_every_mixture():
    long, short = (training._rows((0, 1), 2, 37, length) for length in (60, 25))
    np.testing.assert_array_equal(long[:, :25], short)


def test_a_small_run_leaves_its_numbers_and_is_read_back(tmp_path, capsys, monkeypatch):
    write_texts(tmp_path / "texts", fr="abcdefgh", ru="абвгдежз", kk="абвгдежі")
    config = replace(CONFIG, texts=str(tmp_path / "texts"), output=tmp_path)
    results = study.run(config)
    said = capsys.readouterr().out
    assert json.loads((tmp_path / "results.json").read_text())["arms"] == plain(results["arms"])
    for name in ("matrices", "groups", "mixtures"):
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 10_000
    assert set(results["arms"]) == set(plan.ARMS) and results["arms"]["languages"]["tasks"] == ["fr", "kk", "ru"]
    cells = {path.name.rsplit("_", 1)[0] for path in (tmp_path / "cells").iterdir()}
    assert {"languages-fr-and-2-0.5-w4", "grammars-A1-and-6-1-w3", "grammars-A1-B1-and-2-1-w4"} & cells
    waves = results["arms"]["waves, not named"]["waves"][1]
    assert waves["floor"] == pytest.approx(sin(0.5)) and waves["error"]["mean"] > 0.9 * waves["floor"]
    assert "mixtures of three and four tasks" in said and "two texts of one language" in said
    assert "equations that are not named" in analysis.answer(results)
    monkeypatch.setattr(training, "trained", None)  # nothing is trained again
    monkeypatch.setattr(study, "draw", lambda *_: None)
    assert plain(study.run(config)["arms"]) == plain(results["arms"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"arms": ("language",)}, "--arms language: expected some of languages"),
        ({"equations": ("Euler",)}, "--equations Euler"),
        ({"text_batch": 20}, "multiple of 12"),
        ({"seeds": (1,)}, "at least two"),
        ({"seeds": (1, 1)}, "that differ"),
    ],
)
def test_wrong_options_are_refused(tmp_path, change, says):
    with pytest.raises(ValueError, match=says):
        study.run(replace(CONFIG, output=tmp_path, **change))
