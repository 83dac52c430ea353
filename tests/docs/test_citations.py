"""Each citation of the method in code and documents names a section that docs/method.md has, and no text
names a page that is not here."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
METHOD = (ROOT / "docs/method.md").read_text(encoding="utf-8")
SECTIONS = set(re.findall(r"^## §(\d) ", METHOD, re.MULTILINE))
CITED = re.compile(r"method\.md((?:[\s,]*(?:and )?§\d)+)")
ABSENT = re.compile(
    r"\b(?:METHOD|DESIGN|LAB|PEERS|STYLE)(?:\.md|'s)?,? (?:§\d|the river|Safety|Commands)|\b(?:METHOD|DESIGN|LAB|PEERS|STYLE)\.md"
)
PATH = re.compile(
    r"\b(?:docs|src|tests|tools|benches|examples|studies|engine)/[\w./-]+\.(?:md|py|rs|sh|yaml|csv)\b"
)
TEXT = {".py", ".rs", ".md", ".toml", ".j2", ".sh", ".yaml"}


def texts() -> list[Path]:
    """Every text of the project that git knows."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True
    )
    found = [ROOT / name for name in listed.stdout.split("\0") if Path(name).suffix in TEXT]
    return [path for path in found if path.exists() and path != Path(__file__)]


def test_the_method_has_its_six_sections() -> None:
    assert sorted(SECTIONS) == ["1", "2", "3", "4", "5", "6"]


def test_every_citation_resolves() -> None:
    wrong, count = [], 0
    for path in texts():
        for cited in CITED.finditer(path.read_text(encoding="utf-8")):
            count += 1
            missing = set(re.findall(r"§(\d)", cited[1])) - SECTIONS
            if missing:
                wrong.append(f"{path.relative_to(ROOT)}: {cited[0]}")
    assert not wrong
    assert count > 50


def test_no_text_names_a_page_that_the_project_lacks() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in texts()
        for found in ABSENT.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not wrong


@pytest.mark.parametrize("text", ["docs/method.md §7", "see docs/method.md §2, §9"])
def test_a_wrong_citation_is_seen(text: str) -> None:
    cited = CITED.search(text)
    assert cited and set(re.findall(r"§(\d)", cited[1])) - SECTIONS


@pytest.mark.parametrize("text", ["as METHOD §3 says", "(DESIGN, the river)", "see LAB.md"])
def test_a_page_that_is_not_here_is_seen(text: str) -> None:
    assert ABSENT.search(text)


def test_the_method_names_files_that_exist() -> None:
    for name in {*PATH.findall(METHOD), *re.findall(r"\]\(([\w./-]+)\)", METHOD)}:
        if name.startswith("reference/"):
            continue  # built with the site
        assert (ROOT / name).exists() or (ROOT / "docs" / name).exists(), name
