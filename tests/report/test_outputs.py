"""Output files: strict parsers read them, no link is followed, and the number of cores changes no byte."""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable
from html import unescape
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from jsonschema import Draft202012Validator
from markdown_it import MarkdownIt
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from syrupy.assertion import SnapshotAssertion
from tests.evolve import evolve
from tests.report.conftest import Reporter
from tests.support import make_run

from svload import api
from svload.host.process import forks
from svload.model.capacity import CapacityGate, CapacityResult
from svload.model.events import Event
from svload.model.outputs import output, write_output
from svload.model.pairs import Gate
from svload.model.results import Estimate, Outage, ThresholdResult
from svload.report.figures.write import write_figures
from svload.report.files.junit import junit_xml
from svload.report.files.markdown import plain, summary_markdown
from svload.report.files.openmetrics import _labels, openmetrics
from svload.report.files.write import write_all
from svload.report.wording.answer import headline
from svload.store import Journal, RunDir
from svload.store.sql import export_views

STEP_BYTES_MAX = 1 << 20  # GitHub's limit for a step


def rendered(text: str) -> str:
    return MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(text)


@pytest.mark.parametrize("name", ["plain", "mixed", "refused", "one", "hostile", "overloaded", "unmeasured"])
def test_a_summary(reported: Reporter, snapshot: SnapshotAssertion, name: str) -> None:
    """It is written beside the report, and small. Its first character agrees with the exit code; every case
    that ran has its row."""
    found = reported(name)
    text = summary_markdown(found.findings)
    assert found.files["summary.md"].read_text(encoding="utf-8") == text
    assert 0 < len(text.encode()) < STEP_BYTES_MAX / 10
    assert plain(headline(found.findings)) in text
    if name in ("plain", "mixed", "refused", "unmeasured"):
        assert text == snapshot


def test_names_show_their_own_characters_and_nothing_else(reported: Reporter) -> None:
    text = summary_markdown(reported("hostile").findings)
    page = rendered(text)
    assert "<img" not in page and "<b>" not in page
    assert "\u202e" not in text
    assert page.count("<details>") == page.count("</details>") <= 1


@pytest.mark.parametrize(
    "text",
    ["a|b", "*a*", "_a_ b_c", "[x](http://x)", "`code`", "<script>", "![x](y)", "~~a~~", "1. a", "- a", "> a", "# a", "&amp;", "\\*", "2.1 ms [2.0, 2.3]"],
)  # fmt: skip
def test_plain_text_survives_the_renderer(text: str) -> None:
    page = rendered(f"| a | b |\n| --- | --- |\n| {plain(text)} | x |\n\n{plain(text)}\n")
    cell = unescape(page.split("<td>")[1].split("</td>")[0])
    paragraph = unescape(page.split("<p>")[1].split("</p>")[0])
    assert cell == paragraph == text


@pytest.mark.parametrize("text", ["@org/team", "a @b-c", "#12", "org/repo#12"])
def test_a_name_mentions_nobody_in_a_pull_request(text: str) -> None:
    page = unescape(rendered(plain(text)))
    assert not re.search(r"(?<!\w)@\w|#\d", page)
    assert page.replace("\u200b", "") == f"<p>{text}</p>\n"


@pytest.mark.parametrize("name", ["plain", "mixed", "refused", "hostile", "one", "unmeasured"])
def test_a_case_for_every_threshold_and_trial(reported: Reporter, name: str) -> None:
    found = reported(name)
    root = ElementTree.fromstring(found.files["junit.xml"].read_text(encoding="utf-8"))
    thresholds, trials = root
    named = [case for case in thresholds if case.get("classname") != "comparisons"]
    for case, one in zip(named, found.findings.thresholds, strict=True):
        assert (case.get("classname"), case.get("name")) == (one.case, one.that)
        if one.outcome in ("passed", "failed", "refused"):
            kinds = {"passed": [], "failed": ["failure"], "refused": ["error"]}[one.outcome]
            assert [child.tag for child in case] == kinds, "never a pass on a REFUSED case"
    sealed = {case.get("name"): case for case in trials}
    for trial in found.findings.trials:
        case = sealed[trial.trial]
        assert (case.find("error") is not None) == (trial.verdict.instrument == "REFUSED")
        if trial.verdict.instrument == "WEAK":
            assert trial.verdict.reasons[0] in case.findtext("system-out")
    for suite in root:
        for count, tag in (("tests", ""), ("errors", "/error"), ("failures", "/failure")):
            assert int(suite.get(count, "")) == len(suite.findall(f"testcase{tag}"))


@pytest.mark.parametrize("searched", [False, True])
def test_a_refused_trial_whose_server_disappeared_has_one_outcome(reported: Reporter, searched: bool) -> None:
    """A search may break the server: then, as for the exit code, that alone is no failure."""
    found = reported("refused").findings
    first = next(one for one in found.trials if one.verdict.instrument == "REFUSED")
    gone = Outage(group="probe", since_s=1.0, until_s=None, error="connect_refused", failed=9, sentence="")
    capacity = CapacityResult(over="users", state="found", sentence="12 users.") if searched else None
    found = evolve(found, trials=(evolve(first, outages=(gone,)),), capacity=capacity)
    trials = ElementTree.fromstring(junit_xml(found))[1]
    kinds = [child.tag for child in trials[0] if child.tag in ("failure", "error")]
    assert kinds == (["error"] if searched else ["failure"])


def test_characters_that_xml_cannot_hold_are_replaced(reported: Reporter) -> None:
    found = reported("plain").findings
    spoiled = evolve(found, study="a\x00b\ud800c\uffff")
    assert ElementTree.fromstring(junit_xml(spoiled)).get("name") == "a�b�c�"


def families(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


@pytest.mark.parametrize("name", ["plain", "mixed", "hostile", "overloaded", "unmeasured"])
@pytest.mark.parametrize("stamps", [False, True])
def test_a_parser_of_others_takes_it(reported: Reporter, name: str, stamps: bool) -> None:
    found = reported(name)
    text = openmetrics(found.run, found.findings, stamps)
    parsed = families(text)
    assert text.endswith("# EOF\n")
    assert {"svload_run", "svload_case", "svload_trials"} <= set(parsed)
    stamped = {sample.timestamp is not None for family in parsed.values() for sample in family.samples}
    assert stamped == {stamps}


def test_every_judged_number_of_a_case_is_in_it(reported: Reporter) -> None:
    found = reported("plain")
    family = families(openmetrics(found.run, found.findings))["svload_traffic_response_seconds"]
    assert family.unit == "seconds"
    labels = itemgetter("case", "group", "stat", "bound")
    response = {labels(one.labels): one.value for one in family.samples}
    for case, stat in product(found.findings.cases, ("p50", "p99", "mean")):
        estimate = case.metrics.get(f"probe.response.{stat}", Estimate(value=None))
        for bound, wanted in zip(("value", "low", "high"), (estimate.value, *estimate.within), strict=True):
            assert response.get((case.case, "probe", stat, bound)) == wanted


def test_criteria_gates_and_a_search_are_in_it(reported: Reporter) -> None:
    found = reported("plain")
    claims = [
        evolve(found.findings.claims[0], name=word, gate=Gate(text="worse", outcome=word))
        for word in ("fail", "pass", "open")
    ]
    thresholds = [
        ThresholdResult(case="TC0", that=word, outcome=word, measured=1.0, sentence="")
        for word in ("failed", "passed", "open", "refused")
    ]
    gate = CapacityGate(at_least=20, outcome="fail", sentence="")
    capacity = CapacityResult(
        over="users", state="found", limit=12.0, low=8, high=16, gate=gate, sentence="12 users."
    )
    told = evolve(found.findings, claims=tuple(claims), thresholds=tuple(thresholds), capacity=capacity)
    parsed = families(openmetrics(found.run, told))

    def values(name: str, label: str) -> dict[str, float]:
        return {one.labels[label]: one.value for one in parsed[f"svload_{name}"].samples}

    assert values("gate_passed", "gate") == {"fail": 0, "pass": 1, "capacity over users": 0}
    assert values("threshold_passed", "that") == {"failed": 0, "passed": 1}
    assert values("capacity", "bound") == {"value": 12, "low": 8, "high": 16}


def test_factors_that_differ_in_one_sign_keep_a_label_each() -> None:
    assert _labels(["a-b", "a_b", "case", "größe"]) == ["a_b", "a_b_", "factor_case", "gr__e"]


@pytest.fixture
def running(tmp_path: Path) -> tuple[RunDir, str]:
    """Return a run in its second trial: one is sealed, one under load, nothing is judged."""
    made = make_run(tmp_path, cases=2, replicates=1, duration_s=0.3)
    first, second = (plan.trial for plan in made.planned_trials())
    shutil.rmtree(made.trial(second).path)
    made.events.unlink()
    with Journal(made.events) as journal:
        journal.write(Event("run-started", {"trials": 2, "sealed": 0}))
        journal.write(Event("trial-sealed", {"trial": first, "instrument": "WEAK", "server": "STEADY"}))
    group = {"name": "probe", "due": 12, "begun": 11, "ok": 7, "failed": 3, "in_flight": 1, "active_vus": 4, "errors": {"status": 3},
             "last": {"ok": 5, "failed": 1, "response_p50_ns": 2_000_000, "response_p99_ns": 9_000_000}}  # fmt: skip
    idle = group | {"name": "idle", "last": {"ok": 0, "failed": 0, "response_p50_ns": None, "response_p99_ns": 0}}  # fmt: skip
    with Journal(made.trial(second).events) as journal:
        journal.write(Event("progress", {"trial": second, "offset_s": 1.0, "groups": [group | {"ok": 1}], "generator_cpu_s": 0.2}))  # fmt: skip
        journal.write(Event("progress", {"trial": second, "offset_s": 2.0, "groups": [group, idle], "service_cores": {"cache": 0.5}}))  # fmt: skip
    return made, second


def test_a_running_trial_is_reported_from_its_journal_unjudged(running: tuple[RunDir, str]) -> None:
    run, trial = running
    parsed = families(api.openmetrics(str(run.path)))

    def values(name: str, label: str) -> dict[str, float]:
        return {one.labels[label]: one.value for one in parsed[f"svload_{name}"].samples}

    assert values("running_requests", "state") == {"due": 12, "begun": 11, "ok": 7, "failed": 3}
    assert set(values("running_requests", "trial")) == {trial}
    assert values("running_errors", "error") == {"status": 3}
    assert [one.value for one in parsed["svload_running_response_seconds"].samples] == [0.002, 0.009]
    assert values("running_service_cores", "service") == {"cache": 0.5}
    assert values("trial_instrument", "svload_trial_instrument")["WEAK"] == 1
    assert values("trials", "state") == {"planned": 2, "sealed": 1}
    assert not run.findings_path.exists()


def test_findings_are_valid_by_their_schema(reported: Reporter) -> None:
    schema = api.findings_schema()
    Draft202012Validator.check_schema(schema)
    for name in ("plain", "mixed", "refused", "one", "hostile", "overloaded", "unmeasured"):
        raw = json.loads(reported(name).run.findings_path.read_text(encoding="utf-8"))
        assert [error.message for error in Draft202012Validator(schema).iter_errors(raw)] == [], name


BEFORE = b"not ours\n"


WRITERS: list[Callable[[Any, Path], object]] = [
    lambda made, folder: [export_views(made.run, folder, kind) for kind in ("csv", "parquet")],
    lambda made, folder: api.openmetrics(str(made.run.path), folder / "metrics.txt"),
    lambda made, folder: api.pack(str(made.run.path), folder / "run.svload.zip"),
    pytest.param(lambda made, folder: write_figures(made.run, made.findings, folder), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("write", WRITERS, ids=["tables", "openmetrics", "pack", "figures"])
def test_a_link_is_replaced_and_not_followed(write: Callable[..., None], reported: Reporter, tmp_path: Path):
    """Links to a file, to one that doesn't exist, and hard links: their targets stay unchanged."""
    made = reported("mixed")
    first, linked, outside = (tmp_path / name for name in ("first", "linked", "outside"))
    for folder in (first, linked, outside):
        folder.mkdir()
    write(made, first)
    names = sorted(path.name for path in first.iterdir())
    assert names
    for number, name in enumerate(names):
        aim = outside / name
        if number % 3 != 1:
            aim.write_bytes(BEFORE)
        if number % 3 == 2:
            os.link(aim, linked / name)
        else:
            (linked / name).symlink_to(aim)
    write(made, linked)
    assert sorted(path.name for path in linked.iterdir()) == names
    for number, name in enumerate(names):
        path, aim = linked / name, outside / name
        assert path.is_file() and not path.is_symlink() and path.stat().st_size > 0
        assert not aim.exists() if number % 3 == 1 else aim.read_bytes() == BEFORE


def test_a_name_that_was_foreseen_is_not_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If somebody guesses the temporary file's name, it is refused, and a link's target stays unchanged."""
    aim, path = tmp_path / "aim", tmp_path / "report.html"
    aim.write_bytes(BEFORE)
    monkeypatch.setattr("svload.model.outputs.secrets.token_hex", lambda size: "guessed")
    (tmp_path / f".report.html.{os.getpid()}.xguessed.html").symlink_to(aim)
    with pytest.raises(FileExistsError, match=r"report\.html"):
        write_output(path, "new")
    assert aim.read_bytes() == BEFORE and not path.exists()


def test_what_fails_leaves_the_old_file_and_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(BEFORE)

    def write() -> None:
        with output(path) as fresh:
            fresh.write_text("half")
            raise ValueError("in the midst")

    with pytest.raises(ValueError, match="in the midst"):
        write()
    assert [one.name for one in tmp_path.iterdir()] == ["table.csv"] and path.read_bytes() == BEFORE


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_an_output_has_the_mode_that_the_umask_leaves(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_output(tmp_path / "a", "text")
        write_output(tmp_path / "b", "text", 0o600)
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in "ab"] == [mode, 0o600]


def contents(files: dict[str, Path]) -> dict[str, bytes]:
    """Return every file (of a workbook its parts), except the one with the time of its making."""
    found = {name: path.read_bytes() for name, path in files.items() if path.suffix != ".xlsx"}
    with zipfile.ZipFile(files["report.xlsx"]) as book:
        return found | {name: book.read(name) for name in book.namelist() if name != "docProps/core.xml"}


def on(cores: int, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any]) -> Any:
    monkeypatch.setattr(forks, "_cores", lambda: 1 if forks._worker else cores)
    return make()


def test_it_is_the_same_on_one_core_and_on_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = {"TC1": "no-hits", "TC2.r2": "generator-limited", "TC3.r1": "unsealed", "*": "hostile-names"}
    run = make_run(tmp_path, cases=5, replicates=2, duration_s=0.6, faults=faults)
    one, three = (on(cores, monkeypatch, lambda: contents(api.report(run)[1])) for cores in (1, 3))
    assert one.keys() == three.keys()
    assert [name for name in one if one[name] != three[name]] == []


def test_what_cannot_be_read_is_reported_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path, cases=4, replicates=2, duration_s=0.6)
    findings = api.analyse(run)
    run.trial("TC1.r2").table("monitors").write_bytes(b"torn")
    run.trial("TC3.r1").table("histograms").write_bytes(b"torn")
    made = (on(cores, monkeypatch, lambda: contents(write_all(run, findings))) for cores in (1, 3))
    one, three = (files["report.html"] for files in made)
    assert b"TC1.r2 cannot be read" in one and b"TC3.r1 cannot be read" in one
    assert one == three
