"""The run's folder: JSON that survives a round trip, files that are whole or absent, papers cited once."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from sciops.datasets import write_native
from sciops.datasets.conventions import build_dataset
from sciops.grids import Grid
from sciops.runs import CITATIONS, RunFolder, citations_of, environment, file_hash, plain, read_jsonl, write_json


@dataclass(frozen=True)
class _Config:
    grid: Grid
    path: Path
    rate: float
    widths: tuple[int, ...]


def test_plain_turns_every_kind_into_json_that_reads_back_equal():
    config = _Config(Grid((5, 7)), Path("a/b"), np.float32(0.1), (1, np.int64(2)))
    value = {
        "config": config,
        "scalars": [np.float64(1 / 3), np.bool_(True), torch.tensor(2.5), None, "text"],
        "array": np.arange(4.0).reshape(2, 2),
        "dtype": torch.float64,
        3: {"b", "a"},
    }
    back = json.loads(json.dumps(plain(value), allow_nan=False))
    assert Grid.from_dict(back["config"]["grid"]) == config.grid
    assert back["config"]["path"] == "a/b" and back["config"]["widths"] == [1, 2]
    assert back["config"]["rate"] == float(np.float32(0.1))
    assert back["scalars"] == [1 / 3, True, 2.5, None, "text"]
    assert back["array"] == [[0.0, 1.0], [2.0, 3.0]]
    assert back["dtype"] == "torch.float64" and back["3"] == ["a", "b"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan"), torch.tensor(math.inf)])
def test_numbers_that_json_lacks_read_back_through_float(value):
    back = float(json.loads(json.dumps(plain(value), allow_nan=False)))
    assert back == float(value) or (math.isnan(back) and math.isnan(float(value)))


def test_what_has_no_json_form_is_named():
    with pytest.raises(TypeError, match="generator has no JSON form"):
        plain({"x": (i for i in range(3))})


def test_a_failing_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = write_json(tmp_path / "results.json", {"value": 1})
    with pytest.raises(TypeError):
        write_json(path, {"value": object()})
    assert json.loads(path.read_text()) == {"value": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]


def test_a_file_replaced_again_and_again_is_whole_when_the_writer_is_killed(tmp_path):
    script = """
        import sys
        from sciops.files.json_files import write_json
        write_json(sys.argv[1], {"n": 0, "fill": [0] * 20000})
        print("ready", flush=True)
        n = 0
        while True:
            n += 1
            write_json(sys.argv[1], {"n": n, "fill": [n] * 20000})
    """
    path = tmp_path / "results.json"
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        for _ in range(20):
            record = json.loads(path.read_text())
            assert record["fill"] == [record["n"]] * 20000
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    record = json.loads(path.read_text())
    assert record["fill"] == [record["n"]] * 20000


def test_the_log_keeps_its_records_and_drops_an_unfinished_last_line(tmp_path):
    folder = RunFolder(tmp_path / "run")
    assert folder.read_log() == []
    records = [{"epoch": i, "loss": 0.1 * i} for i in range(3)]
    for record in records:
        folder.log(record)
    with open(folder.path / "log.jsonl", "a") as file:
        file.write('{"epoch": 3, "lo')
    assert folder.read_log() == records
    with open(folder.path / "log.jsonl", "w") as file:
        file.write('{"broken\n{"epoch": 1}\n')
    with pytest.raises(json.JSONDecodeError):
        read_jsonl(folder.path / "log.jsonl")


def test_two_generations_of_one_configuration_have_one_hash(tmp_path):
    grid, values = Grid((4, 5)), np.arange(40.0).reshape(2, 4, 5)
    for name, created, changed in (("one", "2001", 0), ("two", "2002", 0), ("other", "2001", 1)):
        fields = {key: (("sample", "x", "y"), values + changed, {}) for key in "au"}
        dataset = build_dataset(fields, grid, layout="native", equation="darcy")
        (tmp_path / name).mkdir()
        write_native(tmp_path / name / "data.h5", dataset, attrs={"created": created})
    assert (tmp_path / "one" / "data.h5").read_bytes() != (tmp_path / "two" / "data.h5").read_bytes()
    for inside in ("", "data.h5"):
        one, two, other = (file_hash(tmp_path / name / inside) for name in ("one", "two", "other"))
        assert one == two != other
    folder = RunFolder(tmp_path / "run")
    folder.describe({}, data=tmp_path / "two" / "data.h5")
    assert list(json.loads((folder.path / "environment.json").read_text())["data"].values()) == [two]


def test_describe_records_config_versions_data_and_seeds(tmp_path):
    data = tmp_path / "data.bin"
    data.write_bytes(b"fields" * 1000)
    folder = RunFolder(tmp_path / "run")
    folder.describe(_Config(Grid((4, 4)), data, 0.5, (3,)), data=data, seeds=[1, 2], methods=["fno", "adamw"])
    config = json.loads((folder.path / "config.json").read_text())
    record = json.loads((folder.path / "environment.json").read_text())
    assert config["rate"] == 0.5 and Grid.from_dict(config["grid"]) == Grid((4, 4))
    assert record["data"] == {str(data): hashlib.sha256(b"fields" * 1000).hexdigest()}
    assert record["seeds"] == [1, 2]
    assert record["versions"]["torch"] == torch.__version__.split("+")[0] or torch.__version__ in str(
        record["versions"]
    )
    assert record["threads"] == torch.get_num_threads()
    assert "2010.08895" in (folder.path / "citations.bib").read_text()


def test_environment_names_the_commit_of_a_checkout_or_nothing():
    git = environment()["git"]
    assert git is None or re.fullmatch(r"[0-9a-f]{40}", git["commit"])


def test_the_hash_of_a_folder_depends_on_names_and_bytes_alone(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "sub" / "a.txt").write_text("a")
        (tmp_path / name / "b.txt").write_text("b")
    assert file_hash(tmp_path / "one") == file_hash(tmp_path / "two")
    (tmp_path / "two" / "b.txt").rename(tmp_path / "two" / "c.txt")
    assert file_hash(tmp_path / "one") != file_hash(tmp_path / "two")
    with pytest.raises(FileNotFoundError, match="no such file"):
        file_hash(tmp_path / "three")


def test_papers_are_cited_once_and_unknown_methods_are_named(tmp_path):
    folder = RunFolder(tmp_path)
    folder.cite("fno", "hybrid")
    text = folder.cite("mano", "neuralop:FNO").read_text()
    keys = re.findall(r"@\w+\{(\w+),", text)
    assert keys == ["li2020fourier", "colagrande2025linear", "kossaifi2024library"]
    with pytest.raises(ValueError, match="no citation for 'magic'"):
        folder.cite("magic")


def test_every_entry_is_balanced_bibtex_with_title_author_and_year():
    for text in CITATIONS.values():
        for entry in filter(None, text.split("\n\n")):
            assert entry.count("{") == entry.count("}")
            assert re.match(r"@(misc|article|inproceedings)\{\w+,\n", entry)
            for name in ("title", "author", "year"):
                assert re.search(rf"^  {name} = \{{.+\}},$", entry, re.M)
    assert citations_of() == ""


def test_a_file_in_the_way_of_the_folder_is_named(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(FileExistsError, match="is a file"):
        RunFolder(tmp_path / "run")
