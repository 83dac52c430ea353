"""The pages' templates: all text escaped, invisible characters spelt out, all in one file."""

from __future__ import annotations

import contextlib
import sys
import zlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, FileSystemBytecodeCache, FunctionLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

from svload.model.units import rounded
from svload.model.visible import visible
from svload.report.wording.criteria import criterion_words
from svload.report.wording.spelling import (
    GRADE_MARK,
    grade_words,
    graded_again,
    metric_label,
    outcome_words,
    show_ratio,
    show_value,
)


def render_template(name: str, context: Mapping[str, object]) -> str:
    """Return the page made from that template (a file beside this one)."""
    page = _environment().get_template(name)
    return page.render(style=Markup(_text("style.css")), script=Markup(_text("script.js")), **context)


class _BesideModules(FileSystemBytecodeCache):
    """A cache of compiled templates where Python keeps its own bytecode, under the same rules: compiling them
    takes a third of a second."""

    def __init__(self) -> None:
        here = Path(__file__)
        # The environment's settings are in this file: templates compiled under others are not found.
        settings = zlib.crc32(here.read_bytes())
        super().__init__(str(here.parent / "__pycache__"), f"%s.{settings:08x}.jinja")

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write it, unless Python must not write bytecode or lacks the permission."""
        if not sys.dont_write_bytecode:
            with contextlib.suppress(OSError):
                super().dump_bytecode(bucket)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_text),
        bytecode_cache=_BesideModules(),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.globals.update(
        mark=GRADE_MARK,
        criterion_words=criterion_words,
        show_value=show_value,
        rounded=rounded,
        show_ratio=show_ratio,
        metric_label=metric_label,
        outcome_words=outcome_words,
        graded_again=graded_again,
        grade_words=grade_words,
    )
    return environment


def _shown(value: object) -> object:
    return visible(value) if type(value) is str else value


@cache
def _text(name: str) -> str:
    return files("svload.report.page").joinpath(name).read_text(encoding="utf-8")
