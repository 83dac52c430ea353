"""Makes docs/reference/ from the code: what is listed there can't disagree with what runs.

make_reference.py           write the pages
make_reference.py --check   exit 1 and name the pages that differ from what the code says now

A page is a module of tools/reference/.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from reference import (
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
from reference.markdown import page

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
INDEX = "README.md"
MODULES = {
    f"{module.__name__.rpartition('.')[2]}.md": module
    for module in (study, commands, metrics, verdicts, kits, monitors, artefacts, views, errors)
} | {"findings.schema.json": findings_schema}
PAGES = (INDEX, *MODULES)


def index() -> str:
    """The list of all pages."""
    lines = [f"- [{module.TITLE}]({name})" for name, module in MODULES.items()]
    return page(
        "Reference", "Made from the code. A test holds every page equal to it.\n", "\n".join(lines) + "\n"
    )


def make(name: str) -> str:
    """The page of that name as the code says it now."""
    return index() if name == INDEX else MODULES[name].make()


def main(words: Sequence[str]) -> int:
    os.environ["NO_COLOR"] = "1"
    FOLDER.mkdir(parents=True, exist_ok=True)
    different = []
    for name in PAGES:
        path, text = FOLDER / name, make(name)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        different.append(name)
        if "--check" not in words:
            path.write_text(text, encoding="utf-8")
    strangers = sorted({path.name for path in FOLDER.iterdir()} - set(PAGES))
    for name in [*different, *strangers]:
        print(
            f"docs/reference/{name}: "
            + (
                "not made by this tool"
                if name in strangers
                else "made anew"
                if "--check" not in words
                else "differs"
            )
        )
    return 1 if strangers or ("--check" in words and different) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
