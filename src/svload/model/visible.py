"""Text from elsewhere made safe to show: characters that control a terminal, or reorder what follows, are
spelt out."""

from __future__ import annotations

import io
import re

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


_UNDECODED = re.compile("[\ud800-\udfff]")


def is_decoded(text: str) -> bool:
    """Return whether `text` holds no byte that was not UTF-8: a path may hold some, other text can't be
    written to a file."""
    return not _UNDECODED.search(text)


def visible(text: str) -> str:
    """Return `text` with invisible characters that reorder or break what follows (bidi overrides, controls)
    as `[U+202E]`."""
    return _UNSEEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)


def visible_json(text: str) -> str:
    """Return JSON of the same meaning, with those characters, which only occur in strings, as escapes."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def marks_as_letters(text: str) -> str:
    """`text` with `_` for each combining mark, at the same places: what `\\w` misses of words in Devanagari, or with
    decomposed accents."""
    if text.isascii():
        return text
    import unicodedata

    return "".join("_" if unicodedata.category(sign)[0] == "M" else sign for sign in text)


FORMULA = "=+-@\t\r"
"""Characters at which a spreadsheet takes a text for a formula."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def plain_cell(text: str) -> str:
    """Return a text for a spreadsheet: formulas get an apostrophe in front; numbers stay numbers."""
    return f"'{text}" if text[:1] and text[0] in FORMULA and not _NUMBER.fullmatch(text) else text


class PlainStream(io.TextIOWrapper):
    """A stream on which everything printed stays plain text."""

    def write(self, text: str) -> int:
        return super().write(visible(text))

    @property
    def obeyed(self) -> io.TextIOBase:
        """Return the underlying stream, for callers that draw on a terminal and clean their text
        themselves."""
        return _Obeyed(self)


class _Obeyed(io.TextIOBase):
    def __init__(self, plain: PlainStream) -> None:
        self._plain = plain

    def write(self, text: str) -> int:
        return io.TextIOWrapper.write(self._plain, text)

    def flush(self) -> None:
        self._plain.flush()

    def isatty(self) -> bool:
        return self._plain.isatty()

    def fileno(self) -> int:
        return self._plain.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._plain.encoding
