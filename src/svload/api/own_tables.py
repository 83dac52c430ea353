"""A study's own tables, put beside a run's findings: each report of the run shows them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from svload.api.damage import damage_is_told
from svload.api.runs import read_findings
from svload.api.typed import writing
from svload.model.errors import fail
from svload.model.own_tables import OwnTable, OwnTables
from svload.model.parsed import parsed

if TYPE_CHECKING:
    from svload.model.results import Estimate
    from svload.store import RunDir

MOST_BYTES = 16 << 20
STAYS = 0.05
"""A ratio this near to 1 goes nowhere: a paper prints a number without an interval, whose sign chance or rounding may have turned."""


@damage_is_told
def put_tables(found: RunDir, tables: Sequence[OwnTable], made_by: str) -> Path:
    """Let the run's next reports show these tables in place of those before; the file they are in.

    `made_by` is told with them. Raises SvloadError run-damaged, usage where the run cannot be written.
    """
    from svload.store import write_artefact

    own = OwnTables(made_by=made_by, trials=read_findings(found).sealed_trials, tables=tuple(tables))
    with writing(found.tables_path):
        write_artefact(found.tables_path, own)
    return found.tables_path


def read_tables(path: Path) -> list[OwnTable]:
    """Tables from a file: {"tables": [{"title": …, "note": …, "head": […], "rows": [[…], …]}, …]}, or such a list alone.
    Raises SvloadError usage."""
    from pydantic import TypeAdapter, ValidationError

    def wrong(reason: str) -> Exception:
        hint = 'It holds {"tables": [{"title": "…", "note": "…", "head": ["…"], "rows": [["…"]]}]}.'
        return fail("usage", reason=f"--tables {path}: {reason}", hint=hint)

    try:
        if path.stat().st_size > MOST_BYTES:
            raise wrong(f"it is larger than {MOST_BYTES >> 20} MiB")
        raw = parsed(path.read_bytes())
        return TypeAdapter(list[OwnTable]).validate_python(
            raw["tables"] if isinstance(raw, dict) and "tables" in raw else raw
        )
    except ValidationError as why:
        first = why.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise wrong(f"{where}: {first['msg']}" if where else first["msg"]) from why
    except ValueError as why:
        raise wrong(f"it is not JSON ({' '.join(str(why).split())[:120]})") from why
    except OSError as why:
        raise wrong(why.strerror or str(why)) from why


def direction(first: Estimate | None, second: Estimate | None, theirs: float) -> str:
    """Whether ours goes from `first` to `second` where a paper goes, whose second number is `theirs` times its first.

    Where the paper's goes: agrees, opposite, or not told apart (our intervals overlap). Where it stays (`STAYS`): agrees, both stay
    (our ratio stays by its whole interval), ours alone moves, or not told apart. Of what we lack: no interval, not measured.
    """
    if first is None or second is None or first.value is None or second.value is None:
        return "not measured"
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return "no interval"
    if abs(theirs - 1) <= STAYS and _stays(first.low, first.high, second.low, second.high):
        return "agrees: both stay"
    if first.high >= second.low and second.high >= first.low:
        return "not told apart"
    if abs(theirs - 1) <= STAYS:
        return "ours alone moves"
    return "agrees" if (second.value > first.value) == (theirs > 1) else "opposite"


def _stays(low: float, high: float, second_low: float, second_high: float) -> bool:
    """Whether every ratio of a second number to a first within their intervals is near 1."""
    return low > 0 and second_low >= (1 - STAYS) * high and second_high <= (1 + STAYS) * low
