"""URLs as people type them are sent as browsers and curl send them."""

from __future__ import annotations

import re
from urllib.parse import quote, urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svload.model.typed_url import sent_as


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("/straße", "/stra%C3%9Fe"),
        ("/a b?q=ä b&c=%zz", "/a%20b?q=%C3%A4%20b&c=%zz"),
        ("/%7euser/%C3%9F", "/%7euser/%C3%9F"),
        ("/a/./b/../c/", "/a/c/"),
        ("/a/%2E%2e", "/"),
        ("/..//x", "//x"),
        ("/a?b=/../c", "/a?b=/../c"),
        ("/a[1]|b?f[]={x}", "/a[1]|b?f[]={x}"),
        ("/{x}", "/%7Bx%7D"),
        ("/ü/${row.a}/../b", "/%C3%BC/${row.a}/../b"),
        ("${row.path}/../b?q=${row.ü}", "${row.path}/../b?q=${row.ü}"),
    ],
)
def test_typed_urls(typed: str, sent: str) -> None:
    assert sent_as(typed) == sent


@given(st.lists(st.sampled_from(["a", ".", "..", "ü b", "c;d", "%41"]), min_size=1, max_size=6))
def test_dots_are_removed_as_urllib_does(segments: list[str]) -> None:
    path = "/" + "/".join(segments)
    wanted = urljoin("http://h", path).removeprefix("http://h") or "/"
    assert sent_as(path) == quote(wanted, safe="/;%")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_is_sent_is_ascii_and_stays_so(text: str) -> None:
    sent = sent_as(f"/{text}")
    assert re.fullmatch(r"[\x21-\x7e]+", re.sub(r"\$\{[^{}]*\}", "x", sent))
    assert sent_as(sent) == sent
