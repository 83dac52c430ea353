"""Advice for several refused trials in a row. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

IN_A_ROW = 5
"""This many refused trials in a row are reported, once per run."""


def advice(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """Return advice after these verdicts, given in order; "" if the last few trials were not all refused.

    A verdict has `instrument` and `refused_by` (check → its sentence and its remedy).
    """
    last = verdicts[-IN_A_ROW:]
    if len(last) < IN_A_ROW or any(one["instrument"] != "REFUSED" for one in last):
        return ""
    counted = Counter(check for one in last for check in one.get("refused_by", {}))
    if not counted:
        return ""
    check, count = counted.most_common(1)[0]
    sentence, remedy = next(
        one["refused_by"][check] for one in reversed(last) if check in one.get("refused_by", {})
    )
    return (
        f"{IN_A_ROW} trials in a row are broken (REFUSED), {count} of them alike: {sentence} {remedy}".strip()
    )
