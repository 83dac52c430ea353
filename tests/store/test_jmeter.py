"""Files that a real JMeter 5.6.3 wrote, with its dashboard's numbers: svload reads the same, label by label.

Percentiles follow JMeter's own rule (ranks of n + 1, linear between them), with a window larger than the
file.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from svload.cli import main
from svload.store import read_trial
from svload.store.foreign.run import form_of, read_foreign
from svload.store.foreign.tabulate import Made

HERE = Path(__file__).parent / "jmeter"
CASES = sorted(path.name.removesuffix(".jtl.gz") for path in HERE.glob("*.jtl.gz"))
PERCENTILES = {"medianResTime": 50, "pct1ResTime": 90, "pct2ResTime": 95, "pct3ResTime": 99}
FIRST_ROW_LOST = "no-names"
"""The dashboard takes the first row of a file without a header for the header."""
TRANSACTIONS_ALONE = "transaction-no-parts"
"""Its transactions contain no samples: they are the requests, and JMeter's total counts none of them."""
LEFT_OUT = re.compile(r"^([\d,]+) (rows of transactions|parts of other samples)")


def read(name: str) -> tuple[Made, Mapping[str, Mapping[str, Any]]]:
    """Read a case's file with all of it measured; return it, and JMeter's statistics by label."""
    path = HERE / f"{name}.jtl.gz"
    form = form_of(path)
    assert form == "jtl"
    return read_foreign(path, form, whole=True), json.loads((HERE / f"{name}.statistics.json").read_text())


def by_label(made: Made) -> dict[str, dict[str, NDArray[Any]]]:
    """Return begin and length in ms, and whether each was ok, by JMeter's label."""
    samples = made.tables["samples"]
    found: dict[str, list[dict[str, NDArray[Any]]]] = {}
    for number, group in enumerate(made.groups):
        for place, step in enumerate(made.steps[group.name]):
            mine = (samples["group"] == number) & (samples["step"] == place)
            begun, done = samples["begun_ns"][mine] / 1e6, samples["done_ns"][mine] / 1e6
            one = {"begun": begun, "took": done - begun, "ok": samples["error"][mine] == 0}
            found.setdefault(made.labels[step], []).append(one)
    return {
        label: {key: np.concatenate([one[key] for one in parts]) for key in parts[0]}
        for label, parts in found.items()
    }


def percentile(values: NDArray[Any], p: float) -> float:
    """Return the percentile as JMeter computes it (commons-math, LEGACY)."""
    ordered, place = np.sort(values), p / 100 * (len(values) + 1)
    return float(np.interp(place, np.arange(1, len(values) + 1), ordered))


def numbers(one: Mapping[str, NDArray[Any]]) -> dict[str, float]:
    """Return a label's numbers under the dashboard's names."""
    took, span_ms = one["took"], (one["begun"] + one["took"]).max() - one["begun"].min()
    return {
        "sampleCount": len(took),
        "errorCount": int((~one["ok"]).sum()),
        "meanResTime": float(took.mean()),
        "minResTime": float(took.min()),
        "maxResTime": float(took.max()),
        "throughput": 1000 * len(took) / span_ms,
        **{name: percentile(took, p) for name, p in PERCENTILES.items()},
    }


@pytest.mark.parametrize("name", [name for name in CASES if name != FIRST_ROW_LOST])
def test_each_label_has_jmeters_numbers(name: str) -> None:
    made, dashboard = read(name)
    for label, one in by_label(made).items():
        theirs = dashboard[label]
        mine = numbers(one)
        assert mine == {key: pytest.approx(theirs[key], rel=1e-6) for key in mine}, label


@pytest.mark.parametrize("name", CASES)
def test_the_total_is_jmeters_with_what_was_left_out(name: str) -> None:
    """The dashboard's total counts parts that the file has as rows, and no transactions."""
    made, dashboard = read(name)
    found = [match for note in made.notes if (match := LEFT_OUT.match(note))]
    out = {match[2]: int(match[1].replace(",", "")) for match in found}
    counted = made.requests + out.get("parts of other samples", 0)
    lost = 1 if name == FIRST_ROW_LOST else 0
    alone = counted if name == TRANSACTIONS_ALONE else 0
    assert counted - alone == dashboard["Total"]["sampleCount"] + lost
    labels = sum(row["sampleCount"] for label, row in dashboard.items() if label != "Total")
    assert counted + out.get("rows of transactions", 0) == labels + lost


BY_COMMAND = ("plain", "ramp", "groups", "semicolon", "german", "letters", "xml")
"""A header, ramps, two groups, other delimiters and stamps, other letters, and XML."""


@pytest.mark.parametrize("name", BY_COMMAND)
def test_the_command_prints_jmeters_numbers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["svload", "import", f"it={HERE / name}.jtl.gz", "--window", "all", "--json"]
    monkeypatch.setattr("sys.argv", [*words, "--out", str(tmp_path / "runs")])
    with pytest.raises(SystemExit):
        main.run()
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    _, dashboard = read(name)
    (case,), (imported,) = found["findings"]["cases"], found["imported"].values()
    total, metrics = dashboard["Total"], {key: one["value"] for key, one in case["metrics"].items()}
    assert imported["requests"] == total["sampleCount"]
    trial = read_trial(Path(found["run"]) / "trials" / "it.r1")
    counts = {group.name: group.ok + group.failed for group in trial.summary.groups}
    spent_s = sum(metrics[f"{group}.response.mean"] * count for group, count in counts.items())
    assert 1e3 * spent_s / sum(counts.values()) == pytest.approx(total["meanResTime"], rel=1e-6)
    longest_s = max(metrics[f"{group}.response.max"] for group in counts)
    assert 1e3 * longest_s == pytest.approx(total["maxResTime"])
    rate = sum(metrics[f"{group}.throughput"] for group in counts)
    assert rate == pytest.approx(total["throughput"], rel=1e-4)
    by_label: Counter[str] = Counter()
    for group in trial.summary.groups:
        by_label.update({imported["labels"][step.name]: step.due for step in group.steps})
    assert by_label == {label: row["sampleCount"] for label, row in dashboard.items() if label != "Total"}
