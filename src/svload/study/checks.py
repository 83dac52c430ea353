"""Checks of answers: from the study file's texts to data."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from svload.model.traffic import (
    BodyCheck,
    Check,
    DigestCheck,
    FeederPart,
    HeaderCheck,
    SizeCheck,
    StatusCheck,
    TakenPart,
    TextTest,
)
from svload.study.mistakes import nearest
from svload.study.references import REFERENCE, refers, unescaped
from svload.study.templates import Names, part_of, template

CHECK_FORMS = (
    "Write status == 200, size_bytes == ${feeder.size_bytes}, header.NAME present, header.NAME == TEXT, "
    "body contains TEXT, body matches REGEX, or sha256 == DIGEST."
)
_CHECK = re.compile(r"\s*(status|size_bytes|sha256|md5)\s*(==|<=|>=|<|>)\s*(\S.*?)\s*", re.DOTALL)
_HEADER = re.compile(
    r"\s*header\.([A-Za-z0-9!#$%&'*+.^_`|~-]+)\s+(present|==|contains|matches)\s*(.*?)\s*", re.DOTALL
)
_BODY = re.compile(r"\s*body\s+(==|contains|matches)\s*(.*?)\s*", re.DOTALL)
_WORDS = ("status", "size_bytes", "header", "body", "sha256", "md5")
_HEX_DIGITS = {"sha256": 64, "md5": 32}


def read_check(text: str, names: Names) -> Check | str:
    """Return a check as data; else what is wrong with it."""
    if match := _HEADER.fullmatch(text):
        test = _text_test(match[2], match[3], names)
        return test if isinstance(test, str) else HeaderCheck(name=text, header=match[1], test=test)
    if match := _BODY.fullmatch(text):
        test = _text_test(match[1], match[2], names)
        return test if isinstance(test, str) else BodyCheck(name=text, body=test)
    match = _CHECK.fullmatch(text)
    if not match:
        words = text.replace(".", " ").split()
        return "expected a check" + (f" ({nearest(words[0], _WORDS)})" if words else "")
    what, op, value = match.groups()
    readers: dict[str, Callable[[str, str, str, Names], Check | str]] = {
        "status": _status,
        "size_bytes": _size,
        "sha256": _digest,
        "md5": _digest,
    }
    return readers[what](text, op, value, names)


def _text_test(word: str, value: str, names: Names) -> TextTest | str:
    if word == "present":
        return "expected nothing after present" if value else TextTest(present=True)
    if not value:
        return f"expected a text after {word}"
    if word == "matches":
        varies = "expected a pattern that is the same in all requests"
        return varies if refers(value) else TextTest(matches=unescaped(value))
    wanted = template(value, names)
    return TextTest(equals=wanted) if word == "==" else TextTest(contains=wanted)


def _is_of_a_set(part: TakenPart, names: Names) -> bool:
    return part.taken.partition(".")[0] in names.sets


def _size(text: str, op: str, value: str, names: Names) -> Check | str:
    if op != "==":
        return "a size can only be checked with =="
    if (reference := REFERENCE.fullmatch(value)) and not reference[1]:
        part = part_of(reference[2].strip(), names)
        return (
            SizeCheck(name=text, size_bytes=part)
            if isinstance(part, FeederPart) or (isinstance(part, TakenPart) and _is_of_a_set(part, names))
            else "expected a column"
        )
    known = re.fullmatch(r"[0-9]{1,18}", value)
    return SizeCheck(name=text, size_bytes=int(value)) if known else "expected a number of bytes"


def _digest(text: str, op: str, value: str, names: Names) -> Check | str:
    algorithm: Literal["sha256", "md5"] = "sha256" if text.lstrip().startswith("sha256") else "md5"
    if op != "==":
        return "a digest can only be checked with =="
    digits = _HEX_DIGITS[algorithm]
    if "${" not in value and not re.fullmatch(rf"[0-9a-fA-F]{{{digits}}}", value):
        return f"expected {digits} hexadecimal digits"
    return DigestCheck(name=text, digest=algorithm, equals=template(value, names))


def _status(text: str, op: str, value: str, names: Names) -> Check | str:
    if not re.fullmatch(r"[1-5]\d\d", value):
        return "expected a status from 100 to 599"
    status = int(value)
    low, high = {"==": (status, status), "<=": (100, status), "<": (100, status - 1), ">=": (status, 599), ">": (status + 1, 599)}[op]  # fmt: skip
    if low > high:
        return "no status fits, since they are from 100 to 599"
    return StatusCheck(name=text, status=(low, high))
