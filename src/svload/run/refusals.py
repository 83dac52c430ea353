"""What to do when one trial after the other is refused. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

IN_A_ROW = 5
"""So many refused trials one after the other are told, once a run."""


def advice(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """What to do after these verdicts, the last trial's last; "" where the last few were not all refused.

    A verdict has `instrument`, `refused_by` (check → its sentence, and what would mend it).
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
