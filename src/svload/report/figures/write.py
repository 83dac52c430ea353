"""`write_figures`: every figure of a run, at both widths, with captions to copy. A chart of the page becomes a
file of its own: SVG with the light colours of the page's style sheet in each shape, PDF, and PNG."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.resources import files
from io import BytesIO
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from unicodedata import bidirectional, category
from xml.etree import ElementTree

from svload.model.outputs import write_output
from svload.model.results import Findings
from svload.model.visible import visible
from svload.report.data.gather import Gathered, gather
from svload.report.figures.kinds import KINDS, WIDTHS_PT, Figure
from svload.store.layout import RunDir

POINTS = 7.0 / 11.0
"""Points per pixel of the page: its type of 11 px is printed at 7 pt."""
_TYPE_PX = 11.0
_PPI = 300
_FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
_EMBEDDED = {"normal": "Vera.ttf", "600": "VeraBd.ttf"}
_EMBEDDED_PX = 0.9 * _TYPE_PX
"""Vera, which reportlab brings along, is larger than the other fonts at the same size."""
_LIKE = {"✗": "×", "✓": "+", "−": "-"}
"""Letters that stand for marks which the embedded font lacks."""
_UNKNOWN = "?"
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_SELECTOR = re.compile(r"(svg )?([a-z]*)((?:\.[\w-]+)*)(\[class\^=(\w)\])?")
_PAINT = (
    "fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "fill-opacity",
    "font-weight", "font-style",
)  # fmt: skip


def write_figures(run: RunDir, findings: Findings, folder: Path) -> tuple[Path, ...]:
    """Write `<figure>-<single|double>.<svg|pdf|png>` for each figure that the run has data for, and
    captions.md.

    Raises SvloadError for a run without a readable lock, OSError when the disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    figures = found_figures(gather(run, findings))
    unknown: set[str] = set()
    paths = [path for figure in figures for path in _write(figure, folder, unknown)]
    captions = folder / "captions.md"
    write_output(captions, _captions(figures, run.name, unknown))
    return (*paths, captions)


def found_figures(gathered: Gathered) -> list[Figure]:
    """Return the run's figures of every kind, by the kinds' names."""
    return [figure for kind in KINDS for figure in kind(gathered)]


def _write(figure: Figure, folder: Path, unknown: set[str]) -> list[Path]:
    """Write one figure's files; add the letters that its PDF shows as ? to `unknown`."""
    paths = []
    for width, points in WIDTHS_PT.items():
        svg = as_svg(figure.draw(points / POINTS), figure.caption)
        pdf = as_pdf(svg, figure.name)
        letters = {letter for shape in svg.iter("text") for letter in shape.text or ""} - {_UNKNOWN}
        unknown |= {letter for letter in letters if letter_of(letter)[1] == _UNKNOWN}
        drawn = {"svg": ElementTree.tostring(svg), "pdf": pdf, "png": as_png(pdf)}
        for ending, data in drawn.items():
            path = folder / f"{figure.name}-{width}.{ending}"
            write_output(path, data)
            paths.append(path)
    return paths


def _captions(figures: list[Figure], run: str, unknown: set[str]) -> str:
    parts = [f"# Figures of {run}\n"]
    for figure in figures:
        parts.append(
            f"## {figure.name}\n\n![{figure.name}]({figure.name}-double.svg)\n\n{visible(figure.caption)}\n"
        )
    if unknown:
        letters = visible(" ".join(sorted(unknown)))
        why = "no TrueType font of this machine has it, or its script can't be drawn"
        parts.append(f"PDF and PNG have {_UNKNOWN} for {letters}: {why}. The SVG files have all letters.\n")
    return "\n".join(parts)


def as_svg(chart: str, caption: str) -> ElementTree.Element:
    """Return the chart sized in points, with its caption inside, its classes replaced by attributes."""
    root = ElementTree.fromstring(chart)
    width, height = _size(root)
    for shape in root.iter():
        if shape is not root:
            shape.attrib.update(painted(shape.tag, shape.attrib.get("class", "")))
        for name in ("class", "data-n", "data-x", "data-y"):
            shape.attrib.pop(name, None)
    root.attrib.update(
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": f"{width * POINTS:.1f}",
            "height": f"{height * POINTS:.1f}",
            "font-family": _FONT,
            "font-size": f"{_TYPE_PX:g}",
        }
    )
    root.insert(0, ElementTree.Element("rect", {"width": "100%", "height": "100%", "fill": "#ffffff"}))
    described = ElementTree.Element("desc")
    described.text = visible(caption)
    root.insert(0, described)
    return root


def as_pdf(svg: ElementTree.Element, title: str) -> bytes:
    """Return the drawing as a PDF page of the same size, fonts embedded."""
    from reportlab.pdfgen.canvas import Canvas

    width, height = _size(svg)
    out = BytesIO()
    canvas = Canvas(out, (width * POINTS, height * POINTS), invariant=1)
    canvas.setTitle(title)
    canvas.translate(0, height * POINTS)
    canvas.scale(POINTS, -POINTS)
    for shape in svg.iter():
        if shape.tag in ("path", "circle", "text") or (shape.tag == "rect" and "x" in shape.attrib):
            canvas.saveState()
            _paint(canvas, shape)
            canvas.restoreState()
    canvas.showPage()
    canvas.save()
    return out.getvalue()


def as_png(pdf: bytes) -> bytes:
    """Return the PDF's page as a picture of 300 dots an inch."""
    from pypdfium2 import PdfDocument

    out = BytesIO()
    document = PdfDocument(pdf)
    document[0].render(scale=_PPI / 72).to_pil().save(out, "PNG", dpi=(_PPI, _PPI))
    document.close()
    return out.getvalue()


def _size(root: ElementTree.Element) -> tuple[float, float]:
    width, height = root.attrib["viewBox"].split()[2:]
    return float(width), float(height)


def _paint(canvas: Any, shape: ElementTree.Element) -> None:
    """Draw one shape; its own look is in its attributes."""
    look = {name: value for name, value in shape.attrib.items() if name in _PAINT}
    fill, stroke = look.get("fill", "#000000"), look.get("stroke", "none")
    opacity = float(look.get("opacity", 1))
    if fill != "none":
        canvas.setFillColor(fill)
        canvas.setFillAlpha(opacity * float(look.get("fill-opacity", 1)))
    if stroke != "none":
        canvas.setStrokeColor(stroke)
        canvas.setStrokeAlpha(opacity)
        canvas.setLineWidth(float(look.get("stroke-width", 1)))
        canvas.setLineJoin(1 if look.get("stroke-linejoin") == "round" else 0)
        canvas.setDash([float(one) for one in look.get("stroke-dasharray", "").split()])
    painted = {"stroke": stroke != "none", "fill": fill != "none"}
    at = {name: float(shape.attrib[name]) for name in ("x", "y", "width", "height", "cx", "cy", "r") if name in shape.attrib}  # fmt: skip
    match shape.tag:
        case "text":
            _letter(canvas, shape, look, at["x"], at["y"])
        case "rect":
            canvas.rect(at["x"], at["y"], at["width"], at["height"], **painted)
        case "circle":
            canvas.circle(at["cx"], at["cy"], at["r"], **painted)
        case "path":
            path = canvas.beginPath()
            for first, x, y in _steps(shape.attrib["d"]):
                (path.moveTo if first else path.lineTo)(x, y)
            canvas.drawPath(path, **painted)


def _letter(canvas: Any, shape: ElementTree.Element, look: dict[str, str], x: float, y: float) -> None:
    canvas.translate(x, y)
    canvas.scale(1, -1)
    letters = [letter_of(letter, look.get("font-weight", "normal")) for letter in shape.text or ""]
    parts = [(font, "".join(one for _, one in same)) for font, same in groupby(letters, itemgetter(0))]
    widths = [canvas.stringWidth(text, font, _EMBEDDED_PX) for font, text in parts]
    at = {"middle": -sum(widths) / 2, "end": -sum(widths)}.get(shape.attrib.get("text-anchor", ""), 0.0)
    for (font, text), width in zip(parts, widths, strict=True):
        canvas.setFont(font, _EMBEDDED_PX)
        canvas.drawString(at, 0, text)
        at += width


@cache
def letter_of(letter: str, weight: str = "normal") -> tuple[str, str]:
    """Return the font in which a PDF has this letter, and the letter or what stands for it: of the embedded
    font, else of one of this machine."""
    own = _EMBEDDED[weight]
    for one in (letter, _LIKE.get(letter, letter)):
        if _has(own, own, 0, one):
            return own, one
    # Right-to-left scripts, and those that join letters or put marks on them, would be drawn wrongly.
    if bidirectional(letter) not in ("R", "AL", "AN") and category(letter)[0] not in "CM":
        bold = "bold" if weight != "normal" else "regular"
        wanted = f"sans-serif:weight={bold}:charset={ord(letter):x}:fontformat=TrueType"
        with suppress(OSError, subprocess.SubprocessError, ValueError):
            asked = ("fc-match", "--format=%{index} %{file}", wanted)
            found = subprocess.run(asked, capture_output=True, text=True, timeout=5, check=True).stdout
            index, _, file = found.partition(" ")
            if _has(found, file, int(index), letter):
                return found, letter
    return own, _UNKNOWN


def _has(name: str, file: str, index: int, letter: str) -> bool:
    """Register a TrueType font under a name, unless it is; return whether it has the letter."""
    from reportlab.pdfbase.pdfmetrics import getFont, getRegisteredFontNames, registerFont
    from reportlab.pdfbase.ttfonts import TTFError, TTFont

    if name not in getRegisteredFontNames():
        try:
            registerFont(TTFont(name, file, subfontIndex=index))
        except TTFError:
            return False
    return ord(letter) in getFont(name).face.charToGlyph


def _steps(d: str) -> Iterator[tuple[bool, float, float]]:
    """Yield (whether a stroke starts here, x, y) of a path of `M`, `L` and `l`."""
    x = y = 0.0
    for command, numbers in re.findall(r"([MLl])([^MLl]*)", d):
        found = [float(one) for one in re.findall(r"-?[\d.]+", numbers)]
        for dx, dy in zip(found[::2], found[1::2], strict=True):
            x, y = (x + dx, y + dy) if command == "l" else (dx, dy)
            yield command == "M", x, y


@cache
def painted(tag: str, css: str) -> dict[str, str]:
    """Return the attributes that a shape of these classes has by the page's style sheet, in light colours."""
    classes, found = set(css.split()), {}
    for of_tag, wanted, beginning, declared in _rules():
        if of_tag in ("", tag) and wanted <= classes and css.startswith(beginning):
            found.update(declared)
    return {name: _value(found[name], found) for name in _PAINT if name in found}


def _value(text: str, own: dict[str, str]) -> str:
    """Return a value with its variables and colours resolved."""
    while name := re.search(r"var\((--\w+)\)", text):
        text = text.replace(name[0], own.get(name[1]) or _variables()[name[1]])
    text = re.sub(r"light-dark\(([^,]+),[^)]*\)", r"\1", text)
    return re.sub(r"^#(\w)(\w)(\w)$", r"#\1\1\2\2\3\3", text)


@cache
def _style() -> str:
    return files("svload.report.page").joinpath("style.css").read_text(encoding="utf-8")


@cache
def _variables() -> dict[str, str]:
    return dict(re.findall(r"(--\w+):(light-dark\([^)]*\))", _style().partition("}")[0]))


@cache
def _rules() -> list[tuple[str, frozenset[str], str, dict[str, str]]]:
    """Return (element, classes, beginning of the class, declarations) of every rule for shapes, and of those
    that only set a shape's own colour; the most specific last."""
    found = []
    for selectors, body in _RULE.findall(_style()):
        declared = dict(part.split(":", 1) for part in body.split(";") if ":" in part)
        for selector in selectors.split(","):
            match = _SELECTOR.fullmatch(selector.strip())
            if match and (match[1] or all(name.startswith("--") for name in declared)):
                classes = frozenset(match[3].split(".")[1:])
                found.append((match[2], classes, match[5] or "", declared))
    return sorted(found, key=lambda rule: (len(rule[1]) + bool(rule[2] and rule[3]), bool(rule[0])))
