"""What is said of a study's own tables."""

from __future__ import annotations

from svload.model.own_tables import OwnTables


def own_note(own: OwnTables, sealed: int) -> str:
    """Who made them, of what, and whether they are old."""
    said = f"Made by {own.made_by} from this run's findings, not by svload: no verdict depends on them."
    if own.trials == sealed:
        return said
    return f"{said} They are out of date: they cover {own.trials} trials, and {sealed} are sealed now; make them again."
