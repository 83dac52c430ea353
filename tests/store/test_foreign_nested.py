"""Which rows of a JTL are requests: not the parts of another sample, nor a transaction that contains
samples."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from svload.store.foreign.jtl import read_jtl
from svload.store.foreign.jtl_xml import read_jtl_xml

START = 1_700_000_000_000
HOLDS = "Number of samples in transaction : 2, number of failing samples : 0"
Row = tuple[int, int, str, str]
"""ms from the start, elapsed ms, label, and `T` for a transaction, `U` for one without a URL, else empty."""


def write(path: Path, rows: Sequence[Row], columns: Sequence[str] = (), threads: Sequence[int] = ()) -> Path:
    written: list[dict[str, Any]] = []
    for place, (at, spent, label, kind) in enumerate(rows):
        cells = {"timeStamp": START + at, "elapsed": spent, "label": label, "responseCode": "200"}
        cells |= {"responseMessage": HOLDS if kind == "T" else "OK", "success": "true"}
        cells |= {"threadName": f"Users 1-{threads[place] if threads else 1}"}
        written.append(cells | {"URL": "" if kind else f"http://x/{label}"})
    with path.open("w", newline="", encoding="utf-8") as file:
        names = columns or list(written[0])
        table = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        table.writerows(written)
    return path


CASES: dict[str, tuple[list[Row], list[str], str]] = {
    "a transaction of samplers that are called as its parts would be": (
        [(0, 100, "Search-1", ""), (100, 150, "Search-2", ""), (0, 250, "Search", "T")],
        ["Search-1", "Search-2"],
        "1 rows of transactions are left out, since the samples in them stand for themselves (Search: 1).",
    ),
    "a transaction without a message, by its empty URL": (
        [(0, 300, "buy", "U"), (0, 120, "cart", ""), (130, 170, "pay", "")],
        ["cart", "pay"],
        "1 rows of transactions are left out",
    ),
    "a sampler without a URL that holds nothing": ([(0, 7, "script", "U"), (8, 9, "home", "")], ["script", "home"], ""),
    "one after the other, with clocks that round": (
        [(0, 100, "x", ""), (99, 1, "x-1", ""), (100, 0, "y", ""), (100, 50, "x", "")],
        ["x", "x-1", "y", "x"],
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_rows_that_are_requests(name: str, tmp_path: Path) -> None:
    rows, stand, sentence = CASES[name]
    read = read_jtl(write(tmp_path / "a.jtl", rows))
    assert sorted(read.labels[code] for code in read.label.tolist()) == sorted(stand)
    assert [note for note in read.notes if "left out" in note] == [] if not sentence else True
    assert any(sentence in note for note in read.notes) or not sentence


def test_another_threads_samples_are_never_parts(tmp_path: Path) -> None:
    rows = [(0, 300, "home", ""), (10, 100, "home-0", ""), (10, 100, "home-0", ""), (150, 100, "other", "")]
    read = read_jtl(write(tmp_path / "a.jtl", rows, threads=(1, 1, 2, 2)))
    assert [read.labels[code] for code in read.label.tolist()] == ["home", "home-0", "other"]
    assert [read.vu[place] for place in range(3)] == [0, 1, 1]


@pytest.mark.parametrize(
    ("rows", "stand"),
    [
        ([(0, 300, "home", ""), (0, 200, "home-0", "")], ["home"]),
        ([(0, 300, "Checkout", ""), (0, 200, "cart", ""), (210, 60, "pay", "")], ["cart", "pay"]),
    ],
)
def test_without_message_and_url_names_decide(rows: list[Row], stand: list[str], tmp_path: Path) -> None:
    columns = ("timeStamp", "elapsed", "label", "threadName", "success")
    read = read_jtl(write(tmp_path / "a.jtl", rows, columns))
    assert [read.labels[code] for code in read.label.tolist()] == stand


PAY = '<httpSample t="5" ts="0" s="true" lb="pay" rm="OK" tn="Users 1-1"/>'


@pytest.mark.parametrize(
    ("before", "inside", "stand"), [("", "", ["Checkout"]), ("", PAY, ["pay"]), (PAY, "", ["pay"])]
)
def test_a_transaction_in_xml_without_samples_is_a_request(
    before: str, inside: str, stand: list[str], tmp_path: Path
) -> None:
    """Its samples are in it or, if it makes no parent sample, before it."""
    path = tmp_path / "a.xml"
    path.write_text(
        f'<testResults version="1.2">{before}<sample t="9" ts="0" s="false" lb="Checkout" rm="{HOLDS}" tn="Users 1-1">'
        f"{inside}</sample></testResults>",
        encoding="utf-8",
    )
    read = read_jtl_xml(path)
    assert [read.labels[code] for code in read.label.tolist()] == stand
