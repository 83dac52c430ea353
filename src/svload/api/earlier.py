"""The results of a study's last run, as far as its plan needs them: nothing is analysed again, nor validated
without need."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from svload.model.parsed import parsed

if TYPE_CHECKING:
    from pydantic import BaseModel

    from svload.model.results import CaseResult, Claim
    from svload.store import RunDir

    Made = TypeVar("Made", bound=BaseModel)


class Earlier:
    """The stored findings of a run, if this svload's analysis made them; else empty (None: no run)."""

    def __init__(self, run: RunDir | None) -> None:
        self._run = run

    @cached_property
    def claims(self) -> list[Claim]:
        """Its claims; empty if one can't be read."""
        from svload.model.results import Claim

        return _all_of(Claim, self._raw.get("claims"))

    def case(self, name: str) -> CaseResult | None:
        """Return its result for a case; None if there is none or it can't be read."""
        return self._cases.get(name)

    @cached_property
    def _cases(self) -> dict[str, CaseResult]:
        from svload.model.results import CaseResult

        return {case.case: case for case in _all_of(CaseResult, self._raw.get("cases"))}

    @cached_property
    def _raw(self) -> dict[str, Any]:
        from svload.analysis import ANALYSIS_VERSION

        if self._run is None or not self._run.findings_path.is_file():
            return {}
        try:
            found = parsed(self._run.findings_path.read_text(encoding="utf-8"))
            return found if found["analysis_version"] == ANALYSIS_VERSION else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}


def _all_of(kind: type[Made], raw: Iterable[Any] | None) -> list[Made]:
    try:
        return [kind.model_validate(one) for one in raw or ()]
    except (ValueError, TypeError):
        return []
