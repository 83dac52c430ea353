"""A figure: the page's chart at the width of a journal's column, with its caption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from svload.model.results import CaseResult
from svload.model.visible import visible
from svload.report.charts.axes import NARROW, Key
from svload.report.data.gather import Gathered
from svload.report.palette import PALETTE
from svload.report.told.spelling import count_words, list_words

WIDTHS_PT = {"single": 252.0, "double": 516.0}
"""Column widths in points (1/72 inch): 3.5 and 7.16 inches, as IEEE and ACM set them."""
_LONGEST_LABEL = 48


@dataclass(frozen=True)
class Figure:
    """`name` is the stem of its files; `draw` takes the whole width in the page's pixels and returns SVG;
    `caption` states what is shown, n and the interval."""

    name: str
    caption: str
    draw: Callable[[float], str]


def case_label(case: CaseResult, factors: Sequence[str], width: float) -> str:
    """Return a case's name, with its levels of `factors` if the drawing is wide enough."""
    levels = " · ".join(case.levels[factor] for factor in factors if factor in case.levels)
    text = visible(f"{case.case}  {levels}" if levels and width > NARROW else case.case)
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"


def varying(gathered: Gathered) -> list[str]:
    """Return the factors with more than one level."""
    return [factor for factor, levels in gathered.factors.items() if len(levels) > 1]


def counted_words(gathered: Gathered, cases: Sequence[CaseResult]) -> str:
    """Return `n = 4 trials a case`, or the number of each case."""
    key = f"{gathered.group}.response.p50"
    counts = {case.case: gathered.told.of_case(case, key).believed for case in cases}
    if not counts:
        return "n = 0"
    usual = max(set(counts.values()), key=list(counts.values()).count)
    odd = [f"{visible(name)}: {count}" for name, count in counts.items() if count != usual]
    text = f"n = {count_words(usual, 'trial')} a case"
    return f"{text} ({list_words(odd, 8)})" if odd else text


def sure_words(gathered: Gathered) -> str:
    """Return the certainty of the figure's numbers, worded as on the page."""
    return f"{gathered.findings.floor[:1].upper()}{gathered.findings.floor[1:]}."


@dataclass(frozen=True)
class Colouring:
    """Case → the meaning of its colour; `factor` if that is a level, "" if it is the case or nothing."""

    by: dict[str, str]
    factor: str

    def css(self, case: str) -> str:
        """Return the class of a case's line."""
        return f"c{list(dict.fromkeys(self.by.values())).index(self.by[case])} main"

    @property
    def key(self) -> Key:
        """The colours and their meanings, if there are several."""
        names = dict.fromkeys(self.by.values())
        return [(f"c{number} main", name) for number, name in enumerate(names)] if len(names) > 1 else ()

    @property
    def words(self) -> str:
        return "Lines: cases" + (f", coloured by {visible(self.factor)}" if self.factor else "")


def colouring(gathered: Gathered, names: list[str]) -> Colouring:
    """Return the colours of these cases. The factor is the first compared one, else the one with the most
    levels that fit the palette."""
    cases = {case.case: case for case in gathered.findings.cases}
    if len(names) <= len(PALETTE):
        return Colouring({name: case_label(cases[name], varying(gathered), inf) for name in names}, "")
    fitting = {
        factor: len(levels) for factor, levels in gathered.factors.items() if 1 < len(levels) <= len(PALETTE)
    }
    compared = [one.factor for one in gathered.lock.comparisons if one.factor in fitting]
    factor = next(iter(compared), max(fitting, key=fitting.__getitem__, default=""))
    return Colouring({name: visible(cases[name].levels.get(factor, "")) for name in names}, factor)
