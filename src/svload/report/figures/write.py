"""`write_figures`: every figure of a run, at both widths, in three formats, with captions to copy."""

from __future__ import annotations

import importlib
import pkgutil
from html import escape
from io import StringIO
from pathlib import Path

import altair as alt

from svload.model.outputs import output, write_output
from svload.model.results import Findings
from svload.model.visible import visible
from svload.report.data.gather import Gathered, gather
from svload.report.figures import kinds
from svload.report.figures.figure import WIDTHS_PT, Figure
from svload.store.layout import RunDir

_PPI = 300


def write_figures(run: RunDir, findings: Findings, folder: Path) -> tuple[Path, ...]:
    """Write `<figure>-<single|double>.<svg|pdf|png>` for each figure that the run has data for, and
    captions.md.

    Raises SvloadError for a run without a readable lock, OSError when the disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    figures = found_figures(gather(run, findings))
    files = [path for figure in figures for path in _write(figure, folder)]
    captions = folder / "captions.md"
    write_output(captions, _captions(figures, run.name))
    return (*files, captions)


def found_figures(gathered: Gathered) -> list[Figure]:
    """Return the run's figures of every kind, by the kinds' names."""
    names = sorted(module.name for module in pkgutil.iter_modules(kinds.__path__))
    made = [importlib.import_module(f"{kinds.__name__}.{name}").figure(gathered) for name in names]
    return [figure for figure in made if figure is not None]


def _write(figure: Figure, folder: Path) -> list[Path]:
    files = []
    for width, points in WIDTHS_PT.items():
        stem = folder / f"{figure.name}-{width}"
        with alt.theme.enable("svload"):
            chart = figure.draw(points)
            drawn = StringIO()
            chart.save(drawn, format="svg")
            with output(stem.with_suffix(".pdf")) as fresh:
                chart.save(str(fresh), format="pdf")
            with output(stem.with_suffix(".png")) as fresh:
                chart.save(str(fresh), format="png", ppi=_PPI, scale_factor=1)
        svg = stem.with_suffix(".svg")
        write_output(svg, _described(drawn.getvalue(), visible(figure.caption)))
        files += [svg, stem.with_suffix(".pdf"), stem.with_suffix(".png")]
    return files


def _described(svg: str, caption: str) -> str:
    """Return the drawing with its caption inside, for screen readers."""
    head, end, rest = svg.partition(">")
    return f'{head} role="img"{end}<desc>{escape(caption)}</desc>{rest}'


def _captions(figures: list[Figure], run: str) -> str:
    parts = [f"# Figures of {run}\n"]
    for figure in figures:
        parts.append(
            f"## {figure.name}\n\n![{figure.name}]({figure.name}-double.svg)\n\n{visible(figure.caption)}\n"
        )
    return "\n".join(parts)
