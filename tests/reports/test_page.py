"""The page: text never becomes markup, tables sort by what they show, figures are embedded or named."""

import base64
import doctest
import hashlib
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image
from run_folders import BAD

from sciops.plotting import figure
from sciops.reports import Code, Facts, Figure, Section, Table, page, table_of, tables, write
from sciops.reports.images import LARGEST_AS_IT_IS, WIDEST
from sciops.reports.page import MOST_COLUMNS, MOST_ROWS
from sciops.reports.tables import sort_key


class Reader(HTMLParser):
    """Tags with their attributes, and the text outside style and script."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self._skip = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._skip = tag if tag in ("style", "script") else self._skip

    def handle_endtag(self, tag):
        self._skip = "" if tag == self._skip else self._skip

    def handle_data(self, data):
        if not self._skip and data.strip():
            self.texts.append(data.strip())


def test_the_answer_comes_first_and_nothing_is_read_from_elsewhere():
    seen = Reader(page("Title", "The answer.", [Section("One", ["text"])], subtitle="Kind"))
    assert seen.texts[:4] == ["Title", "Kind", "Title", "The answer."]
    assert not [tag for tag, has in seen.tags if has.get("src", "data:")[:5] != "data:" or tag == "iframe"]
    links = [has["href"] for tag, has in seen.tags if "href" in has]
    assert all(link.startswith(("#", "data:")) for link in links)


def test_what_comes_from_files_is_text(tmp_path):
    parts = [BAD, Code(BAD, BAD), Facts({BAD: BAD}, BAD), Table((BAD, "n"), ((BAD, "1"), (BAD, "2")), BAD, BAD)]
    with figure(tmp_path / "a.png", caption=BAD) as (_, axes):
        axes[0, 0].plot([1, 2])
    parts += [Figure(tmp_path / "a.png"), Figure(tmp_path / "a.png", BAD, BAD), Figure(tmp_path / BAD.replace("/", ""))]
    seen = Reader(page(BAD, BAD, [Section(BAD, parts), Section(BAD, (), folded=True), Section(BAD)], subtitle=BAD))
    assert [tag for tag, _ in seen.tags].count("script") == 1
    assert len([has for tag, has in seen.tags if tag == "img"]) == 2
    assert not [name for _, has in seen.tags for name in has if name.startswith("on")]
    assert sum(BAD in text for text in seen.texts) >= 13
    assert all(has["alt"] == BAD for tag, has in seen.tags if tag == "img")


def test_only_the_script_of_the_page_may_run():
    text = page("t", "a", [])
    script = re.search(r"<script>(.*)</script>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text


def test_cells_sort_by_their_first_number():
    cells = ["0.071 ± 0.002", "1,234", "−3", "+3.6 [+0.9, +6.3]", "1.2e-03", "< 5", "93 %", "–", "", "fno", "3×3"]
    assert [sort_key(cell) for cell in cells] == [0.071, 1234, -3, 3.6, 0.0012, 5, 93, None, None, None, 3]
    rows = (("fno", "2", "–"), ("mano", "10", "0.5"))
    seen = Reader(page("t", "a", [Section("s", [Table(("model", "n", "error"), rows)])]))
    keys = [(has.get("class"), has.get("data-key")) for tag, has in seen.tags if tag == "td"]
    assert keys == [
        (None, None),
        ("number", "2.0"),
        ("number", None),
        (None, None),
        ("number", "10.0"),
        ("number", "0.5"),
    ]


def test_large_tables_are_cut_and_say_so():
    rows = tuple(tuple(str(i) for _ in range(MOST_COLUMNS + 3)) for i in range(MOST_ROWS + 50))
    text = page("t", "a", [Section("s", [Table(tuple(f"c{i}" for i in range(MOST_COLUMNS + 3)), rows, note="Note.")])])
    assert f"Note. The first {MOST_ROWS} of {len(rows)} rows. The first {MOST_COLUMNS} of {MOST_COLUMNS + 3}" in text
    assert text.count("<tr>") == MOST_ROWS + 1
    assert page("t", "a", [Section("s", [Code("x" * 100_000 + "\n" + "y\n" * 50_000)])]).count("… cut here") == 1


def test_a_figure_carries_its_caption_and_large_ones_are_reduced(tmp_path):
    with figure(tmp_path / "error_by_grid.png", caption="Error by grid.") as (_, axes):
        axes[0, 0].plot([1, 2])
    (tmp_path / "plain-name.png").write_bytes(_png(np.zeros((30, 90, 3), np.uint8)))
    noise = np.random.default_rng(0).integers(0, 255, (100, 1700, 3), dtype=np.uint8)
    (tmp_path / "large.png").write_bytes(_png(noise))
    assert (tmp_path / "large.png").stat().st_size > LARGEST_AS_IT_IS
    names = ("error_by_grid", "plain-name", "large")
    text = page("t", "a", [Section("s", [Figure(tmp_path / f"{name}.png") for name in names])])
    seen = Reader(text)
    images = [has for tag, has in seen.tags if tag == "img"]
    assert [has["alt"] for has in images] == ["Error by grid.", "Plain name", "Large"]
    found = [base64.b64decode(has["src"].partition(",")[2]) for has in images]
    assert found[0] == (tmp_path / "error_by_grid.png").read_bytes()
    assert Image.open(io.BytesIO(found[2])).size == (WIDEST, 94) == (int(images[2]["width"]), int(images[2]["height"]))
    assert "reduced from 1700×100 pixels" in text
    assert f"3 figures, {sum(map(len, found)) / 1e3:,.0f} kB" in text


@pytest.mark.parametrize("content", [None, b"", b"no picture", b"<svg onload='alert(1)'/>", "cut", "bomb"])
def test_what_is_no_picture_is_named_in_its_place(tmp_path, content):
    path = tmp_path / "figure.png"
    whole = _png(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8))
    if content == "bomb":
        content = _png(np.zeros((1, 1, 3), np.uint8)).replace(b"\0\0\0\1\0\0\0\1", b"\0\2\0\0\0\2\0\0")
    if content is not None:
        path.write_bytes(whole[: len(whole) // 2] if content == "cut" else content)
    seen = Reader(page("t", "a", [Section("s", [Figure(path, "caption")])]))
    assert not [tag for tag, _ in seen.tags if tag == "img"]
    assert [text for text in seen.texts if text.startswith("Figure not shown: ") and "figure.png" in text]


def test_a_page_appears_when_whole_and_takes_any_text(tmp_path):
    path = write(tmp_path / "new" / "page.html", "t", "a \ud800 \x1b[2J", [Section("s", ["→ ‖u‖"])])
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>") and text.endswith("</html>") and "→ ‖u‖" in text and "\x1b" not in text


def test_examples_of_the_docstrings():
    assert doctest.testmod(tables).failed == 0
    assert table_of([], "a; b").lines() == ["a  b"]


def _png(pixels):
    target = io.BytesIO()
    Image.fromarray(pixels).save(target, "PNG")
    return target.getvalue()
