"""A search for the largest load: each trial at its load in the order in which they ran, and both ends of the
answer."""

from __future__ import annotations

from collections.abc import Iterator

from svload.model.visible import visible
from svload.report.charts.search_chart import search_chart
from svload.report.data.gather import Gathered
from svload.report.figures.figure import Figure, sure_words
from svload.report.told.search_rows import caption_of, limit_words, search_title


def figures(gathered: Gathered) -> Iterator[Figure]:
    """Yield the figure; nothing if the run is no search, or has no trial."""
    found = gathered.findings.capacity
    if found is None or not found.trials:
        return
    title = search_title(found)
    caption = (
        f"The search for {visible(title)}: {visible(limit_words(found))}. "
        f"{caption_of(found)} {sure_words(gathered)}"
    )
    yield Figure("search", caption, lambda width: search_chart(found, f"search for {title}", width))
