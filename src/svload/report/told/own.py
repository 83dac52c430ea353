"""What is said of a study's own tables."""

from __future__ import annotations

from svload.model.own_tables import OwnTables


def own_note(own: OwnTables, sealed: int) -> str:
    """Who made them, of what, and whether they are old."""
    said = f"Made by {own.made_by} of this run's findings, not by svload: no verdict rests on them."
    if own.trials == sealed:
        return said
    return f"{said} They are old: {own.trials} trials were sealed then, {sealed} are now; make them anew."
