"""The limits on speed, asserted: `make bench` (full) or `SVLOAD_BENCH=quick make bench`."""

from __future__ import annotations

import os

import pytest

from benches.run import bench
from benches.specials import SPECIALS
from benches.works import EFFORTS, WORKS, Result, figure, table

pytestmark = pytest.mark.timeout(0)
LIMITS = [name for work in WORKS for name in (work.key, f"{work.key}@half")[: 1 + work.half]] + list(SPECIALS)


@pytest.fixture(scope="module")
def result() -> Result:
    """Run the whole bench once, and print its table."""
    effort = os.environ.get("SVLOAD_BENCH", "full")
    if effort not in EFFORTS:
        pytest.exit(f"SVLOAD_BENCH takes {', '.join(EFFORTS)}, not {effort!r}", returncode=2)
    found = bench(effort)
    print("\n" + table(found))
    return found


@pytest.mark.parametrize("limit", LIMITS)
def test_limit_is_kept(result: Result, limit: str) -> None:
    verdicts = result.verdicts()
    assert limit in verdicts, f"{limit} was not measured: {'; '.join(result.troubles) or 'interrupted'}"
    assert verdicts[limit], f"{limit} is missed: {figure(result, limit).strip()}"


def test_nothing_went_wrong(result: Result) -> None:
    assert not result.troubles
    assert not result.interrupted
