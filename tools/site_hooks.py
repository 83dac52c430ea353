"""What `make site` does to the Markdown that GitHub shows as it is: pages from the project's root join the site, fences lose the
tags by which tests run them, and links to what is no page (examples, studies) become names.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
JOINED = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "GLOSSARY.md")
_FENCE = re.compile(r"^( *)(`{3,}|~{3,})(\w+) +([^\n`]*)$", re.MULTILINE)
_FILE = re.compile(r"\bfile=(\S+)")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """The root's pages, beside those of docs/."""
    for name in JOINED:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """One page as the site wants it."""
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
    """A link as the site has its target: the project's paths begin at its root, the site's at docs/."""
    text, target, anchor = link[1], link[2], link[3] or ""
    if "://" in target or target.startswith("mailto:"):
        return link[0]
    path = posixpath.normpath(posixpath.join(folder, target))
    page = path.removeprefix("docs/")
    if page in known:
        return f"[{text}]({posixpath.relpath(page, here or '.')}{anchor})"
    return text if text.strip("`") == path else f"{text} (`{path}`)"
