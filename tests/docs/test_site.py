"""`make site`: all pages exist, all links resolve, and nothing is loaded from the network."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.bounds import HANG_S
from tests.servers import completed

ROOT = Path(__file__).resolve().parents[2]
LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}
TAGS = re.compile(r"\brun=(?:pure|plan|truth|none)\b")


class Page(HTMLParser):
    """What a page loads, its links, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if "id" in found:
            self.anchors.add(found["id"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in LOADS and LOADS[tag] in found and found.get("rel") != "canonical":
            self.loads.append(found[LOADS[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    done = completed(command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "true"})
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def pages(site: Path) -> Iterator[tuple[Path, Page]]:
    for path in sorted(site.rglob("*.html")):
        if path.name != "404.html":
            yield path, Page(path)


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for path, page in pages(site):
        for target in page.loads:
            assert not re.match(r"(?:https?:)?//", target), f"{path.name}: {target}"
            assert (path.parent / target.split("?")[0].split("#")[0]).exists(), f"{path.name}: {target}"
    for style in site.rglob("*.css"):
        assert not re.findall(r"url\(\s*[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), style.name


def test_every_document_is_a_page_in_the_menu(site: Path) -> None:
    made = {str(path.relative_to(site)) for path, _ in pages(site)}
    documents = (
        path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")
    )
    assert {str(path).replace("README.html", "index.html") for path in documents} <= made
    menu = {link.partition("#")[0] for link in Page(site / "index.html").links}
    assert made - {"index.html", "example/report.html"} <= menu


def test_no_page_shows_a_tag_of_its_tests_or_a_backslash_before_a_bar(site: Path) -> None:
    assert "<code>str | null</code>" in (site / "reference" / "artefacts.html").read_text(encoding="utf-8")
    for path, _ in pages(site):
        shown = path.read_text(encoding="utf-8")
        assert not TAGS.search(shown), path.name
        assert "```" not in re.sub(r"<code>.*?</code>", "", shown, flags=re.DOTALL), path.name
        assert "\\|" not in "".join(re.findall(r"<code>[^<]*</code>", shown)), path.name


@pytest.mark.look
def test_works_from_a_file(needs: Callable[..., None], request: pytest.FixtureRequest, site: Path) -> None:
    needs("chromium")
    page = request.getfixturevalue("browser").new_page(viewport={"width": 1200, "height": 900})
    failed: list[str] = []
    page.on("requestfailed", lambda asked: failed.append(asked.url))
    page.goto((site / "reference" / "artefacts.html").as_uri())
    broken = page.locator("td:first-child code").evaluate_all(
        "codes => codes.filter(code => code.getClientRects().length > 1).map(code => code.textContent)"
    )
    assert broken == []
    page.locator("input.md-search__input").click()
    page.keyboard.type("generator-harm")
    page.locator("article.md-search-result__article").first.wait_for(timeout=1000 * HANG_S)
    assert failed == []
    page.close()
