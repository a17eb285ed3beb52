"""Reports of folders: trainings, studies, reports in Markdown, runs that have not finished, and what is no run."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from run_folders import BAD, training
from test_page import Reader

from sciops import cli
from sciops.plotting import figure
from sciops.reports import Facts, Figure, Table, read_run, report
from sciops.reports.markdown import read_markdown
from sciops.reports.records import tables_in
from sciops.reports.report import contents
from studies.kit.study import finished, opened
from studies.kit.tables import print_table


@dataclass(frozen=True)
class Config:
    note: str = BAD
    output: Path = Path("runs/none")


def _study(folder, *, results, answer="", show=lambda results: None, draw=lambda results, path: None, **how):
    finished(opened(Config(output=folder), seeds=[3]), results, draw, show, answer=lambda _: answer, **how)
    return folder


def _page(folder):
    path = report(folder)
    assert path == folder / "report.html"
    return Reader(path.read_text(encoding="utf-8"))


def test_a_training_says_its_error_and_how_to_repeat_it(tmp_path):
    folder = training(tmp_path / "run", (0.1, 0.2, 0.3), model="fno", seed=7, options=(BAD,))
    seen = _page(folder)
    said = "fno reaches a relative L2 error of 0.2 ± 0.058 on 3 test samples at 17×17 points (1 epoch, 1.5 s"
    assert seen.texts[3].startswith(said)
    environment = json.loads((folder / "environment.json").read_text())
    for text in (*environment["data"].values(), "torch: 2.99.0", "Papers to cite", "Configuration"):
        assert any(text in one for one in seen.texts), text
    assert any("Fourier Neural Operator for Parametric" in one for one in seen.texts)
    assert any(one == BAD for one in seen.texts)
    captions = [has["alt"] for tag, has in seen.tags if tag == "img"]
    assert captions == ["Learning curve"]
    assert report(folder, tmp_path / "other.html").read_text() == (folder / "report.html").read_text()


def test_a_run_that_was_stopped_says_how_far_it_came(tmp_path):
    title, answer, sections = contents(read_run(training(tmp_path / "run", finished=False, epochs=20)))
    assert answer == (
        "run has no results yet: it was stopped or is running after epoch 1 of 20; the same command resumes it."
    )
    assert [section.title for section in sections][0] == "Epochs"


def test_a_folder_of_fit_has_a_page_of_its_epochs(tmp_path):
    (tmp_path / "log.jsonl").write_text(
        '{"epoch": 1, "loss": 0.5}\n{"epoch": 2, "loss": 0.25, "validation": 0.125}\n{"ep'
    )
    _, answer, sections = contents(read_run(tmp_path))
    assert answer == f"{tmp_path.name} holds a training of fit, epoch 2, loss 0.25, validation 0.125."
    assert sections[0].parts[0].rows == (("1", "0.5", "–"), ("2", "0.25", "0.125"))


def test_a_study_gives_its_answer_its_tables_and_its_figures(tmp_path):
    def show(results):
        print_table(results["rows"], "arm; error:.2f", title="By arm")
        print("and a line")

    def draw(results, path):
        with figure(path, caption="What is drawn.") as (_, axes):
            axes[0, 0].plot([1, 2])

    rows = [{"arm": BAD, "error": 0.5}, {"arm": "mano", "error": 0.25}]
    folder = _study(tmp_path, results={"rows": rows}, answer="mano wins.", show=show, draw=draw, picture="one.png")
    _, answer, sections = contents(read_run(folder))
    shown = next(section.parts for section in sections if section.title == "Results")
    assert answer == "mano wins." and shown[0] == Table(("arm", "error"), ((BAD, "0.50"), ("mano", "0.25")), "By arm")
    assert shown[1].text == "and a line\n"
    seen = _page(folder)
    assert seen.texts[3] == "mano wins." and [has["alt"] for tag, has in seen.tags if tag == "img"] == [
        "What is drawn."
    ]
    assert [tag for tag, _ in seen.tags].count("script") == 1
    (folder / "figures" / "one.png").unlink()
    assert any(text.startswith("Figure not shown: ") and "one.png" in text for text in _page(folder).texts)


def test_a_study_without_an_answer_says_what_it_asked_or_which_targets_are_met(tmp_path):
    _, answer, _ = contents(read_run(_study(tmp_path / "a", results={"error": 0.5})))
    asked = __doc__.splitlines()[0].rstrip(".")
    assert answer == f"This study asks: {asked}. It states no answer of its own; its numbers are below."
    rows = [{"what": "fast", "met": True}, {"what": "small", "met": False}]
    claims = [{"claim": "better", "seen": True}, {"claim": "other", "seen": None}]
    said = {
        "1 of 2 targets are met; not met: small.": {"targets": rows, "faults": []},
        "1 of 1 claims are seen.": {"claims": claims},
        "No faults: all is as it should be.": {"faults": [], "targets": []},
        "1 findings: one.": {"findings": ["one"]},
    }
    for number, (answer, results) in enumerate(said.items()):
        assert contents(read_run(_study(tmp_path / str(number), results=results)))[1] == answer


def test_a_report_in_markdown_opens_with_its_answer(tmp_path):
    folder = _study(tmp_path, results={"rows": []})
    text = (
        f"# Demo\n\n**fno** stays at *low*: 3 * 4 {BAD}\n\nMore.\n\n## By grid\n\n| `a` | b |\n|---|---|\n| x | 1 |\n"
    )
    (folder / "report.md").write_text(text + "\n![Errors.](figures/e.png)\n\n![](../../etc/passwd)\n")
    title, answer, sections = contents(read_run(folder))
    assert title == "Demo" and answer == f"fno stays at low: 3 * 4 {BAD}"
    by_grid = next(section for section in sections if section.title == "By grid").parts
    assert by_grid[0] == Table(("a", "b"), (("x", "1"),)) and by_grid[1] == Figure(folder / "figures/e.png", "Errors.")
    assert isinstance(by_grid[2], str)
    assert [tag for tag, _ in _page(folder).tags].count("script") == 1
    assert read_markdown("", folder) == ("", []) and read_markdown("## A\n\n| a |\n|--|", folder)[1][0].title == "A"


def test_tables_of_results_of_any_form():
    spread = {"mean": 0.5, "deviation": 0.1, "low": 0.4, "high": 0.6, "seeds": 2}
    results = {
        "votes": 3,
        "rows": [{"arm": "a", "error": spread, "size": {"x": 1, "y": 2}}, {"arm": "b", "curve": [1] * 20}],
        "by name": {"fno": {"ms": 1.5}, "mano": {"ms": "inf"}},
        "deep": {"er": {"list": [{"n": 1}]}},
        "empty": {},
        "nothing": [],
    }
    found = tables_in(results)
    assert found[0] == Facts({"votes": 3, "nothing": []}, "Numbers")
    assert found[1].columns == ("arm", "error", "size: x", "size: y", "curve")
    assert found[1].rows[0] == ("a", "0.5 ± 0.1", "1", "2", "–") and found[1].rows[1][4] == "20 values, 1 … 1"
    assert found[2].rows == (("fno", "1.5"), ("mano", "inf"))
    assert (found[3].title, found[3].rows) == ("deep, er, list", (("1",),)) and len(found) == 4
    assert tables_in("text") == [] and tables_in([{"a": None}])[0].rows == (("–",),)


@pytest.mark.parametrize("content", ["", "{", "[" * 5000, '{"test": 3', "\0"])
def test_a_damaged_file_is_one_line(tmp_path, content, capsys):
    folder = training(tmp_path / "run")
    (folder / "results.json").write_text(content)
    assert f"{folder / 'results.json'} is damaged (" in _refused(capsys, "report", str(folder))


@pytest.mark.parametrize(
    "results", [{"test": {"17": 3}}, {"test": {"17": {"model": {"relative_l2": BAD}}}}, [1], 3, None]
)
def test_results_of_another_form_still_make_a_page(tmp_path, results):
    folder = training(tmp_path / "run")
    (folder / "results.json").write_text(json.dumps(results))
    (folder / "environment.json").write_text(json.dumps({"command": 3, "data": [1], "config_class": None}))
    (folder / "config.json").write_text(json.dumps({BAD: {"a": [BAD] * 40, "b": None}}))
    (folder / "report.json").write_text(
        json.dumps({"blocks": [{"rows": [[1], 2], "columns": ["a", "b"]}, 7], "figures": 3})
    )
    assert [tag for tag, _ in _page(folder).tags].count("script") == 1


def test_what_is_no_run_is_refused_in_one_line(tmp_path, capsys):
    folder = training(tmp_path / "runs" / "one")
    assert "no such folder" in _refused(capsys, "report", str(tmp_path / "missing"))
    assert "is a file" in _refused(capsys, "report", str(folder / "config.json"))
    assert f"{folder} inside it is one" in _refused(capsys, "report", str(folder.parent))
    assert "folder" in _refused(capsys, "report", str(folder), "--output", str(tmp_path))
    assert "--outptu" in _refused(capsys, "report", str(folder), "--outptu", "x")
    shutil.copy(folder / "config.json", tmp_path / "config.json")
    assert "is not the folder of a run" in _refused(capsys, "report", str(tmp_path))
    cli.main(["report", str(folder), "--output", str(tmp_path / "page.html")])
    assert f"wrote {tmp_path / 'page.html'} (" in capsys.readouterr().out


def _refused(capsys, *words):
    with pytest.raises(SystemExit) as stop:
        cli.main(list(words))
    text = capsys.readouterr().err.strip()
    assert stop.value.code == 2 and text.startswith("error: ") and "\n" not in text, text
    return text
