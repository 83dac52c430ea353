"""Limits on the size of an imported file, each with its reason; and the one error for files that cannot be
imported."""

from __future__ import annotations

from pathlib import Path

from svload.model.errors import SvloadError, fail
from svload.model.visible import visible

REQUESTS = 40_000_000
"""Requests of a file: each takes 45 bytes while it is read, so that they fit in 2 GiB."""
BLOCK_BYTES = 16 << 20
"""Bytes per read."""
LINE_BYTES = 1 << 20
"""Bytes of a line: a request's record with its failure message; longer lines are not records."""
NAMES = 10_000
"""Distinct labels, or thread groups, of a file that keep their names; the others are merged."""
NAMES_BYTES = 64 << 20
"""Total characters of all of them, or of all threads' names."""
THREADS = 1_000_000
"""Distinct thread names of a file."""
TABLE_ROWS = 100_000
"""Rows of a finished table or of a history of totals."""
TABLE_COLUMNS = 200
"""Columns of a finished table."""
SPAN_NS = 90 * 86_400 * 10**9
"""From a file's first moment to its last: 90 days, the limit of any time in a study."""


def unreadable(path: Path, line: int | None, reason: str, hint: str) -> SvloadError:
    """Return import-unreadable at `file:line`. `reason` is a clause, `hint` a sentence; quotations of the
    file are shortened and made visible."""
    place = f"{path}:{line}" if line else str(path)
    return fail(
        "import-unreadable", place=place, path=path.name or path, reason=visible(shortened(reason)), hint=hint
    )


def shortened(text: str, most: int = 200) -> str:
    """Return a text as one line, shortened."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
