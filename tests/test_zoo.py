"""The models that come with the package: their cards say what is so, and the hub's form is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import sciops
from sciops import zoo
from sciops.cli import main
from sciops.models import build_model

NAMES = zoo.names()


@pytest.fixture(scope="module")
def output(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("zoo")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_card_is_met_on_test_samples_that_are_made_anew(name: str, output: Path) -> None:
    """Fields by the generator, predictions by the model, errors as the card has them: 1e-3 is for other processors."""
    if name == "digits-multipole":
        pytest.importorskip("sklearn")
    from studies.zoo import TOLERANCE, scored

    row = scored(name, output)
    assert row["difference"] < TOLERANCE, row


def test_the_study_prints_a_row_a_model_and_refuses_a_card_that_is_not_met(tmp_path: Path, capsys, monkeypatch) -> None:
    pytest.importorskip("sklearn")
    from studies import zoo as study
    from studies.zoo import scored

    card = zoo.card("digits-multipole")
    config = study.Config(part="score", models=("digits-multipole",), threads=1, output=tmp_path)
    (row,) = study.run(config)["models"]
    assert row["error"] == row["card"] and "digits-multipole" in capsys.readouterr().out
    assert (tmp_path / "figures" / "zoo.png").exists()
    assert scored("digits-multipole", tmp_path, whole=True) == row | {"error": card.error, "card": card.error}
    monkeypatch.setattr(study.digits, "errors", lambda *given: [1.0] * given[-1])
    assert scored("digits-multipole", tmp_path, whole=True)["difference"] > 1
    with pytest.raises(RuntimeError, match="the card of digits-multipole is not met"):
        study.run(config)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_small_and_its_page_is_that_of_its_card(name: str) -> None:
    folder, card = zoo.folder_of(f"zoo:{name}"), zoo.card(name)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 3e6
    text = (folder / "README.md").read_text()
    assert text == card.text() and card.name == name
    front = dict(line.split(": ", 1) for line in text.split("---\n")[1].strip().splitlines())
    assert json.loads(front["library_name"]) == "sciops"
    (result,) = json.loads(front["model-index"])[0]["results"]
    assert result["metrics"][0]["value"] == pytest.approx(card.error, abs=1e-6)
    assert 0 < card.error <= card.worst and card.limits and len(card.check) >= 4
    model = sciops.load_model(f"zoo:{name}")
    assert sum(2 * p.numel() if p.is_complex() else p.numel() for p in model.parameters()) == card.parameters


def test_what_is_in_the_zoo() -> None:
    from studies import zoo as study

    assert set(NAMES) <= set(study.NAMES) and {"burgers256", "digits-multipole"} <= set(NAMES)
    for name in set(NAMES) & set(study.RECIPES):
        assert len(zoo.card(name).shift) == len(study.RECIPES[name].grids)


def test_the_command_lists_them_and_shows_a_card(capsys) -> None:
    main(["zoo"])
    said = capsys.readouterr().out
    assert all(f"zoo:{name}" in said for name in NAMES) and len(said.splitlines()) == len(NAMES)
    main(["zoo", NAMES[0]])
    assert capsys.readouterr().out.strip() == zoo.card(NAMES[0]).text().strip()
    main(["info", f"zoo:{NAMES[0]}"])
    assert capsys.readouterr().out.strip() == zoo.card(NAMES[0]).text().strip()
    with pytest.raises(SystemExit) as stopped:
        main(["zoo", "darcy86"])
    assert stopped.value.code == 2
    error = capsys.readouterr().err.strip()
    assert error.count("\n") == 0 and "zoo:darcy86: expected one of" in error and NAMES[0] in error


def test_models_go_to_the_form_of_the_hub_and_come_back(tmp_path: Path) -> None:
    model = build_model("fno", in_channels=1, out_channels=1, width=4, depth=1, modes=(2, 2)).eval()
    folder = sciops.save_pretrained(model, tmp_path / "mine", card=zoo.card(NAMES[0]).text())
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors", "README.md"}
    again, x = sciops.from_pretrained(folder), torch.randn(2, 1, 8, 8)
    assert not again.training
    with torch.no_grad():
        assert torch.equal(again(x), model(x))
    sciops.save_pretrained(model, tmp_path / "bare")
    assert "# bare" in (tmp_path / "bare" / "README.md").read_text()


def test_a_repository_in_the_hubs_cache_is_read_and_none_is_fetched(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    model = build_model("fno", in_channels=1, out_channels=1, width=4, depth=1, modes=(2, 2)).eval()
    commit, cache = "0" * 40, tmp_path / "hub" / "models--owner--name"
    sciops.save_pretrained(model, cache / "snapshots" / commit)
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text(commit)
    found = sciops.from_pretrained("owner/name", cache_dir=tmp_path / "hub")
    assert all(torch.equal(a, b) for a, b in zip(found.parameters(), model.parameters()))
    with pytest.raises(FileNotFoundError, match="owner/other: no such folder, and not in the hub's cache; pass local"):
        sciops.from_pretrained("owner/other", cache_dir=tmp_path / "hub")
    with pytest.raises(FileNotFoundError, match="no such folder, and not owner/name"):
        sciops.from_pretrained(tmp_path / "nothing")


def test_a_card_that_was_edited_is_refused(tmp_path: Path) -> None:
    card = replace(zoo.card(NAMES[0]), title="edited | by hand")
    zoo.write_card(tmp_path, card)
    assert zoo.read_card(tmp_path) == card
    record = json.loads((tmp_path / "card.json").read_text())
    del record["limits"]
    (tmp_path / "card.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"card.json is no card of a model: expected the entries .*limits"):
        zoo.read_card(tmp_path)
