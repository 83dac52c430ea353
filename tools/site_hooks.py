"""Changes by `make site` to the Markdown that GitHub shows unchanged: pages from the project's root are added
to the site, fences lose the tags by which tests run them, links to files that are not pages (examples,
studies) become names, and search works in pages opened as files.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
JOINED = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "GLOSSARY.md")
_FENCE = re.compile(r"^( *)(`{3,}|~{3,})(\w+) +([^\n`]*)$", re.MULTILINE)
_CODE = re.compile(r"<code>[^<]*</code>")
_FILE = re.compile(r"\bfile=(\S+)")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Make the pages of docs/reference/ before mkdocs lists its files."""
    sys.path.insert(0, str(ROOT / "tools"))  # mkdocs does not search there by default
    from make_reference import write

    write()
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the root's pages to those of docs/, and the site's own style and script."""
    for name in JOINED:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for path in sorted((ROOT / "tools" / "site").iterdir()):
        files.append(File.generated(config, f"assets/{path.name}", abs_src_path=str(path)))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Remove the backslash that GitHub needs before a bar in a table's code, and that Python-Markdown
    prints."""
    return _CODE.sub(lambda code: code[0].replace("\\|", "|"), html)


@event_priority(-100)  # after the index is written
def on_post_build(config: Any) -> None:
    """Write the search index as a script: a page opened as a file may load that, but no JSON."""
    index = Path(config.site_dir) / "search" / "search_index.json"
    if index.is_file():
        index.with_suffix(".js").write_text(
            f"var __index = {index.read_text(encoding='utf-8')}", encoding="utf-8"
        )


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """Return one page in the form that the site needs."""
    here = page.file.src_uri
    folder = "" if here in JOINED else posixpath.join("docs", posixpath.dirname(here))
    known = {file.src_uri for file in files}
    text = _FENCE.sub(_without_tags, markdown)
    return _LINK.sub(lambda link: _relinked(link, folder, posixpath.dirname(here), known), text)


def _without_tags(fence: re.Match[str]) -> str:
    file = _FILE.search(fence[4])
    title = f' title="{file[1]}"' if file else ""
    return f"{fence[1]}{fence[2]}{fence[3]}{title}"


def _relinked(link: re.Match[str], folder: str, here: str, known: set[str]) -> str:
    """Return a link with the site's target: the project's paths start at its root, the site's at docs/."""
    text, target, anchor = link[1], link[2], link[3] or ""
    if "://" in target or target.startswith("mailto:"):
        return link[0]
    path = posixpath.normpath(posixpath.join(folder, target))
    page = path.removeprefix("docs/")
    if page in known:
        return f"[{text}]({posixpath.relpath(page, here or '.')}{anchor})"
    return text if text.strip("`") == path else f"{text} (`{path}`)"
