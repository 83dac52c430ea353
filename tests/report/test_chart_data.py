"""The numbers behind each chart: they come back as they went in, formulas stay text, and
every chart of the page has them."""

from __future__ import annotations

import base64
import csv
import gzip
import json
import re
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest

from svload.report.page.data import Table, csv_text, packed

Reporter = Callable[[str], Any]


def unpacked(text: str) -> dict[str, list[dict[str, str]]]:
    """What the page's script makes of packed numbers: by figure, its rows."""
    tables = json.loads(gzip.decompress(base64.b64decode(text)))
    return {name: list(csv.DictReader(StringIO(one))) for name, one in tables.items()}


def test_numbers_come_back_and_formulas_stay_text() -> None:
    table = Table(("name", "value"), (("=1+1", 0.1234567), ("plain", None), ("-5", 3)))
    assert unpacked(packed({"a": table, "empty": Table(("x",), ())})) == {
        "a": [
            {"name": "'=1+1", "value": "0.12346"},
            {"name": "plain", "value": ""},
            {"name": "-5", "value": "3"},
        ]
    }
    assert packed({}) == ""
    assert packed({"a": table}) == packed({"a": table})
    assert csv_text(Table(("x",), (('a,"b"',),))) == 'x\r\n"a,""b"""\r\n'


@pytest.mark.parametrize("name", ["plain", "hostile"])
def test_every_chart_with_a_button_has_its_numbers(reported: Reporter, name: str) -> None:
    page = reported(name).page
    figures = re.findall(r'<figure id="([^"]+)" data-csv>', page)
    known: set[str] = set()
    for text in re.findall(r'class="data">([^<]+)<', page):
        tables = unpacked(text)
        assert all(tables.values())
        known |= set(tables)
    assert len(figures) > 5 * len([case for case in reported(name).findings.cases if case.trials])
    assert set(figures) <= known


def test_the_numbers_over_time_are_every_trial_s(reported: Reporter) -> None:
    found = reported("plain")
    packs = [unpacked(text) for text in re.findall(r'class="data">([^<]+)<', found.page)]
    case = next(case for case in found.findings.cases if case.trials)
    rows = next(one[f"{case.case}.time"] for one in packs if f"{case.case}.time" in one)
    assert {row["trial"] for row in rows} == set(case.trials)
    assert {"probe", "background", "backend", "cache", "machine"} == {row["of"] for row in rows}
    assert {"throughput", "failures", "under way", "p50"} <= {row["metric"] for row in rows}
