"""report.html: one file that stands alone, says what it may, and is safe whatever names a study carries."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

from tests.evolve import evolve

from svload.model.results import Estimate
from svload.report.data.gather import gather
from svload.report.page.anchors import Anchors
from svload.report.page.detail import LARGEST_BYTES
from svload.report.page.matrix import shadings
from svload.report.page.render import render_page
from svload.report.told.numbers import Told

Reporter = Callable[[str], Any]


class Page(HTMLParser):
    """The page as a tree of facts: ids, links, elements, and whether every element is closed where it should be."""

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


def test_it_is_whole_and_its_links_lead_somewhere(any_run: Any) -> None:
    page = Page(any_run.page)
    assert page.open == []
    assert [name for name, count in page.ids.items() if count > 1] == []
    assert page.hrefs
    for href in page.hrefs:
        assert href.startswith("#")
        assert href[1:] in page.ids, f"{href} leads nowhere"
    for tag, name, value in page.attributes:
        if name == "aria-labelledby":
            assert value in page.ids, f"<{tag} {name}={value}>"


def test_it_needs_no_network_and_no_script_to_be_read(any_run: Any) -> None:
    text = any_run.page
    page = Page(text)
    assert not [
        value for _, name, value in page.attributes if name in ("src", "srcset", "action", "data", "poster")
    ]
    assert page.tags["link"] == page.tags["img"] == page.tags["iframe"] == 0
    assert "@import" not in text
    assert not re.search(r"url\(", text)
    assert not [
        value
        for _, name, value in page.attributes
        if name.startswith("on") or value.strip().lower().startswith("javascript:")
    ]
    assert len(text.encode()) < LARGEST_BYTES


def test_it_is_built_for_screen_readers(any_run: Any) -> None:
    page = Page(any_run.page)
    assert page.tags["main"] == page.tags["header"] == page.tags["h1"] == 1
    assert page.tags["nav"] == 1
    assert page.tags["caption"] == page.tags["table"]
    assert all(
        later - earlier <= 1 for earlier, later in zip(page.headings, page.headings[1:], strict=False)
    ), page.headings
    drawings = [
        name for tag, name, value in page.attributes if tag == "svg" and name == "aria-label" and value
    ]
    assert len(drawings) == page.tags["svg"]


def test_every_case_and_trial_has_a_permanent_place(reported: Reporter) -> None:
    found = reported("plain")
    page = Page(found.page)
    for case in found.findings.cases:
        assert case.case in page.ids
    for trial in found.findings.trials:
        assert trial.trial in page.ids


def test_names_stay_text(reported: Reporter) -> None:
    found = reported("hostile")
    page = Page(found.page)
    typed = [value for tag, name, value in page.attributes if (tag, name) == ("script", "type")]
    assert set(typed) == {"application/json", "application/gzip"}
    assert page.tags["script"] - len(typed) == 1  # our own is the only one that runs
    assert page.tags["b"] == found.page.count("</b>")
    assert "<script>alert(1)</script>" in page.words
    assert "<img src=x" in page.words
    assert "\u202e" not in found.page
    assert "[U+202E]" in page.words


def test_without_valid_evidence_it_says_that_nothing_can_be_concluded_and_why(reported: Reporter) -> None:
    words = Page(reported("refused").page).words
    assert (
        "Nothing can be concluded , because every trial is broken (REFUSED)" in words
        or "Nothing can be concluded, because every trial is broken (REFUSED)" in words
    )
    assert "The factor did not take effect" in words
    nothing_ran = Page(reported("unmeasured").page).words
    assert "because no trial is sealed" in nothing_ran
    assert "Nothing can be concluded" not in Page(reported("plain").page).words


def test_what_is_incomplete_or_planted_stands_on_the_first_page(reported: Reporter) -> None:
    words = Page(reported("mixed").page).words
    first = words[: words.index("The cases at a glance")]
    assert "Planted faults" in first
    assert "27 of 28 trials are sealed" in first
    assert "Planted faults" not in Page(reported("plain").page).words


def test_percentiles_stand_beside_both_clocks_load_model_and_silence(reported: Reporter) -> None:
    words = Page(reported("plain").page).words
    section = words[words.index("Each case") :]
    for needed in (
        "response, from the intended start",
        "service, from sending",
        "closed loop: 10 VUs",
        "longest silence",
        "n = 3 trials",
    ):
        assert needed in section
    assert "open loop" in Page(reported("overloaded").page).words


def test_a_percentile_of_few_requests_is_shown_and_marked(reported: Reporter) -> None:
    found = reported("plain")
    far = [case.metrics["probe.response.p99.9"] for case in found.findings.cases if case.excluded is None]
    assert far and all(one.value is not None and one.weak for one in far)
    assert "few" in Page(found.page).words


def test_a_refused_case_is_hatched_and_an_excluded_one_empty_with_its_reason(reported: Reporter) -> None:
    page = Page(reported("mixed").page)
    classes = {value for tag, name, value in page.attributes if tag == "td" and name == "class"}
    assert any(re.fullmatch(r"q[n\d] refused", value) for value in classes)
    assert "out" in classes
    assert "the study asks for fewer cases" in page.words


def test_every_check_of_every_trial_is_there_passed_ones_too(reported: Reporter) -> None:
    found = reported("mixed")
    page = Page(found.page)
    marks = [
        value
        for tag, name, value in page.attributes
        if tag == "span" and name == "title" and re.search(r": (VALID|WEAK|REFUSED|not measured)$", value)
    ]
    assert len(marks) == sum(len(trial.verdict.checks) for trial in found.findings.trials)
    for trial in found.findings.trials:
        for check in trial.verdict.checks:
            if check.grade != "VALID":
                assert " ".join(check.sentence.split()) in page.words


def test_the_run_s_facts_stand_on_it(reported: Reporter) -> None:
    found = reported("plain")
    words, lock = Page(found.page).words, found.run.lock()
    for needed in (
        str(lock.seed),
        lock.svload_version,
        lock.study_sha256,
        "SAME HOST",
        "cost of the monitors",
        "20000 differs",
    ):
        assert needed in words


def test_ids_are_unique_stable_and_safe_in_links() -> None:
    names = ["TC7", "answer", "TC7 ", "ü", "", "tc7", "x" * 300, "1", "<b>"]
    first, second = Anchors(["answer"]), Anchors(["answer"])
    ids = [first(name) for name in names]
    assert ids == [second(name) for name in names]
    assert ids[0] == "TC7"
    assert len({one.lower() for one in ids}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_.\-]*", one) for one in ids)


def test_the_first_page_says_what_was_run(reported: Reporter) -> None:
    found = reported("plain")
    words, lock = Page(found.page).words, found.run.lock()
    first = words[: words.index("The cases at a glance")]
    for needed in ("18 trials of 600 ms", "load and servers on one machine", "backend (truth", "cache (truth", f"seed {lock.seed}", lock.study_sha256[:12]):  # fmt: skip
        assert needed in first, needed


def test_every_monitored_resource_is_drawn_or_said_not_to_have_moved(reported: Reporter) -> None:
    words = Page(reported("plain").page).words
    section = words[words.index("Each case") :]
    for needed in ("Every monitored resource: cache", "Every monitored resource: machine", "busy, cores, hottest core", "pressure some, seconds a second, cpu"):  # fmt: skip
        assert needed in section, needed
    still = section[section.index("Did not move") :]
    assert "threads 9" in still


def test_outliers_are_named_or_said_to_be_none(reported: Reporter) -> None:
    found = reported("plain")
    page = Page(found.page)
    named = page.words.count("Outliers of this case, and what") + page.words.count(
        "This case has no outliers."
    )
    assert named == len([case for case in found.findings.cases if case.trials])


def test_every_cell_says_how_many_trials_count_of_those_that_were_made(reported: Reporter) -> None:
    """TC4.r2 is REFUSED and TC5.r1 was never sealed, of four replicates each."""
    found = reported("mixed")
    begin = found.page.index('<table class="matrix"')
    matrix = found.page[begin : found.page.index("</table>", begin)]
    cells = dict(re.findall(r'data-c="(\w+)".*?<small class="(n[^"]*)"><span class="sr">n = </span>', matrix))
    counts = dict(re.findall(r'data-c="(\w+)".*?n = </span><span class="k">(\d+/\d+)</span>', matrix))
    assert counts == {
        "TC0": "4/4",
        "TC1": "0/4",
        "TC2": "4/4",
        "TC3": "0/4",
        "TC4": "4/4",
        "TC5": "3/3",
        "TC6": "4/4",
    }
    assert {name for name, css in cells.items() if "few" in css.split()} == {"TC1", "TC3", "TC5"}
    legend = matrix[matrix.index("<caption>") : matrix.index("</caption>")]
    assert "trials used out of those completed" in legend
    assert "fewer were used than the 4 planned" in legend


def test_where_a_percentile_is_missing_the_count_and_once_the_rule_are_told(reported: Reporter) -> None:
    """By the code of the null, whatever its sentence says."""
    found = reported("plain")
    short = Estimate(value=None, why="too few", need=368, n_eff=193.4, reason="what nobody reads")
    cases = tuple(
        evolve(case, metrics={**case.metrics, "probe.response.p99": short}) for case in found.findings.cases
    )
    page, _ = render_page(gather(found.run, evolve(found.findings, cases=cases)))
    section = page[page.index('<section id="overview"') : page.index('<section id="anatomy"')]
    assert section.count(">too few</td>") == len(cases)
    assert section.count("needs this many independent requests in each trial: ") == 1
    assert "368 for p99" in section


def test_the_matrix_says_which_cases_a_metric_does_not_compare(reported: Reporter) -> None:
    p50 = {one.key: one for one in shadings(Told(reported("plain").findings))}["probe.response.p50"]
    assert (p50.choice, p50.note) == (p50.label, "")
    success = {one.key: one for one in shadings(Told(reported("mixed").findings))}["probe.success_rate"]
    assert success.choice == "probe: success rate (in 6 of 7 cases)"
    assert (
        "no number that counts in 1 of 7 cases: those bear no colour, and the colours compare only the others"
        in success.note
    )
    assert sum(one.shade < 0 for one in success.cells.values()) == success.lacking == 1
    assert success.choice in Page(reported("mixed").page).words


def test_thresholds_that_are_kept_alike_are_one_row(reported: Reporter) -> None:
    found = reported("plain")
    (that,) = {one.that for one in found.findings.thresholds}
    assert len(found.findings.thresholds) > 1
    assert found.page.count(f"<td><code>{that.replace('>=', '≥')}</code></td>") == 1


def test_no_page_says_that_a_comparison_claims_nothing(reported: Reporter) -> None:
    words = Page(reported("plain").page).words
    assert "claims nothing" not in words
    assert re.search(r"\b(decided|undecided|no difference)\b", words)
    assert "undecidable" not in words
