"""The colour of a case's line: its own if the palette has enough, else that of its level of one factor."""

from __future__ import annotations

from dataclasses import dataclass

import altair as alt

from svload.model.visible import visible
from svload.report.data.gather import Gathered
from svload.report.figures.figure import WIDTHS_PT, case_label, varying
from svload.report.palette import PALETTE


@dataclass(frozen=True)
class Colouring:
    """Case → the meaning of its colour; `factor` if that is a level, "" if it is the case or nothing."""

    by: dict[str, str]
    factor: str

    def channel(self, width: float) -> alt.Color:
        """Return the colour encoding of a field `colour`, with a legend that fits `width` (points) if there
        are several colours."""
        names = list(dict.fromkeys(self.by.values()))
        columns = 4 if width > WIDTHS_PT["single"] else 2
        legend = alt.Legend(title=None, columns=columns, symbolType="stroke", labelLimit=width / columns - 30)
        scale = alt.Scale(domain=names, range=list(PALETTE[: len(names)]))
        return alt.Color("colour:N", sort=names, scale=scale, legend=legend if len(names) > 1 else None)

    @property
    def words(self) -> str:
        return "Lines: cases" + (f", coloured by {visible(self.factor)}" if self.factor else "")


def colouring(gathered: Gathered, names: list[str]) -> Colouring:
    """Return the colours of these cases. The factor is the first compared one, else the one with the most
    levels that fit the palette."""
    cases = {case.case: case for case in gathered.findings.cases}
    if len(names) <= len(PALETTE):
        return Colouring(
            {name: case_label(cases[name], varying(gathered), WIDTHS_PT["double"]) for name in names}, ""
        )
    fitting = {
        factor: len(levels) for factor, levels in gathered.factors.items() if 1 < len(levels) <= len(PALETTE)
    }
    compared = [one.factor for one in gathered.lock.comparisons if one.factor in fitting]
    factor = next(iter(compared), max(fitting, key=fitting.__getitem__, default=""))
    return Colouring({name: visible(cases[name].levels.get(factor, "")) for name in names}, factor)
