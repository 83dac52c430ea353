"""The load of a run in words: by group over its cases, and what its stores hold."""

from __future__ import annotations

from svload import api, study
from svload.report.told.traffic import describe_run


def _told(profile: str) -> dict[str, str]:
    lock = api.studies.load_lock("001-svload", api.Choices(profile=profile))
    return describe_run([study.resolve(lock, case) for case in lock.valid_cases])


def test_a_profile_tells_what_it_really_loads() -> None:
    demo, real = _told("demo"), _told("real")
    assert demo["background"].startswith("closed loop: 200 VUs")
    assert demo["background"].endswith("in 10 of 20 cases")
    assert demo["objects in backend"] == "2,000 of 4 KiB"
    assert real["objects in backend"] == "1,500 of 40 KiB (median; 99 % below 400 KiB)"
    assert real["probe"].startswith("closed loop: 10 VUs, think time 50 ms to 150 ms (uniform)")
