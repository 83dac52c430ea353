"""What is said of a claim beside its fields, which the report reads out."""

from __future__ import annotations

from svload.analysis import limits

FLOOR_UNKNOWN = "the lab's own noise is not measured: exploratory"


def told_of_success(baseline: str, treatment: str, success: tuple[float | None, float | None]) -> list[str]:
    """Time and success are judged together (docs/method.md §2): a sentence where success differs."""
    before, after = success
    if before is None or after is None or abs(before - after) < limits.SUCCESS_DIFFERS:
        return []
    return [
        f"Success differs: {100 * after:.4g} % with {treatment}, {100 * before:.4g} % with {baseline}; "
        f"failures rank above every limit."
    ]
