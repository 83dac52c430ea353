"""The reference is generated from the code; every link and every citation of the method resolves; fields of
imported files are those that are read."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.servers import completed
from tests.studies.scripts import script

from svload.model.columns import MEANINGS
from svload.store.parquet import TABLES

ROOT = Path(__file__).resolve().parents[2]
HOW_TO = (ROOT / "docs" / "how-to.md").read_text(encoding="utf-8")

MAKER = script(ROOT / "tools" / "make_reference.py")


def test_the_pages_are_written_and_others_dropped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(MAKER, "FOLDER", tmp_path)
    (tmp_path / "gone.md").write_text("a page of a module that is no more")
    assert MAKER.write() == tmp_path
    assert {path.name for path in tmp_path.iterdir()} == set(MAKER.PAGES)
    assert "svload load" in (tmp_path / "commands.md").read_text(encoding="utf-8")


def test_every_command_has_its_help() -> None:
    pages = MAKER.commands.help_pages()
    assert {"svload", "svload run", "svload plan", "svload lab up"} <= set(pages)
    assert all(text.startswith("Usage: ") for text in pages.values())


def test_every_field_of_every_artefact_has_its_meaning() -> None:
    files = MAKER.artefacts.files()
    models = [model for _, model in (*files, *MAKER.artefacts.parts(files))]
    assert {"Findings", "Claim", "Estimate", "GroupSummary"} <= {model.__name__ for model in models}
    assert MAKER.artefacts.untold(models) == []


def test_every_column_has_its_meaning() -> None:
    found = {(table, column) for table, columns in MEANINGS.items() for column in columns}
    assert found == {(table, column) for table, columns in TABLES.items() for column in columns}


FORMATS = {
    "JMeter, CSV": "jtl",
    "JMeter, XML": "jtl_xml",
    "Locust, `_stats_history.csv`": "locust",
    "k6, JSON lines": "k6",
    "k6, CSV": "k6",
}


@pytest.mark.parametrize("name", FORMATS)
def test_the_table_of_import_formats_names_fields_that_are_read(name: str) -> None:
    (line,) = re.findall(rf"^\| {re.escape(name)} \|(.*?)\|(.*?)\|", HOW_TO, flags=re.MULTILINE)
    source = (ROOT / "src/svload/store/foreign" / f"{FORMATS[name]}.py").read_text(encoding="utf-8")
    words = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}
    fields = [
        field.removeprefix("data.").removeprefix("tags.") for field in re.findall("`(.*?)`", "".join(line))
    ]
    assert len(fields) > 7 and set(fields) <= words


def test_every_link_of_the_documents_leads_somewhere() -> None:
    committed = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    texts = {page: page.read_text(encoding="utf-8") for page in committed if page.parent != MAKER.FOLDER}
    texts |= {MAKER.FOLDER / name: MAKER.make(name) for name in MAKER.PAGES}
    broken = []
    for page, written in texts.items():
        text = re.sub(r"^( *)(`{3,}).*?^\1\2$", "", written, flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, anchor = target.partition("#")
            there = (page.parent / path).resolve() if path else page
            if "://" in target:
                continue
            missing = there not in texts and not there.exists()
            if missing or (anchor and anchor not in anchors(texts.get(there) or there.read_text("utf-8"))):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken, "\n".join(broken)


def anchors(text: str) -> set[str]:
    """Return the anchors of a Markdown text's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


METHOD = (ROOT / "docs/method.md").read_text(encoding="utf-8")
SECTIONS = set(re.findall(r"^## §(\d) ", METHOD, re.MULTILINE))
CITED = re.compile(r"method\.md((?:[\s,]*(?:and )?§\d)+)")
PATH = re.compile(
    r"\b(?:docs|src|tests|tools|benches|examples|studies|engine)/[\w./-]+\.(?:md|py|rs|sh|yaml|csv)\b"
)
TEXT = {".py", ".rs", ".md", ".toml", ".j2", ".sh", ".yaml"}


def texts() -> list[Path]:
    """Return every text of the project that git knows."""
    listed = completed(["git", "ls-files", "-z"], cwd=ROOT, check=True).stdout.split("\0")
    found = [ROOT / name for name in listed if Path(name).suffix in TEXT]
    return [path for path in found if path.exists() and path != Path(__file__)]


def test_every_citation_resolves() -> None:
    cited = [(path, one) for path in texts() for one in CITED.findall(path.read_text(encoding="utf-8"))]
    assert [(path, one) for path, one in cited if not set(re.findall(r"§(\d)", one)) <= SECTIONS] == []
    assert len(cited) > 50


def test_the_method_names_files_that_exist() -> None:
    for name in {*PATH.findall(METHOD), *re.findall(r"\]\(([\w./-]+)\)", METHOD)}:
        if name.startswith("reference/"):
            continue  # built with the site
        assert (ROOT / name).exists() or (ROOT / "docs" / name).exists(), name
