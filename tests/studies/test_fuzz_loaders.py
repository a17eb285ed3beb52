"""Damaged and hostile models, corpora, tokenizers, images and recordings: loaded, or refused in one line."""

from __future__ import annotations

import pytest

from studies import fuzz_loaders
from studies.fuzz_loaders import worker
from studies.fuzz_loaders.files import KINDS, content_of
from studies.fuzz_loaders.hostile import HOSTILE
from studies.kit.fuzzing.campaign import write_files


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    pytest.importorskip("PIL")
    return fuzz_loaders.sound_files((), tmp_path_factory.mktemp("sound"))


# up to a gigabyte and seconds each, within the budget: the study has them
SLOW = {"many lists", "escaped tensors", "a tiff of one place", "another library's layers"}


@pytest.mark.parametrize("name", [name for name in HOSTILE if name not in SLOW])
def test_hostile_files_hurt_nobody(name, tmp_path):
    if "flac" in name:
        pytest.importorskip("soundfile")
    HOSTILE[name](tmp_path / "file", tmp_path / "mark")
    kind = (tmp_path / "kind").read_text()
    main = next(iter(tmp_path.glob("*.safetensors")), tmp_path / "file") if kind == "run" else tmp_path / "file"
    said = worker.load(main, None)
    assert said["outcome"] == "refused" and said["seconds"] < 10, said
    assert not (tmp_path / "mark").exists()


def test_damaged_files_load_what_was_saved_or_are_refused(sound, tmp_path):
    outcomes = []
    for layout in sound:
        for i in range(4):
            files = fuzz_loaders.damaged_files(sound, layout, 0, i)
            assert layout.endswith("sealed") or files == fuzz_loaders.damaged_files(sound, layout, 0, i)
            folder = tmp_path / f"{layout} {i}"
            write_files(folder, files)
            said = worker.load(folder / sound[layout].main, sound[layout].reader)
            assert said["outcome"] in ("opened", "refused"), (layout, i, said)
            outcomes.append(said["outcome"])
    assert outcomes.count("opened") > len(sound) / 3 and outcomes.count("refused") > len(sound) / 3


def test_every_kind_has_a_sound_file_that_loads_with_its_content(sound, tmp_path):
    assert {name.partition("-")[0] for name in sound} <= set(KINDS) and {"model-sealed", "corpus-sealed"} <= set(sound)
    for layout in ("model", "checkpoint", "corpus", "characters"):
        write_files(tmp_path / layout, sound[layout].files)
        path = tmp_path / layout / sound[layout].main
        assert sound[layout].reader == f"{layout}:{content_of(path, layout)}" and len(sound[layout].reader) > 60
        assert worker.load(path, f"{layout}:other")["outcome"] == "silent"
    with pytest.raises(ValueError, match="--layouts nothing: expected some of image-png"):
        fuzz_loaders.sound_files(("nothing",), tmp_path)


def test_edited_files_have_a_right_digest(sound, tmp_path):
    """Or their loaders would look no further: of 20, some are loaded, and some refused for what they then say."""
    for layout in ("checkpoint-sealed", "corpus-sealed", "model-sealed", "run-sealed"):
        details = []
        for i in range(20):
            folder = tmp_path / f"{layout} {i}"
            write_files(folder, fuzz_loaders.damaged_files(sound, layout, 1, i))
            details.append(worker.load(folder / sound[layout].main, layout.removesuffix("-sealed"))["detail"])
        assert not any("changed since" in text for text in details), details


def test_the_study_loads_in_its_own_processes(sound, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fuzz_loaders, "HOSTILE", {"an idx": HOSTILE["a large idx"]})
    config = fuzz_loaders.Config(files=4, layouts=("checkpoint",), processes=1, seconds=30.0, output=tmp_path / "run")
    results = fuzz_loaders.run(config)
    assert results["files"] == 5 and results["outcomes"]["hostile"] == {"refused": 1}
    assert (tmp_path / "run" / "figures" / "fuzz_loaders.png").stat().st_size > 5000
    assert "fuzz_loaders.png" in capsys.readouterr().out
