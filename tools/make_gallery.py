"""Makes the pictures of docs/gallery.md and of the report's first page from finished runs or packs:
`make_gallery.py RUN --think-times RUN`. Needs chromium."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from markdown_it import MarkdownIt
from PIL import Image, ImageOps
from playwright.sync_api import Page, sync_playwright
from record_terminal import write_recording

from svload import api
from svload.store import find_run

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "gallery"
FIGURES = ("response-double.svg", "tail-double.svg", "anatomy-double.svg")
OF_THINK_TIMES = {
    "load-throughput-double.svg": "factorial-throughput.svg",
    "comparisons-double.svg": "factorial-comparisons.svg",
}
FIRST_PAGES = 12
"""They contain the workbook's guide and summary; all pages would be thousands."""
ONLY_IN_SUMMARY = "doubts: in how many trials"
MARGIN = 12
CSS = """body{font:16px/1.5 -apple-system,"Segoe UI","Liberation Sans",Arial,sans-serif;color:#1f2328;margin:24px;width:1140px}
table{border-collapse:collapse;font-size:14px}td,th{border:1px solid #d1d9e0;padding:5px 11px}tr:nth-child(even){background:#f6f8fa}
h2{border-bottom:1px solid #d1d9e0;padding-bottom:6px;margin-top:0}sub{font-size:12px}li{margin:3px 0}"""


@contextmanager
def browsing(width: int, height: int) -> Iterator[Page]:
    """Open a page of Chromium."""
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": width, "height": height})
        browser.close()


def summary_picture(markdown: str, to: Path) -> None:
    """Draw the summary as a CI job's page shows it."""
    body = MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(markdown)
    with browsing(1200, 300) as page:
        page.set_content(f"<!doctype html><style>{CSS}</style>{body}")
        page.screenshot(path=str(to), full_page=True)


def report_picture(report: Path, to: Path) -> None:
    """Draw the top of the report."""
    with browsing(1280, 1660) as page:
        page.goto(report.resolve().as_uri())
        page.screenshot(path=str(to))


def copy_figures(run: str, names: Mapping[str, str]) -> None:
    """Draw a run's figures and keep some of them, under the gallery's names."""
    with tempfile.TemporaryDirectory() as folder:
        api.figures(run, Path(folder))
        for name, kept in names.items():
            shutil.copy(Path(folder) / name, FOLDER / kept)


def workbook_picture(book: Path, to: Path) -> None:
    """Draw the workbook's summary as printed, without its footer and margins. Raise ValueError if it is not
    among the first pages."""
    with tempfile.TemporaryDirectory() as folder:
        pages = f'pdf:calc_pdf_Export:{{"PageRange":{{"type":"string","value":"1-{FIRST_PAGES}"}}}}'
        profile = f"-env:UserInstallation={(Path(folder) / 'profile').as_uri()}"
        _run("soffice", profile, "--headless", "--convert-to", pages, "--outdir", folder, str(book))
        pdf = str(Path(folder) / f"{book.stem}.pdf")
        texts = [" ".join(text.split()) for text in _run("pdftotext", pdf, "-").split("\f")]
        number = next((number for number, text in enumerate(texts, 1) if ONLY_IN_SUMMARY in text), None)
        if number is None:
            raise ValueError(f"the first {FIRST_PAGES} pages of {book} hold no summary")
        only = ("-f", str(number), "-l", str(number), "-singlefile")
        _run("pdftoppm", "-r", "150", *only, pdf, str(Path(folder) / "page"))
        with Image.open(Path(folder) / "page.ppm") as page:
            cropped(page).quantize(216).save(to, optimize=True)


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


def cropped(page: Image.Image) -> Image.Image:
    """Return the page without the footer and without white margins."""
    inked = (
        page.convert("L")
        .crop((0, 0, page.width, int(0.93 * page.height)))
        .point(lambda grey: 255 * (grey < 250))
    )
    left, top, right, bottom = inked.getbbox() or (0, 0, *inked.size)
    return ImageOps.expand(page.crop((left, top, right, bottom)), MARGIN, "white")


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="a finished run's folder")
    parser.add_argument("--command", default="svload demo", help="the command that made it")
    parser.add_argument("--think-times", help="a finished run of studies/002-factorial-redis")
    asked = parser.parse_args(words)
    if asked.think_times:
        copy_figures(asked.think_times, OF_THINK_TIMES)
    run = find_run(asked.run, Path("runs"))
    FOLDER.mkdir(exist_ok=True)
    _, files = api.report(run)
    copy_figures(str(run.path), {name: name for name in FIGURES})
    write_recording(run, asked.command, FOLDER / "terminal.svg")
    summary_picture(files["summary.md"].read_text(encoding="utf-8"), FOLDER / "summary.png")
    report_picture(files["report.html"], FOLDER.parent / "report.png")
    if all(map(shutil.which, ("soffice", "pdftotext", "pdftoppm"))):
        workbook_picture(files["report.xlsx"], FOLDER / "workbook.png")
    else:
        print("workbook.png stays as it was: it needs LibreOffice and poppler's tools")
    for path in sorted(FOLDER.iterdir()):
        print(f"{path.relative_to(FOLDER.parent.parent)}: {path.stat().st_size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
