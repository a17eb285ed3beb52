"""Pages in a browser: no message on the console, legible on a telephone and a desk, light and dark, by the keyboard."""

from pathlib import Path

import chromium
import numpy as np
import pytest
from PIL import Image
from run_folders import BAD

from sciops.reports import Code, Facts, Figure, Section, Table, write

pytestmark = pytest.mark.skipif(bool(chromium.missing), reason=chromium.missing)

CONTRAST = """
const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const light = (rgb) => { const [r, g, b] = rgb.match(/[0-9.]+/g).map(Number).map(channel);
                         return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const ground = (e) => { const c = getComputedStyle(e).backgroundColor;
                        return c.endsWith(", 0)") && e.parentElement ? ground(e.parentElement) : c; };
const found = {};
for (const query of ["h1", ".answer", ".subtitle", "nav a", "th", "th button", "td", "dt", "figcaption", ".note",
                     ".missing", "pre", "summary", "footer p"]) {
  const e = document.querySelector(query);
  const [a, b] = [light(getComputedStyle(e).color), light(ground(e))];
  found[query] = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}
return found;
"""


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    with chromium.browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    Image.fromarray(np.zeros((200, 900, 3), np.uint8)).save(folder / "wide.png")
    rows = (("fno", "10", "0.07 ± 0.01"), ("mano", "9", "–"), ("a" * 80, "1,200", "−0.5"))
    parts = [
        Table(
            ("model", "n", "error", *(f"column {i}" for i in range(20))), tuple((*r, *["x"] * 20) for r in rows), "T"
        ),
        Code("sciops train " + "--a-long-option value " * 40),
        Facts({"option_" + "x" * 60: "value" * 60, BAD: BAD}),
        Figure(folder / "wide.png", "A wide figure."),
        Figure(folder / "missing.png"),
        "word" * 200,
    ]
    sections = [
        Section("First", parts),
        Section(BAD, [BAD]),
        Section("Folded", [Table(("a",), (("1",),), note="n")], True),
    ]
    return write(folder / "page.html", "Title", "The answer " + "long" * 40, sections, subtitle="Run")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_page_fits_its_window_and_can_be_read(window, page, width, dark):
    window.open(page, width=width, dark=dark)
    window.run("for (const one of document.querySelectorAll('details')) one.open = true;")
    inner, scrolled = window.run("return [innerWidth, document.documentElement.scrollWidth]")
    assert inner == width and scrolled <= width
    box = window.run("const b = document.querySelector('.box'); return [b.scrollWidth > b.clientWidth, b.clientWidth]")
    assert box[0] and box[1] < width  # a wide table scrolls inside its own box
    assert window.run("return [...document.images].map((i) => i.naturalWidth)") == [900]
    contrasts = window.run(CONTRAST)
    assert min(contrasts.values()) >= 4.5, contrasts
    dark_ground = window.run("return getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark_ground is dark
    assert window.messages() == []


def test_tables_sort_by_the_keyboard_and_show_where_it_is(window, page):
    window.open(page)
    column = "return [...document.querySelector('table').tBodies[0].rows].map((r) => r.cells[%d].textContent)"
    state = "return [...document.querySelectorAll('th[aria-sort]')].map((t) => [t.textContent, t.ariaSort])"
    for _ in range(12):
        window.press(chromium.TAB)
        if window.run("return document.activeElement.textContent") == "n":
            break
    assert window.run("return document.activeElement.tagName") == "BUTTON"
    assert window.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    window.press(chromium.ENTER)
    assert window.run(column % 1) == ["9", "10", "1,200"] and window.run(state) == [["n", "ascending"]]
    window.press(chromium.ENTER)
    assert window.run(column % 1) == ["1,200", "10", "9"] and window.run(state) == [["n", "descending"]]
    window.press(chromium.TAB, chromium.ENTER)
    assert window.run(column % 2) == ["−0.5", "0.07 ± 0.01", "–"]
    window.press(chromium.ENTER)
    assert window.run(column % 2) == ["0.07 ± 0.01", "−0.5", "–"]  # what has no number stays last
    assert window.messages() == []


def test_text_of_files_does_nothing(window, page):
    window.open(page)
    assert window.run("return [document.scripts.length, document.images.length]") == [1, 1]
    assert window.run("return document.querySelectorAll('h2')[1].textContent") == BAD
    window.run("const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s)")
    assert window.run("return window.ran === undefined")  # nor would a script that slipped in
    assert any("Content Security Policy" in message for message in window.messages())
