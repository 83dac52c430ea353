"""report.html and compare.html: self-contained, with the right numbers and statements, and safe."""

from __future__ import annotations

import base64
import csv
import gzip
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.evolve import evolve
from tests.report.conftest import Reporter
from typer.testing import CliRunner

from svload import api
from svload.analysis import compare_runs
from svload.cli.app import app
from svload.model.traffic import Group, Scenario, Step
from svload.report.data.gather import Gathered, gather
from svload.report.files.write import write_comparison
from svload.report.page.data import LARGEST_BYTES, Anchors, Table, csv_text, packed
from svload.report.page.matrix import shadings
from svload.report.page.view import render_page
from svload.report.wording.numbers import Numbers


class Page(HTMLParser):
    """The page's ids, links and elements, and whether every element is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.ids: Counter[str] = Counter()
        self.hrefs: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.tags: Counter[str] = Counter()
        self.open: list[str] = []
        self.text: list[str] = []
        self.headings: list[int] = []
        self.feed(text)
        self.close()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._seen(tag, attrs)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._seen(tag, attrs)
        if tag not in ("meta", "br", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> does not close what is open"

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)

    def _seen(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        for name, value in attrs:
            self.attributes.append((tag, name, value or ""))
            if name == "id":
                self.ids[value or ""] += 1
            if name == "href":
                self.hrefs.append(value or "")

    @property
    def words(self) -> str:
        return " ".join("".join(self.text).split())


def check_links(page: Page) -> None:
    """Check that every element is closed, every id is unique, and every link leads to one."""
    assert page.open == []
    assert [name for name, count in page.ids.items() if count > 1] == []
    assert page.hrefs and [href for href in page.hrefs if href[:1] != "#" or href[1:] not in page.ids] == []
    labels = {value for _, name, value in page.attributes if name == "aria-labelledby"}
    assert labels - set(page.ids) == set()


def test_it_is_whole_and_needs_no_network_and_no_script_to_be_read(any_run: Any) -> None:
    text, page = any_run.page, Page(any_run.page)
    check_links(page)
    assert not {"src", "srcset", "action", "data", "poster"} & {name for _, name, _ in page.attributes}
    assert page.tags["link"] == page.tags["img"] == page.tags["iframe"] == 0
    assert not re.search(r"@import|url\(", text)
    for _, name, value in page.attributes:
        assert not name.startswith("on") and not value.strip().lower().startswith("javascript:")
    assert len(text.encode()) < LARGEST_BYTES


def test_it_is_built_for_screen_readers(any_run: Any) -> None:
    page = Page(any_run.page)
    assert page.tags["main"] == page.tags["header"] == page.tags["h1"] == 1
    assert page.tags["nav"] == 1 and page.tags["caption"] == page.tags["table"]
    steps = [later - earlier for earlier, later in pairwise(page.headings)]
    assert max(steps) <= 1, page.headings
    labels = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label") and value]
    assert len(labels) == page.tags["svg"]


def test_names_stay_text(reported: Reporter) -> None:
    found = reported("hostile")
    page = Page(found.page)
    typed = [value for tag, name, value in page.attributes if (tag, name) == ("script", "type")]
    assert set(typed) == {"application/json", "application/gzip"}
    assert page.tags["script"] - len(typed) == 1  # only our own one runs
    assert page.tags["b"] == found.page.count("</b>") and "<script>alert(1)</script>" in page.words
    assert "<img src=x" in page.words
    assert "\u202e" not in found.page and "[U+202E]" in page.words


ANSWER, CASES = ("", "The cases at a glance"), ("Each case", "")
"""Parts of the page: from the first text to the second."""
SAID: list[tuple[str, tuple[str, str], tuple[str, ...]]] = [
    # run, part of its page, its text
    ("refused", ANSWER, ("because every trial is broken (REFUSED)", "The factor did not take effect")),
    ("unmeasured", ANSWER, ("because no trial is sealed",)),
    ("mixed", ANSWER, ("Planted faults", "27 of 28 trials are sealed")),
    ("plain", ANSWER, ("18 trials of 600 ms", "load and servers on one machine")),
    ("plain", ANSWER, ("backend (truth", "cache (truth")),
    ("plain", CASES, ("response, from the intended start", "service, from sending", "closed loop: 10 VUs")),
    ("plain", CASES, ("longest silence", "n = 3 trials", "few")),
    ("plain", CASES, ("Every monitored resource: cache", "Every monitored resource: machine")),
    ("plain", CASES, ("busy, cores, hottest core", "pressure some, seconds a second, cpu")),
    ("plain", ("Did not move", ""), ("threads 9",)),
    ("plain", ("", ""), ("SAME HOST", "cost of the monitors", "20000 differs")),
    ("overloaded", ("", ""), ("open loop",)),
]


@pytest.mark.parametrize(("name", "part", "expected"), SAID)
def test_it_says(reported: Reporter, name: str, part: tuple[str, str], expected: tuple[str, ...]) -> None:
    words = Page(reported(name).page).words
    begin = words.index(part[0])
    section = words[begin : words.index(part[1], begin) if part[1] else None]
    assert [one for one in expected if one not in section] == []


def test_of_a_clean_run_it_says_what_was_run_and_nothing_of_faults(reported: Reporter) -> None:
    found = reported("plain")
    page, lock = Page(found.page), found.run.lock()
    first = page.words[: page.words.index(ANSWER[1])]
    assert f"seed {lock.seed}" in first and lock.study_sha256[:12] in first
    assert lock.svload_version in page.words and lock.study_sha256 in page.words
    assert not re.search("Planted faults|Nothing can be concluded|claims nothing|undecidable", page.words)
    places = {case.case for case in found.findings.cases} | {one.trial for one in found.findings.trials}
    assert places <= set(page.ids)


def test_a_refused_case_is_hatched_and_an_excluded_one_empty_with_its_reason(reported: Reporter) -> None:
    page = Page(reported("mixed").page)
    classes = [value for tag, name, value in page.attributes if (tag, name) == ("td", "class")]
    assert any(re.fullmatch(r"q[n\d] refused", value) for value in classes)
    assert "out" in classes and "the study asks for fewer cases" in page.words


def test_a_case_without_the_main_group_names_another(reported: Reporter, monkeypatch: pytest.MonkeyPatch):
    found = gather(reported("plain").run, reported("plain").findings)
    monkeypatch.setattr(type(found), "group", "elsewhere")
    titles = set(re.findall("<h4>(.*?): p50 of each trial", render_page(found)[0]))
    assert titles and titles <= {"background", "probe"}


def test_every_check_of_every_trial_is_there_passed_ones_too(reported: Reporter) -> None:
    found = reported("mixed")
    page = Page(found.page)
    titles = [value for tag, name, value in page.attributes if (tag, name) == ("span", "title")]
    marks = [one for one in titles if re.search(r": (VALID|WEAK|REFUSED|not measured)$", one)]
    checks = [check for trial in found.findings.trials for check in trial.verdict.checks]
    assert len(marks) == len(checks)
    assert all(" ".join(one.sentence.split()) in page.words for one in checks if one.grade != "VALID")


def test_ids_are_unique_stable_and_safe_in_links() -> None:
    names = ["TC7", "answer", "TC7 ", "ü", "", "tc7", "x" * 300, "1", "<b>"]
    first, second = Anchors(["answer"]), Anchors(["answer"])
    ids = [first(name) for name in names]
    assert ids == [second(name) for name in names] and ids[0] == "TC7"
    assert len({one.lower() for one in ids}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_.\-]*", one) for one in ids)


def test_every_cell_says_how_many_trials_count_of_those_that_were_made(reported: Reporter) -> None:
    """TC4.r2 is REFUSED and TC5.r1 was never sealed, of four replicates each."""
    found = reported("mixed")
    begin = found.page.index('<table class="matrix"')
    matrix = found.page[begin : found.page.index("</table>", begin)]
    counts = dict(re.findall(r'data-c="(\w+)".*?n = </span><span class="k">(\d+/\d+)</span>', matrix))
    assert " ".join(counts.values()) == "4/4 0/4 4/4 0/4 4/4 3/3 4/4"


def test_the_matrix_says_which_cases_a_metric_does_not_compare(reported: Reporter) -> None:
    p50 = {one.key: one for one in shadings(Numbers(reported("plain").findings))}["probe.response.p50"]
    assert (p50.choice, p50.note) == (p50.label, "")
    success = {one.key: one for one in shadings(Numbers(reported("mixed").findings))}["probe.success_rate"]
    assert success.choice == "probe: success rate (in 6 of 7 cases)"
    assert "no usable value in 1 of 7 cases: these have no colour, and the colours compare" in success.note
    assert sum(one.shade < 0 for one in success.cells.values()) == success.lacking == 1
    assert success.choice in Page(reported("mixed").page).words


STEPS = ("login", "buy <b>")


def with_steps(found: Gathered) -> Gathered:
    """Turn each background group into a scenario of two steps, whose numbers are the group's own."""

    def stepped(group: Group) -> Group:
        steps = tuple(Step(name=step, request=group.request) for step in STEPS)
        return evolve(group, scenarios=(Scenario(name="shop", steps=steps),))

    configs, cases = {}, []
    for name, config in found.configs.items():
        groups = (stepped(one) if one.name == "background" else one for one in config.groups)
        configs[name] = evolve(config, groups=tuple(groups))
    for case in found.findings.cases:
        group = {key: one for key, one in case.metrics.items() if key.startswith("background.")}
        own = {key.replace(".", f".{step}.", 1): one for step in STEPS for key, one in group.items()}
        cases.append(evolve(case, metrics=case.metrics | own))
    return replace(found, configs=configs, findings=evolve(found.findings, cases=tuple(cases)))


def test_steps_have_a_table_with_their_requests_and_numbers(reported: Reporter) -> None:
    found = reported("plain")
    page, _ = render_page(with_steps(gather(found.run, found.findings)))
    (table,) = re.findall(r'<div class="scroll" id="TC1\.steps".*?</table>', page, re.DOTALL)
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)<small>background</small></th><td>(.*?)</td>", table)
    assert [name for name, _ in rows] == ["login", "buy &lt;b&gt;"]
    assert all(request.startswith("GET, timeout") for _, request in rows)
    median = found.findings.cases[1].metrics["background.response.p50"]
    assert f"{median.value * 1e3:.3g} ms" in table


def unpacked(text: str) -> dict[str, list[dict[str, str]]]:
    """Return the rows by figure that the page's script unpacks from packed numbers."""
    tables = json.loads(gzip.decompress(base64.b64decode(text)))
    return {name: list(csv.DictReader(StringIO(one))) for name, one in tables.items()}


def test_numbers_come_back_and_formulas_stay_text() -> None:
    table = Table(("name", "value"), (("=1+1", 0.1234567), ("plain", None), ("-5", 3)))
    found = unpacked(packed({"a": table, "empty": Table(("x",), ())}))
    rows = [tuple(row.values()) for row in found.pop("a")]
    assert rows == [("'=1+1", "0.12346"), ("plain", ""), ("-5", "3")]
    assert found == {}
    assert packed({}) == ""
    assert packed({"a": table}) == packed({"a": table})
    assert csv_text(Table(("x",), (('a,"b"',),))) == 'x\r\n"a,""b"""\r\n'


@pytest.mark.parametrize("name", ["plain", "hostile"])
def test_every_chart_with_a_button_has_its_numbers(reported: Reporter, name: str) -> None:
    page = reported(name).page
    figures = re.findall(r'<figure id="([^"]+)" data-csv>', page)
    known: dict[str, list[dict[str, str]]] = {}
    for text in re.findall(r'class="data">([^<]+)<', page):
        known |= unpacked(text)
    assert all(known.values())
    assert len(figures) > 5 * len([case for case in reported(name).findings.cases if case.trials])
    assert set(figures) <= set(known)


Compare = Callable[[str, str], Any]


def _words(file: Path) -> str:
    return Page(file.read_text(encoding="utf-8")).words


def test_it_stands_alone_and_its_links_lead_somewhere(compared: Compare) -> None:
    text = compared("plain", "slower").file.read_text(encoding="utf-8")
    page = Page(text)
    check_links(page)
    assert page.tags["link"] == page.tags["img"] == page.tags["iframe"] == 0
    assert page.tags["caption"] == page.tags["table"] and len(text.encode()) < LARGEST_BYTES


def test_a_planted_difference_is_reported_without_an_interval_and_without_a_claim(compared: Compare) -> None:
    """The second run's median is 1.5 times the first's in every case."""
    found = compared("plain", "slower")
    words = _words(found.file)
    slower = r"The median response of probe in the second run: TC\d (4|5)\d(\.\d)? % longer"
    assert re.search(slower, words), words[:2000]
    assert "interval excludes" not in words and "95 %" not in words[: words.index("Case by case") + 200]
    assert "were not interleaved" in words
    assert "no ratio has an interval, and nothing here is a claim" in words
    assert "synthetic-1 (second) against synthetic-1 (first)" in words, "baseline last"
    assert words.count("This run (profile synthetic): ") == 1, "both made the same load: told once"


def test_a_run_against_itself_differs_in_nothing(compared: Compare) -> None:
    words = _words(compared("plain", "plain").file)
    assert re.search(r"The median response of probe in the second run: TC\d 0 %", words), words[:1500]
    assert "no difference" not in words.lower() and "below 0 %" not in words
    assert "Nothing that was recorded differs." in words


def test_every_row_has_both_values_and_its_ratio(compared: Compare) -> None:
    found = compared("plain", "slower")
    text = unescape(found.file.read_text(encoding="utf-8"))
    table = text[text.index('id="table"') : text.index('id="curves"')]
    assert table.count("data-f=") == len(found.rows)
    ratios = {f"{row['ratio']:.3g}" for row in found.rows if row["ratio"] is not None}
    assert ratios and [ratio for ratio in ratios if ratio not in table] == []
    assert "% longer</td>" in table, "in a word or two: the interval stands beside the ratio"
    assert "95 % interval" not in table[table.index("<tbody>") :]


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ("hostile", "Nothing can be compared ?, because the two runs have no case in common.*Only in"),
        ("refused", "REFUSED: it enters no comparison"),
    ],
)
def test_what_is_not_compared_has_its_reason(compared: Compare, second: str, reason: str) -> None:
    assert re.search(reason, _words(compared("plain", second).file))


def test_the_only_cases_of_two_runs_are_shown_whatever_they_are_called(
    reported: Reporter, tmp_path: Path
) -> None:
    run, found, _ = vars(reported("one")).values()
    cases = [evolve(one, case="shop") for one in found.cases if not one.excluded]
    renamed = evolve(
        found, cases=tuple(cases), trials=tuple(evolve(one, case="shop") for one in found.trials)
    )
    file = tmp_path / "compare.html"
    write_comparison((run, found), (run, renamed), compare_runs(found, renamed), file)
    assert "in the second run: TC0 0 %" in _words(file)
    assert "Only in" not in _words(file)


def test_by_default_it_lies_beside_the_second_run_s_report(reported: Reporter) -> None:
    first, second = reported("plain").run, reported("slower").run
    _, page = api.compare(str(first.path), str(second.path))
    assert page == second.derived.resolve() / "compare.html" and page.is_file()


@pytest.mark.parametrize(("second", "code"), [("hostile", 2), ("slower", 0)])
def test_runs_without_a_common_case_are_wrong_usage(
    reported: Reporter, tmp_path: Path, second: str, code: int
) -> None:
    runs = [str(reported(name).run.path) for name in ("plain", second)]
    ended = CliRunner().invoke(app, ["compare", *runs, "--to", str(tmp_path / "compare.html")])
    assert (ended.exit_code, "no case in common" in ended.stdout) == (code, code == 2)
