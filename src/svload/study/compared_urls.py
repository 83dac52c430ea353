"""The study behind `svload compare URL URL`: `svload load`'s own study with a factor of two levels. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from svload.model.errors import fail
from svload.study.quick_load import QuickLoad, is_https, literal, study_of

FACTOR = "target"
METRICS = {"p50": "response.p50", "p95": "response.p95"}
"""What is compared, by the short names that --fail-if takes."""
BLOCKS, LASTS = 6, "10s"
"""Blocks, and how long each side is loaded in one: by twenty turns of half a second."""
WIDTH, MOST_BLOCKS = "± 1 %", 120
"""With --for and without --fail-if: blocks are added until the interval is this narrow, and at most so many."""
_LONGEST = 32
"""A level's name: with the factor's it is a case's, which names folders."""
_OF_ONE = re.compile(r"(?P<metric>[a-z][\w.]*)\s+(?P<rule>(?:worse|better|different)\b.*)", re.DOTALL)


@dataclass(frozen=True)
class ComparedUrls:
    """Two URLs that are asked alike. `request` is of the first one, the baseline."""

    request: QuickLoad
    second: str
    blocks: int | None = None
    fail_if: str = ""
    """as in a study, about p50 and p95; or about one of them, whose name stands before it"""
    within_s: float | None = None
    control: bool = False
    """the first URL once more, as one more side"""

    @property
    def sides(self) -> tuple[QuickLoad, QuickLoad]:
        """What is asked of each. Options of TLS are about the one that speaks it, where only one does."""
        one = replace(self.request, duration=self.request.duration or LASTS)
        two = replace(one, url=self.second)
        if is_https(one.url) == is_https(two.url):
            return one, two
        return _without_tls(one), _without_tls(two)

    @property
    def names(self) -> tuple[str, str]:
        """What the sides are called: the host, port, path or query that differs; `a` and `b` where none is short."""
        for pair in _parts(self.request.url, self.second):
            if pair[0] != pair[1]:
                return pair if all(map(_is_name, pair)) else ("a", "b")
        return "a", "b"


def _is_name(text: str) -> bool:
    """Whether a study takes it as a level's name, and a table has room for it."""
    return 0 < len(text) <= _LONGEST and "${" not in text


def _without_tls(side: QuickLoad) -> QuickLoad:
    return side if is_https(side.url) else replace(side, insecure=False, has_ca_file=False)


def _parts(first: str, second: str) -> Iterator[tuple[str, str]]:
    """Names for two URLs by each of their parts, the most telling first."""
    one, two = (urlsplit(url if "://" in url else f"http://{url}") for url in (first, second))
    if one.hostname != two.hostname:
        yield one.hostname or "", two.hostname or ""
    yield one.netloc.rpartition("@")[2], two.netloc.rpartition("@")[2]
    paths = one.path or "/", two.path or "/"
    yield paths
    first_query, second_query = (f"?{url.query}" if url.query else paths[0] for url in (one, two))
    yield first_query, second_query
    yield one.scheme, two.scheme


def compare_study(ask: ComparedUrls) -> dict[str, Any]:
    """The study that `ask` means, as plain data. Raises SvloadError usage where it contradicts itself."""
    gates = _gates(ask.fail_if)
    one, two = map(study_of, ask.sides)
    first, second = ask.names
    request = one["requests"]["get"]
    (verb,) = (key for key in request if key == ask.request.verb.lower())
    server = {**two["lab"]["server"], **one["lab"]["server"]}
    fields: dict[str, dict[str, str]] = {first: {}, second: {}}
    for name, values in (
        ("at", [study["lab"]["server"]["at"] for study in (one, two)]),
        ("url", [study["requests"]["get"][verb] for study in (one, two)]),
    ):
        fields[first][name], fields[second][name] = values
    server["at"], request[verb] = f"${{{FACTOR}.at}}", f"${{{FACTOR}.url}}"
    blocks = ask.blocks or BLOCKS
    until = {}
    if ask.within_s is not None and not ask.fail_if:
        until = {"until": WIDTH, "at_most": max(MOST_BLOCKS, blocks)}
    return one | {
        "name": "compare",
        "question": literal(
            f"Which is faster, {_told(first, ask.request.url)} or {_told(second, ask.second)}?"
        ),
        "lab": {"server": server},
        "factors": {FACTOR: fields},
        "measure": one["measure"] | {"replicates": blocks, "order": "turns", "control": ask.control} | until,
        "compare": [
            {
                "name": f"{second} against {first}, {short}",
                "factor": FACTOR,
                "baseline": first,
                "metric": metric,
            }
            | ({"fail_if": gates[short]} if short in gates else {})
            for short, metric in METRICS.items()
        ],
    }


def _told(name: str, url: str) -> str:
    return url if name == url else f"{name} ({url})"


def _gates(text: str) -> dict[str, str]:
    """What is compared → the rule of its gate. Raises SvloadError usage for a name that is none of these."""
    if not text:
        return {}
    found = _OF_ONE.fullmatch(text.strip())
    if not found:
        return dict.fromkeys(METRICS, text)
    short = found["metric"].removeprefix("response.")
    if short not in METRICS:
        raise fail(
            "usage",
            reason=f"--fail-if {text}: {found['metric']} is not compared",
            hint="Write --fail-if 'p95 worse by more than 5 %', or leave p95 out to judge p50 and p95.",
        )
    return {short: found["rule"]}
