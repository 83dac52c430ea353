"""What is known of the instrument is stated, and that nothing is; a check without facts is shown as such."""

from __future__ import annotations

from tests.report.conftest import Shown
from tests.results import trial_result

from svload.model.certificates import InstrumentCertificate, InstrumentLevel, Place
from svload.model.results import CheckResult
from svload.report.terminal.why import show_why
from svload.report.told.certified import NO_INSTRUMENT, instrument_line, instrument_words

LEVEL = InstrumentLevel(
    service_ns=10**6,
    n=600,
    truth_p50_ns=1_001_000,
    truth_p99_ns=1_090_000,
    seen_p50_ns=1_031_000,
    seen_p99_ns=1_080_000,
)
HELD = InstrumentCertificate(
    place=Place(host="A processor #1234", kernel="6.1", engine="abcdef"), made_wall=1.76e9, levels=(LEVEL,)
)


def test_none_says_how_to_get_one() -> None:
    assert instrument_line(None) == NO_INSTRUMENT
    assert NO_INSTRUMENT.startswith("none: ")
    assert list(instrument_words(None)) == [f"instrument certificate: {NO_INSTRUMENT}"]


def test_the_bias_is_told_with_its_sign_and_place() -> None:
    line = instrument_line(HELD)
    assert "1 ms: +30 µs at p50, −10 µs at p99" in line
    head, level = instrument_words(HELD.model_dump(mode="json"))
    assert "2025-10-09, A processor #1234, kernel 6.1" in head
    assert "p50 +30 µs" in level
    assert "600 requests" in level


def test_why_marks_what_was_not_measured(shown: Shown) -> None:
    checks = (
        CheckResult(check="steal", grade="VALID", sentence="Not measured: no monitor.", measured=False),
        CheckResult(check="clocks", grade="VALID", sentence="The clocks were stable."),
    )
    said = shown(show_why, trial_result("TC0", checks=checks))
    assert "– Not measured" in said
    assert "✓ 1 more check found nothing" in said
