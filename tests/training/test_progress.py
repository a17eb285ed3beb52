"""What a training shows: lines in a log file, a bar on a terminal, nothing without progress."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest
from test_resume import QUIET, data, network

from sciops.training import fit
from sciops.training.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_file_gets_lines_and_no_bar(capsys):
    run = fit(network(), data(), replace(QUIET, progress=True, epochs=2))
    said = capsys.readouterr().err
    lines = said.splitlines()
    assert "\r" not in said and len(lines) == 2
    for line, record in zip(lines, run.history):
        assert line.startswith(f"epoch {record['epoch']}/2  loss {record['loss']:.4g}  validation ")
        assert f"{record['validation']:.4g}  {record['seconds']:.1f} s" in line


def test_without_progress_nothing_is_said(capsys):
    fit(network(), data(), replace(QUIET, epochs=1))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("apart", "expected"), [(0.5, [1, 2, 3, 4, 5]), (1.5, [1, 3, 5]), (100.0, [1, 5])])
def test_epochs_that_follow_fast_share_a_line(apart, expected, capsys, monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    monkeypatch.setattr("sciops.training.progress._APART", apart)
    with Progress(0, 5, shown=True) as progress:
        for epoch in range(1, 6):
            progress.show({"epoch": epoch, "loss": 1.0, "seconds": 0.1}, last=epoch == 5)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"epoch {epoch}/5  loss 1  0.1 s" for epoch in expected]


def test_a_terminal_gets_a_bar(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress(1, 3, shown=True) as progress:
        progress.say("started from runs/a")
        progress.show({"epoch": 2, "loss": 0.25, "seconds": 0.1}, last=False)
    said = terminal.getvalue()
    assert "started from runs/a\n" in said and "2/3" in said and "epoch 2/3" not in said and "loss=0.25" in said
