"""A core that seems to have changed its speed is looked at again; one that has stays so."""

from __future__ import annotations

import pytest

from svload.model.conditions import Moment
from svload.run import trial


def moment(calibration_ns: float | None) -> Moment:
    return Moment(monotonic_ns=1, realtime_ns=1, boottime_ns=1, calibration_ns=calibration_ns)


@pytest.mark.parametrize(
    ("before", "looks", "found", "used"),
    [
        (100.0, [102.0], 102.0, 1),
        (100.0, [113.0, 101.0], 101.0, 2),
        (100.0, [113.0, 112.0, 114.0], 112.0, 3),
        (100.0, [90.0, 89.0, 91.0], 91.0, 3),
        (None, [100.0], 100.0, 1),
        (100.0, [None], None, 1),
    ],
)
def test_a_look_is_repeated_only_while_it_differs(
    monkeypatch: pytest.MonkeyPatch,
    before: float | None,
    looks: list[float | None],
    found: float | None,
    used: int,
) -> None:
    monkeypatch.setattr(trial, "LOOK_AGAIN_S", 0.0)
    coming = iter(looks)
    taken = trial.looked_again(moment(before), lambda: moment(next(coming)))
    assert taken.calibration_ns == found
    assert len(list(coming)) == len(looks) - used
