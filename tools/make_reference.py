"""Make docs/reference/ from the code, so that no page can contradict what runs.

The folder isn't committed: `make docs` and `make site` write it. A page is a module of tools/reference/.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT)]  # reference/, and tests/support, from which a page gets a run

from reference import (  # noqa: E402
    artefacts,
    commands,
    errors,
    findings_schema,
    kits,
    metrics,
    monitors,
    study,
    verdicts,
    views,
)
from reference.markdown import page  # noqa: E402

from svload.api.load import in_environment  # noqa: E402

FOLDER = ROOT / "docs" / "reference"
INDEX = "README.md"
MODULES = {
    f"{module.__name__.rpartition('.')[2]}.md": module
    for module in (study, commands, metrics, verdicts, kits, monitors, artefacts, views, errors)
} | {"findings.schema.json": findings_schema}
PAGES = (INDEX, *MODULES)


def index() -> str:
    """List all pages."""
    lines = [f"- [{module.TITLE}]({name})" for name, module in MODULES.items()]
    return page("Reference", "Made from the code by `make docs`.\n", "\n".join(lines) + "\n")


def make(name: str) -> str:
    """Return the page of that name for the present code."""
    return index() if name == INDEX else MODULES[name].make()


def write() -> Path:
    """Write every page, drop pages that are no longer made, and return their folder."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for stranger in {path.name for path in FOLDER.iterdir()} - set(PAGES):
        (FOLDER / stranger).unlink(missing_ok=True)
    for name in PAGES:
        with in_environment({"NO_COLOR": "1"}):  # help pages are text
            path, text = FOLDER / name, make(name)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return FOLDER


if __name__ == "__main__":
    print(write())
