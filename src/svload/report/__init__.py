"""What people read: terminal, HTML, Excel, JUnit. Names are loaded when first used, so that a command pays for what it prints."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from svload.report.live import live_view
    from svload.report.terminal import (
        show_aa,
        show_comparison,
        show_doctor,
        show_findings,
        show_load,
        show_plan,
        show_probe,
        show_rows,
        show_why,
    )
    from svload.report.write import write_all

__all__ = [
    "live_view",
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
]

_HOME = {name: "terminal" for name in __all__ if name.startswith("show_")} | {
    "live_view": "live",
    "write_all": "write",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"svload.report has no {name!r}")
    return getattr(import_module(f"svload.report.{_HOME[name]}"), name)
