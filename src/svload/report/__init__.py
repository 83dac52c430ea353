"""Output for people: terminal, HTML, Excel, JUnit. Names are loaded when first used, so that a command loads
only what it prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.model.late import late

if TYPE_CHECKING:
    from svload.report.files.write import write_all, write_comparison
    from svload.report.terminal.imported import show_import, show_tables
    from svload.report.terminal.live import live_view
    from svload.report.terminal.load_end import show_load
    from svload.report.terminal.load_live import load_view
    from svload.report.terminal.tables import (
        show_aa,
        show_comparison,
        show_doctor,
        show_findings,
        show_plan,
        show_probe,
        show_rows,
    )
    from svload.report.terminal.why import show_why
    from svload.report.told.answer import in_words
    from svload.report.told.faster import faster_sentence
    from svload.report.told.quieter import quieter_line
    from svload.report.told.traffic import describe_imported, describe_load, describe_run

__getattr__ = late(__name__)
