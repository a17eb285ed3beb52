"""The page of a fairness analysis: verdict first, cells suppressed, hypothesis and digest, text never markup."""

from __future__ import annotations

import doctest
import hashlib
import html
import json
import re
from dataclasses import asdict, replace
from html.parser import HTMLParser

import numpy as np
import pytest

from sciops.evaluation.fairness import (
    Hypothesis,
    Observations,
    assess,
    intersectional_cells,
    observations_digest,
    pages,
    report,
    verdict_sentence,
)

pytest.importorskip("statsmodels")
pytest.importorskip("jinja2")

BAD = "<script>alert('x')</script><img src=http://elsewhere.example/a.png onerror=b()> & \"A\""
ASKED = Hypothesis("word error rate", "accent", margin=1.3, declared_before_results=True, draws=200)


def observed(*, speakers: int = 90, levels: tuple[str, str, str] = ("A", "B", "C")) -> Observations:
    """B has three times the errors of A and C; "rare" has three speakers in the cell with B."""
    rng = np.random.default_rng(0)
    accent = np.arange(speakers) % 3
    rare = (np.arange(speakers) % 7 == 0) | (accent == 0)
    rates = 0.15 * np.where(accent == 1, 3.0, 1.0) * np.exp(0.2 * rng.standard_normal(speakers))
    row = np.arange(speakers).repeat(8)
    parts = {"substitutions": rng.poisson(6 * rates[row]), "deletions": rng.poisson(2 * rates[row])}
    named = {"accent": np.array(levels, dtype=object)[accent], "site": np.where(rare, "one", "two").astype(object)}
    return Observations(
        sum(parts.values()), np.full(len(row), 8), row, {k: v[row] for k, v in named.items()}, parts=parts
    )


class Attributes(HTMLParser):
    """(name, value) of every attribute of every tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += attrs


def texts(page: str) -> list[str]:
    """The text between tags, in order, without style and script."""
    body = re.sub(r"<(style|script)>.*?</\1>", "", page[page.index("<body>") :], flags=re.DOTALL)
    return [html.unescape(one).strip() for one in re.split(r"<[^>]*>", body) if one.strip()]


def test_the_verdict_is_the_first_sentence_and_the_numbers_are_those_of_the_assessment(tmp_path):
    data = observed()
    found = assess(data, ASKED)
    page = report(data, found, tmp_path / "page.html").read_text()
    seen = texts(page)
    assert seen[:3] == ["Fairness analysis", "word error rate by accent", verdict_sentence(found)]
    assert "a gap is supported for B against A (rate ratio" in seen[2] and "C against A" in seen[2]
    for finding in found.findings:
        start = seen.index(finding.second, seen.index("corrected p"))
        low, high = f"{finding.low:.3g}", f"{finding.high:.3g}"
        assert seen[start : start + 5] == [finding.second, finding.first, f"{finding.effect:.3g}", low, high]
    for rate in found.rates:
        assert {f"{rate.pooled:.4g}", f"{rate.macro:.4g}", f"{rate.row_mean:.4g}"} <= set(seen)
        assert {f"{value:.4g}" for value in rate.parts.values()} <= set(seen)
    assert 'class="sorts"' in page and page.count("<script>") == 1


def test_cells_with_few_clusters_are_counted_and_their_rates_suppressed(tmp_path):
    data = observed()
    cells = intersectional_cells(data, ("accent", "site"))
    hidden = [cell for cell in cells.cells if cell.suppressed]
    assert hidden and len(hidden) < len(cells.cells) == 5  # A × two does not occur
    page = report(data, assess(data, ASKED), tmp_path / "page.html").read_text()
    section = page[page.index("Cells of accent") :]
    seen = texts("<body>" + section[section.index("<section") if section.startswith("<section") else 0 :])
    assert seen.count("suppressed") == 5 * len(hidden)
    assert any(
        f"{len(hidden)} of 5 cells have fewer than 10 clusters" in one and "1 of 6 combinations" in one for one in seen
    )
    own = {f"{cell.pooled:.4g}" for cell in hidden} - {f"{c.pooled:.4g}" for c in cells.cells if not c.suppressed}
    assert own and not own & set(seen), "the rate of a suppressed cell is nowhere in the table"
    assert {f"{cell.shrunken:.4g}" for cell in cells.cells} <= set(seen)
    without = report(data, assess(data, ASKED), tmp_path / "none.html", cells=()).read_text()
    assert "suppressed" not in without


def test_the_hypothesis_stands_there_with_its_digest(tmp_path):
    data = observed()
    page = report(data, assess(data, ASKED), tmp_path / "page.html").read_text()
    assert ASKED.to_json() in html.unescape(page) and ASKED.digest() in page and observations_digest(data) in page
    canonical = json.dumps(asdict(ASKED), sort_keys=True, separators=(",", ":"))
    assert ASKED.digest() == hashlib.sha256(canonical.encode()).hexdigest()
    assert Hypothesis.from_json(ASKED.to_json()).digest() == ASKED.digest()
    changed = [replace(ASKED, margin=1.31), replace(ASKED, seed=1), replace(ASKED, declared_before_results=False)]
    assert len({ASKED.digest(), *(one.digest() for one in changed)}) == 4


def test_the_digest_of_the_observations_covers_all_of_them():
    data = observed(speakers=9)
    site = data.factors["site"].copy()
    site[data.cluster == data.cluster[0]] = "three"
    others = [
        replace(data, exposure=data.exposure * 2),
        replace(data, factors=dict(data.factors, site=site)),
        replace(data, covariates={"snr": np.arange(len(data))}),
        replace(data, cluster=np.array([f"s{one}" for one in data.cluster])),
    ]
    assert len({observations_digest(one) for one in [data, *others]}) == 5
    assert observations_digest(data) == observations_digest(replace(data))


def test_names_are_text_and_nothing_is_read_from_elsewhere(tmp_path):
    data = observed(levels=(BAD, "B", "C"))
    data = replace(data, factors={f"accent {BAD}": data.factors["accent"], "site": data.factors["site"]})
    asked = replace(ASKED, metric=BAD, factor=f"accent {BAD}", exclusions=(BAD,), conditioning=("site",))
    page = report(data, assess(data, asked), tmp_path / "page.html", title=BAD).read_text()
    assert page.count("<script>") == 1 and "<img" not in page and sum(BAD in one for one in texts(page)) > 5
    attributes = Attributes(page).found
    assert not [name for name, _ in attributes if name.startswith("on")]
    links = [value for name, value in attributes if name in ("href", "src", "action", "data")]
    assert links and all(link.startswith(("#", "data:")) for link in links)
    assert "default-src 'none'" in page


def test_limits_are_said(tmp_path):
    data = observed(speakers=24)
    asked = replace(ASKED, margin=None, declared_before_results=False, not_conditioned=("site",), exclusions=("noise",))
    seen = " ".join(texts(report(data, assess(data, asked), tmp_path / "page.html").read_text()))
    for said in (
        "24 clusters in all: below 30 intervals of the bootstrap over clusters are too short",
        "Groups with fewer than 10 clusters: A (8), B (8), C (8)",
        "not declared before the results, so this is exploration",
        "No margin was declared",
        "Not adjusted for site",
        "Left out: noise",
        "Not conditioned on anything",
    ):
        assert said in seen, said


def test_several_hypotheses_are_numbered(tmp_path):
    data = observed()
    both = [assess(data, ASKED), assess(data, replace(ASKED, conditioning=("site",)))]
    seen = texts(report(data, both, tmp_path / "page.html", title="Both").read_text())
    assert seen[2] == f"{verdict_sentence(both[0])} {verdict_sentence(both[1])}" and "given site" in seen[2]
    assert "Verdicts (hypothesis 1)" in seen and "Rate and composition (hypothesis 2)" in seen
    assert "Rate and composition (hypothesis 1)" not in seen


def test_one_cluster_a_cell_is_said_and_wrong_input_refused(tmp_path):
    data = observed(speakers=30)
    alone = replace(data, factors=dict(data.factors, speaker=data.cluster))
    seen = " ".join(texts(report(alone, assess(alone, ASKED), tmp_path / "page.html").read_text()))
    assert "Not estimated: every cell holds one cluster" in seen
    found = assess(data, ASKED)
    for call, message in (
        (lambda: report(data, [], tmp_path / "a.html"), "assessments: none given"),
        (lambda: report(observed(), found, tmp_path / "a.html"), "pass the observations that were assessed"),
        (lambda: report(data, found, tmp_path / "a.html", cells=("age",)), "factor 'age' is unknown"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert not (tmp_path / "a.html").exists()


def test_examples():
    assert doctest.testmod(pages).failed == 0
