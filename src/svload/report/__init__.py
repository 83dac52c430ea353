"""What people read: terminal, HTML, Excel, JUnit. Names are loaded when first used, so that a command pays for what it prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.model.late import late

if TYPE_CHECKING:
    from svload.report.live import live_view
    from svload.report.load import describe_load, describe_run
    from svload.report.quick import show_load
    from svload.report.quick_live import load_view
    from svload.report.quieter import quieter_line
    from svload.report.terminal import (
        show_aa,
        show_comparison,
        show_doctor,
        show_findings,
        show_plan,
        show_probe,
        show_rows,
    )
    from svload.report.why import show_why
    from svload.report.write import write_all, write_comparison

__all__ = [
    "describe_load",
    "describe_run",
    "live_view",
    "load_view",
    "quieter_line",
    "show_aa",
    "show_comparison",
    "show_doctor",
    "show_findings",
    "show_load",
    "show_plan",
    "show_probe",
    "show_rows",
    "show_why",
    "write_all",
    "write_comparison",
]

__getattr__ = late(
    __name__,
    {
        "live": ("live_view",),
        "load": ("describe_load", "describe_run"),
        "quick": ("show_load",),
        "quick_live": ("load_view",),
        "quieter": ("quieter_line",),
        "terminal": tuple(
            name for name in __all__ if name.startswith("show_") and name not in ("show_load", "show_why")
        ),
        "why": ("show_why",),
        "write": ("write_all", "write_comparison"),
    },
)
