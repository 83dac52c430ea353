"""What commands print: it fits, it is plain without a terminal, and it ends with a sentence and the report's path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from svload.report import show_findings, show_why
from svload.report.casetable import case_table

Reporter = Callable[[str], Any]


@pytest.fixture
def printed(
    reported: Reporter, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[str]]:
    def show(name: str, width: int = 100) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        found = reported(name)
        show_findings(found.findings, {"findings.json": found.run.findings_path, **found.files})
        return capsys.readouterr().out.splitlines()

    return show


@pytest.mark.parametrize("name", ["plain", "mixed", "hostile", "refused", "one", "unmeasured"])
@pytest.mark.parametrize("width", [100, 80, 50])
def test_it_fits_and_has_no_colour_without_a_terminal(
    printed: Callable[..., list[str]], reported: Reporter, name: str, width: int
) -> None:
    lines = printed(name, width)
    paths = [str(path) for path in (*reported(name).files.values(), reported(name).run.findings_path)]
    for line in lines:
        if not any(path.endswith(line.split()[-1]) for path in paths if line.split()):
            assert cell_len(line) <= width, line
        assert "\x1b" not in line
        assert "\u202e" not in line


def test_it_ends_with_a_sentence_with_its_interval_then_the_path(
    printed: Callable[..., list[str]], reported: Reporter
) -> None:
    lines = printed("plain", 1000)
    assert lines[-1].endswith("report.html")
    assert Path(lines[-1]).name == "report.html"
    claim = reported("plain").findings.claims[0]
    last = " ".join(printed("plain")[-4:-1])
    assert (
        f"{claim.ratio.value:.3g} × that with {claim.baseline} (95 % interval {claim.ratio.low:.3g} to {claim.ratio.high:.3g})"
        in last
    )


def test_nothing_valid_is_told_last_and_with_its_reason(printed: Callable[..., list[str]]) -> None:
    end = " ".join(printed("refused")[-6:])
    assert "Nothing can be concluded, because every trial is REFUSED" in end


def test_narrow_terminals_lose_the_least_needed_columns(reported: Reporter) -> None:
    findings = reported("mixed").findings
    wide = [column.heading for column in case_table(findings, 200).columns]
    narrow = [column.heading for column in case_table(findings, 50).columns]
    assert {"case", "levels", "verdict", "probe p50", "p99", "rate", "ok", "n"} <= set(wide)
    assert set(narrow) < set(wide)
    assert {"case", "verdict", "probe p50"} <= set(narrow)


def test_at_80_columns_no_two_cases_look_alike_and_each_says_how_many_trials_count(
    reported: Reporter,
) -> None:
    findings = reported("mixed").findings
    shown = {
        column.heading: [cell.text for cell in column.cells] for column in case_table(findings, 80).columns
    }
    assert len(set(shown["levels"])) == len(shown["levels"])
    assert not [text for text in shown["levels"] if "…" in text]
    assert shown["n"] == ["4/4", "0/4", "4/4", "0/4", "3/4", "3/3", "4/4"]


def test_success_gives_up_its_column_only_where_no_request_failed(reported: Reporter) -> None:
    def told(name: str, width: int) -> tuple[bool, bool]:
        table = case_table(reported(name).findings, width)
        return "ok" in [column.heading for column in table.columns], "ok: 100 % in every case" in table.notes

    assert told("plain", 200) == (True, False)
    assert told("plain", 56) == (False, True)
    assert told("mixed", 60) == (True, False), "TC2 has failures"


def test_what_n_and_too_few_mean_stands_beneath_the_table_that_has_them(reported: Reporter) -> None:
    wide, narrow = (case_table(reported("plain").findings, width).notes for width in (200, 70))
    assert [note for note in wide if note.startswith("too few (n): ") and "(368 for p99)" in note]
    assert not [note for note in narrow if "p99" in note], "its column is not there"
    assert not [note for note in wide if note.startswith("n: ")], "every trial counts"
    assert [
        note
        for note in case_table(reported("mixed").findings, 200).notes
        if note.startswith("n: trials that count")
    ]


def test_servers_have_a_column_where_one_was_not_steady(reported: Reporter) -> None:
    def headings(name: str) -> list[str]:
        return [column.heading for column in case_table(reported(name).findings, 200).columns]

    assert "server" in headings("overloaded")
    assert "server" not in headings("plain")


def test_why_tells_every_check(
    reported: Reporter, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "2000")
    trial = next(one for one in reported("refused").findings.trials)
    show_why(trial)
    text = capsys.readouterr().out
    for check in trial.verdict.checks:
        assert check.sentence in text
    assert trial.verdict.remedy in text
