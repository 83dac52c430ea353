"""How a problem is read aloud."""

from __future__ import annotations

import pytest

from svload.model.errors import Problem


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("there is none", "there is none."),
        (
            "the response is not TLS: is this port plain HTTP?",
            "the response is not TLS: is this port plain HTTP?",
        ),
        ("no such command. Did you mean “probe”?", "no such command. Did you mean “probe”?"),
    ],
)
def test_a_sentence_ends_once(reason: str, said: str) -> None:
    assert Problem("usage", {"reason": reason}).sentence == said
