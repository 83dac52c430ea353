"""Quantities and URLs: parsed as typed, shown or sent in their usual form."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svload.model.typed_url import sent_as
from svload.model.units import (
    Misread,
    bytes_per_s,
    duration_ns,
    parse_quantity,
    show_duration,
    show_level,
    show_number,
    show_rate,
    show_size,
    size_bytes,
)


@pytest.mark.parametrize(
    ("number", "figures", "shown"),
    [
        (1_000_000, 6, "1,000,000"),
        (250.5, 6, "250.5"),
        (12_345.6, 4, "12,346"),
        (0, 6, "0"),
        (-1.2345678e-7, 3, "-0.000000123"),
        (9.999996e-5, 6, "0.0001"),
    ],
)
def test_a_number_without_an_exponent(number: float, figures: int, shown: str) -> None:
    assert show_number(number, figures) == shown
    assert (show_level(number, True), show_level(number, False)) == (
        f"{show_number(number)}/s",
        f"{show_number(number)} users",
    )


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 ns"),
        (999.6e-9, "1 µs"),
        (0.0009996, "1 ms"),
        (0.9996, "1 s"),
        (200, "3 min 20 s"),
        (119.6, "2 min 0 s"),
        (3599.7, "1 h 0 min"),
        (7170.5, "2 h 0 min"),
    ],
)
def test_a_duration(seconds: float, shown: str) -> None:
    assert show_duration(seconds) == shown


@given(st.floats(min_value=0, max_value=2**60))
def test_no_size_is_shown_with_an_exponent_or_far_off(size: float) -> None:
    shown = show_size(size)
    assert "e" not in shown
    assert abs(size_bytes(shown) - size) <= 0.005 * size + 0.5


@given(st.floats(min_value=1e-6, max_value=99))
def test_no_duration_is_shown_with_an_exponent_or_far_off(seconds: float) -> None:
    shown = show_duration(seconds)
    assert "e" not in shown.replace("µs", "")
    assert abs(duration_ns(shown) / 1e9 - seconds) <= 0.006 * seconds


@pytest.mark.parametrize(
    ("text", "rate", "shown"),
    [
        ("20 MB/s", 20_000_000, "20 MB/s"),
        ("1 KiB/s", 1024, "1.02 kB/s"),
        ("10 Mbit/s", 1_250_000, "1.25 MB/s"),
        ("800 bit/s", 100, "100 B/s"),
    ],
)
def test_a_rate_of_data(text: str, rate: int, shown: str) -> None:
    assert bytes_per_s(text) == rate
    assert show_rate(rate) == shown


@pytest.mark.parametrize("text", ["20 MB", "20", 20, "0 MB/s", "10/s", "10 rps", "-1 MB/s", "x Mbit/s", None])
def test_what_is_no_rate_of_data(text: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        bytes_per_s(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1,5s", "“1.5s” or “15s”"),
        ("0,2 s", "“0.2 s”"),
        ("1_5s", "“1.5s” or “15s”"),
        ("1'500 ms", "“1.500 ms” or “1500 ms”"),
        ("1,2,3s", "“123s”"),
    ],
)
def test_a_mark_that_two_people_read_differently_is_refused(text: str, meant: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"write {meant}")):
        duration_ns(text)


@pytest.mark.parametrize(
    ("read", "text", "meant"),
    [
        (size_bytes, "100 KB", ["100 kB", "100 KiB"]),
        (size_bytes, "1.5mb", ["1.5MB", "1.5MiB"]),
        (size_bytes, "10k", ["10kB", "10KiB"]),
        (size_bytes, "2 gib", ["2 GiB"]),
        (bytes_per_s, "20 mb/s", ["20 MB/s", "20 MiB/s"]),
        (duration_ns, "5 sec", ["5 s"]),
        (duration_ns, "10 \u03bcs", ["10 us"]),
        (lambda text: parse_quantity(text, "rate_rps"), "5 req/s", ["5/s"]),
    ],
)
def test_a_unit_in_other_letters_is_refused_with_what_was_meant(
    read: Callable[[str], float], text: str, meant: list[str]
) -> None:
    with pytest.raises(Misread) as caught:
        read(text)
    assert caught.value.readings == meant and all(read(reading) > 0 for reading in meant)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert " or ".join(f"“{reading}”" for reading in meant) in str(caught.value)


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


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_is_sent_is_ascii_and_stays_so(text: str) -> None:
    sent = sent_as(f"/{text}")
    assert re.fullmatch(r"[\x21-\x7e]+", re.sub(r"\$\{[^{}]*\}", "x", sent))
    assert sent_as(sent) == sent
