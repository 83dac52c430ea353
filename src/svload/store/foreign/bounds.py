"""How large an imported file may be: every bound once, with its reason; and the one error of
a file that can't be imported."""

from __future__ import annotations

from pathlib import Path

from svload.model.errors import SvloadError, fail
from svload.model.visible import visible

REQUESTS = 40_000_000
"""Requests of a file: each takes 45 bytes while it is read, so that they fit in 2 GiB."""
BLOCK_BYTES = 16 << 20
"""Bytes that are read at once."""
LINE_BYTES = 1 << 20
"""Bytes of a line: a request's record with its failure message; longer is no record."""
NAMES = 10_000
"""Different labels, or thread groups, of a file that keep their names; the others are one."""
NAMES_BYTES = 64 << 20
"""Signs of all of them, or of all threads' names, together."""
THREADS = 1_000_000
"""Different thread names of a file."""
TABLE_ROWS = 100_000
"""Rows of a finished table or of a history of totals."""
TABLE_COLUMNS = 200
"""Columns of a finished table."""
SPAN_NS = 90 * 86_400 * 10**9
"""From a file's first moment to its last: 90 days, as any time of a study."""


def unreadable(path: Path, line: int | None, reason: str, hint: str) -> SvloadError:
    """import-unreadable at `file:line`. `reason` is a clause, `hint` a sentence; what they repeat of
    the file is cut and made visible."""
    place = f"{path}:{line}" if line else str(path)
    return fail(
        "import-unreadable", place=place, path=path.name, reason=visible(shortened(reason)), hint=hint
    )


def shortened(text: str, most: int = 200) -> str:
    """A text of one line, cut."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
