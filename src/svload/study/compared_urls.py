"""The study behind `svload compare URL URL`: the study of `svload load` with a factor of two levels. Pure."""

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
"""The compared metrics, by the short names that --fail-if accepts."""
BLOCKS, LASTS = 6, "10s"
"""Blocks, and how long each side is loaded in one."""
WIDTH, MOST_BLOCKS = "± 1 %", 120
"""With --for and without --fail-if: blocks are added until the interval is this narrow, up to this number."""
_LONGEST = 32
"""Longest name of a level: with the factor's it is a case's name, which names folders."""
_OF_ONE = re.compile(r"(?P<metric>[a-z][\w.]*)\s+(?P<rule>(?:worse|better|different)\b.*)", re.DOTALL)


@dataclass(frozen=True)
class ComparedUrls:
    """Two URLs with the same requests. `request` belongs to the first one, the baseline."""

    request: QuickLoad
    second: str
    blocks: int | None = None
    fail_if: str = ""
    """as in a study, for p50 and p95; or for one of them, with its name in front"""
    within_s: float | None = None
    control: bool = False
    """the first URL again, as a further side"""

    @property
    def sides(self) -> tuple[QuickLoad, QuickLoad]:
        """Return the request to each. Options of TLS apply to the side that uses it, if only one does."""
        one = replace(self.request, duration=self.request.duration or LASTS)
        two = replace(one, url=self.second)
        if is_https(one.url) == is_https(two.url):
            return one, two
        return _without_tls(one), _without_tls(two)

    @property
    def names(self) -> tuple[str, str]:
        """Return names of the sides: the differing host, port, path or query; `a` and `b` if none is
        short."""
        from svload.study.order import control_level  # it validates: `svload load` must not wait for that

        for pair in _parts(self.request.url, self.second):
            if pair[0] != pair[1]:
                plain = all(map(_is_name, pair)) and pair[1] != control_level(pair[0])
                return pair if plain else ("a", "b")
        return "a", "b"


def _is_name(text: str) -> bool:
    """Return whether a study accepts it as a level's name, and it fits in a table."""
    return 0 < len(text) <= _LONGEST and "${" not in text


def _without_tls(side: QuickLoad) -> QuickLoad:
    return side if is_https(side.url) else replace(side, insecure=False, has_ca_file=False)


def _parts(first: str, second: str) -> Iterator[tuple[str, str]]:
    """Return names for two URLs from each of their parts, the most distinctive first."""
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
    """Return the study for `ask`, as plain data. Raises SvloadError usage for contradictions."""
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
            f"Which is faster, {_side_words(first, ask.request.url)} or {_side_words(second, ask.second)}?"
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


def _side_words(name: str, url: str) -> str:
    return url if name == url else f"{name} ({url})"


def _gates(text: str) -> dict[str, str]:
    """Return compared metric → the rule of its gate. Raises SvloadError usage for another name."""
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
