from __future__ import annotations

import pytest

from svload.host import split_cores


def test_two_cores_are_one_each() -> None:
    split = split_cores({0, 1})
    assert (split.load, split.servers, split.pinned) == ((1,), (0,), True)


def test_one_core_is_shared_and_reported_so() -> None:
    assert split_cores({5}) == ((5,), (5,), False)


@pytest.mark.parametrize(("cores", "of_load"), [(3, 1), (7, 1), (8, 2), (64, 16)])
def test_a_quarter_of_many(cores: int, of_load: int) -> None:
    split = split_cores(set(range(10, 10 + cores)))
    assert len(split.load) == of_load
    assert set(split.load) | set(split.servers) == set(range(10, 10 + cores))
    assert not set(split.load) & set(split.servers)


def test_no_core_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="no cores"):
        split_cores(set())
