"""What people read: terminal, HTML, Excel, JUnit. Names are loaded when first used, so that a
command pays for what it prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.model.late import late

if TYPE_CHECKING:
    from svload.report.files.write import write_all, write_comparison
    from svload.report.terminal.imported import show_import, show_tables, tables_as_json
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
    from svload.report.told.quieter import quieter_line
    from svload.report.told.traffic import describe_imported, describe_load, describe_run
    from svload.report.told.words import in_words

__all__ = [
    "describe_imported",
    "describe_load",
    "describe_run",
    "in_words",
    "live_view",
    "load_view",
    "quieter_line",
    "show_aa",
    "show_comparison",
    "show_doctor",
    "show_findings",
    "show_import",
    "show_load",
    "show_plan",
    "show_probe",
    "show_rows",
    "show_tables",
    "show_why",
    "tables_as_json",
    "write_all",
    "write_comparison",
]

_IMPORTED = ("show_import", "show_tables", "tables_as_json")

__getattr__ = late(
    __name__,
    {
        "terminal.live": ("live_view",),
        "told.traffic": ("describe_imported", "describe_load", "describe_run"),
        "terminal.load_end": ("show_load",),
        "terminal.load_live": ("load_view",),
        "told.quieter": ("quieter_line",),
        "told.words": ("in_words",),
        "terminal.imported": _IMPORTED,
        "terminal.tables": tuple(
            name
            for name in __all__
            if name.startswith("show_") and name not in ("show_load", "show_why", *_IMPORTED)
        ),
        "terminal.why": ("show_why",),
        "files.write": ("write_all", "write_comparison"),
    },
)
