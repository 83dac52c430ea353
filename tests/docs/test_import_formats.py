"""The table of import formats in docs/how-to.md equals what happens when a field is removed from small real
files.

JMeter's and Locust's files were made by those tools; k6's are written in k6's format. `python -m
tests.docs.test_import_formats` rewrites the table.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest
from tests.store.foreign_files import closed_loop, write_k6_csv, write_k6_json

from svload.model.errors import SvloadError
from svload.store.foreign.run import read_foreign

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to.md"
STORE = ROOT / "tests" / "store"
HEAD = "| format | required | read if present | not read |\n|---|---|---|---|\n"
ASKED = [
    replace(one, status=200) if number % 2 else one  # a failure that only its tag shows
    for number, one in enumerate(closed_loop(users=3, lasts=1_500, failing=0.4))
]
Without = Callable[[str, str], str]


def jmeter(*names: str) -> list[str]:
    """Return the texts of files that JMeter wrote."""
    return [gzip.decompress((STORE / "jmeter" / f"{name}.jtl.gz").read_bytes()).decode() for name in names]


def locust() -> list[str]:
    """Return a file that Locust wrote, and one with a name under two methods."""
    text = (STORE / "formats" / "locust_stats_history.csv").read_text()
    return [text, text.replace("GET,missing,", "POST,/,")]


def written(write: Callable[[Path], object]) -> list[str]:
    """Return the text of a file written by this writer."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made"
        write(path)
        return [path.read_text(encoding="utf-8")]


def columns(text: str) -> Iterable[str]:
    return next(csv.reader(io.StringIO(text)))


def without_column(text: str, name: str) -> str:
    rows = list(csv.reader(io.StringIO(text)))
    place = rows[0].index(name)
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(row[:place] + row[place + 1 :] for row in rows)
    return out.getvalue()


def attributes(text: str) -> Iterable[str]:
    samples = "".join(re.findall(r"<(?:httpSample|sample) [^>]*>", text))
    return dict.fromkeys(re.findall(r'(?<=[ ])([a-z]+)="', samples))


def without_attribute(text: str, name: str) -> str:
    return re.sub(rf'(<(?:httpSample|sample)(?: [^>]*?)?) {name}="[^"]*"', r"\1", text)


def keys(text: str) -> Iterable[str]:
    points = [json.loads(line) for line in text.splitlines()]
    data = [point["data"] for point in points if point["type"] == "Point"]
    tags = dict.fromkeys(f"data.tags.{tag}" for one in data for tag in one["tags"])
    return ["type", "metric", "data.time", "data.value", *tags]


def without_key(text: str, name: str) -> str:
    lines = []
    for line in text.splitlines():
        point = json.loads(line)
        *path, last = name.split(".")
        place = point
        for part in path:
            place = place.get(part, {})
        if point["type"] == "Point":
            place.pop(last, None)
        lines.append(json.dumps(point))
    return "\n".join(lines) + "\n"


TURNS = """\
timeStamp,elapsed,threadName,success,grpThreads,allThreads
1700000000000,5,A 1-1,true,1,1
1700000000100,5,A 1-2,true,1,1
1700000000200,5,B 2-1,true,1,1
"""
"""A group whose threads never run at the same time: their number is not that of its users."""
FORMATS: dict[str, tuple[str, Callable[[], list[str]], Callable[[str], Iterable[str]], Without]] = {
    "JMeter, CSV": ("jtl", lambda: [*jmeter("groups", "refused", "failing", "resources-unnamed"), TURNS], columns, without_column),
    "JMeter, XML": ("jtl", partial(jmeter, "xml", "xml-redirects", "xml-transaction"), attributes, without_attribute),
    "Locust, `_stats_history.csv`": ("locust", locust, columns, without_column),
    "k6, JSON lines": ("k6", partial(written, lambda path: write_k6_json(path, ASKED)), keys, without_key),
    "k6, CSV": ("k6", partial(written, lambda path: write_k6_csv(path, ASKED)), columns, without_column),
}  # fmt: skip


def outcome(text: str, form: str) -> str | None:
    """Return all that svload reads from a file, without sentences; None: it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_text(text, encoding="utf-8")
        try:
            made = read_foreign(path, form, whole=True)
        except SvloadError:
            return None
    cells = [(name, at, one.tolist()) for name, table in made.tables.items() for at, one in table.items()]
    return repr((replace(made, notes=(), tables={}), cells))


def row(name: str) -> str:
    """Return a format's line of the table. A field whose removal alone changes nothing may be one of two
    with the same information."""
    form, read, fields, without = FORMATS[name]
    texts = [(text, outcome(text, form)) for text in read()]
    assert None not in [was for _, was in texts]

    def left(*gone: str) -> str:
        kinds = set()
        for text, was in texts:
            for field in gone:
                text = without(text, field) if field in fields(text) else text
            now = outcome(text, form)
            kinds.add("not read" if now == was else "needed" if now is None else "read")
        return next(kind for kind in ("needed", "read", "not read") if kind in kinds)

    every = dict.fromkeys(field for text, _ in texts for field in fields(text))
    found = {field: left(field) for field in every}
    for pair in combinations([field for field, kind in found.items() if kind == "not read"], 2):
        if left(*pair) != "not read":
            found |= dict.fromkeys(pair, "read")
    kinds = ("needed", "read", "not read")
    cells = [", ".join(f"`{field}`" for field, kind in found.items() if kind == one) or "–" for one in kinds]
    return f"| {name} | {' | '.join(cells)} |"


@pytest.mark.parametrize("name", FORMATS)
def test_the_table_says_what_becomes_of_each_field(name: str) -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    [line] = [line for line in lines if line.startswith(f"| {name} |")]
    assert line == row(name), "python -m tests.docs.test_import_formats writes it anew"


def main() -> int:
    """Rewrite the table."""
    page = PAGE.read_text(encoding="utf-8")
    begin = page.index(HEAD)
    end = page.index("\n\n", begin)
    PAGE.write_text(page[:begin] + HEAD + "\n".join(map(row, FORMATS)) + page[end:], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
