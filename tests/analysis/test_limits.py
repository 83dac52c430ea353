"""The method's figures, held here a second time: changing a limit needs a change of
docs/method.md and of this table."""

from __future__ import annotations

import pytest

from svload import api
from svload.analysis import limits
from svload.drive.share import timeline

HELD = {
    "ALPHA": 0.05,
    "TAIL": 0.025,
    "SUCCESS_LEADS": 0.999,
    "LEAST_N_EFF": {0.5: 6, 0.75: 13, 0.9: 36, 0.95: 72, 0.99: 368, 0.999: 3688},
    "STRONG_TAIL": 10,
    "BATCHES": 20,
    "ENUMERATE_UP_TO": 16,
    "POWER": 0.8,
    "DESCRIBE_BLOCKS": 3,
    "CLAIM_BLOCKS": 3,
    "CLAIM_BRING_UPS": 6,
    "CASE_UNITS": 2,
    "LEANING": 0.1,
    "NO_DIFFERENCE": 0.05,
    "CARRY_OVER_P": 0.01,
    "CARRY_OVER_PAIRS": 3,
    "CASES_DIFFER_P": 0.05,
    "MOST_MORE_BLOCKS": 1000,
    "AA_CERTIFIED": 59,
    "SUCCESS_DIFFERS": 0.001,
    "MSER_OBSERVATIONS": 600,
    "MSER_BATCH": 5,
    "CUT_AT_MOST": 0.5,
    "LATE_SEARCH": 0.75,
    "LATE_CLEAR": 3.0,
    "STALL_HEAD": 0.1,
    "STALL_LEVEL": 0.95,
    "STALL_CLEAR": 10.0,
    "RECOVERY_REQUESTS": 20,
    "RECOVERY_LEVEL_CELLS": 5,
    "RECOVERED": 0.10,
    "RECOVERY_CELLS": 3,
    "RECOVERY_OUTSIDE": 0.05,
    "MOSTLY_FAILED": 0.5,
    "DRIFT": 0.10,
    "HARM": 0.05,
    "LEAST_READ_LAGS": 30,
    "LOAD_OPEN": (0.999, 0.995),
    "LOAD_CLOSED": (0.999, 0.99),
    "LITTLE_CLOSED": 0.005,
    "LITTLE_OPEN": 0.02,
    "RECONCILED": (0.005, 0.02),
    "REUSE": 0.02,
    "TLS_COUNTED": 0.02,
    "DELAY_LATE": 0.05,
    "DELAY_CPU": 0.9,
    "LIMIT_ACTED": 0.95,
    "HICCUP_PERIOD_S": 0.01,
    "RUN_QUEUE": 0.01,
    "GENERATOR_CPU": 0.90,
    "CARRIED": (0.05, 0.20),
    "STEAL": 0.01,
    "OTHERS_CPU": 0.05,
    "CALIBRATION": 0.03,
    "SLEPT_NS": 1_000_000,
    "CLOCK_OFFSET_NS": 1_000_000,
    "CLOCK_READS_S": {
        "tsc": 0.0,
        "kvm-clock": 0.0,
        "arch_sys_counter": 0.0,
        "hyperv_clocksource_tsc_page": 0.0,
        "xen": 0.0,
        "hyperv_clocksource_msr": 2e-6,
        "hpet": 2e-6,
        "acpi_pm": 4e-6,
    },
    "COARSE_CLOCK_S": 0.01,
    "OWN_DOING": 0.20,
    "DISK_READS": 0.01,
    "RESIDENT": 0.99,
    "COLD": 0.01,
    "COLD_READS": 0.9,
    "TIME_WAIT": 0.05,
    "UNEVEN_WORKERS": 0.25,
    "GC_PAUSE": 0.10,
    "AA_PAIRS": 20,
    "AA_QUANTILE": 0.95,
    "BACKLOG": 0.05,
    "SLOTS_FULL": 0.5,
    "WORKERS_FULL": 0.9,
    "LIMIT_APPROACHED": 0.8,
    "EXACT_VALUES": 20_000,
    "OFF": 0.05,
    "WIDEST": (0.97, 4.0),
    "CORES_CONCERNED": 2,
    "IMPORTED": 0.06,
    "STRETCH_S": 2.0,
    "WAITING": 2.0,
    "MOST_HANDED_ON": 0.99,
    "PUSHED": {"mean": 14.0, "p50": 7.0, "p90": 16.0, "p95": 24.0, "p99": 30.0},
    "WOKEN_S": 0.00015,
    "GAP_S": 0.005,
    "STEAL_TICK_S": 0.01,
    "LAW_CYCLES": 20,
    "LAW_HOLDS": 0.03,
    "LOADS_APART": 1.25,
    "GAIN": 0.1,
    "FLAT": 0.05,
    "LIMIT_SEEN": 0.8,
    "MOST_USED": 1.1,
    "BOUND_EXCEEDED": 0.05,
    "WAITING_UNSURE": 0.5,
    "LIMITS_AGREE": 0.25,
    "LEVELS_PAST": 2,
    "USL_LEVELS": 6,
    "BREAK_P": 0.001,
    "BREAK_RESPONSE": 0.25,
    "BREAK_ERRORS": 0.01,
    "CPU_FULL": 0.95,
    "WAVES": 0.10,
    "WAVES_P": 0.001,
    "WAVE_CYCLES": 3,
    "WAVE_POINT": 2.0,
    "TABLE_BIAS": 0.03,
    "TABLE_LAW_HOLDS": 0.05,
    "TABLE_FASTER": 1.10,
    "TABLE_FLAT": 1.15,
    "TABLE_LEVELS": 3,
    "TABLE_NEAR_LINK": 0.05,
    "TABLE_RAMP": 0.10,
    "NEVER_ACTED": 0.25,
    "ELASTICITY": (-0.2, 1.2),
    "TABLE_SUCCESS_POINTS": 0.5,
    "TABLE_IMPROVEMENT": (6.0, 10.0),
    "TABLE_REVERSED": 1.25,
    "TABLE_MEAN_OVER_MEDIAN": 2.0,
    "TABLE_SHIFTED": 2.0,
    "TABLE_FEW_REQUESTS": 100,
    "TABLE_CARRIED_BYTES_PER_S": 12.5e9,
}


@pytest.mark.parametrize("name", sorted(HELD))
def test_a_limit_is_methods(name: str) -> None:
    assert getattr(limits, name) == HELD[name]


def test_no_limit_is_left_out() -> None:
    assert {name for name in vars(limits) if name.isupper()} - {"ANALYSIS_VERSION"} == set(HELD)


def test_the_window_has_as_many_intervals_as_mser_asks_for() -> None:
    assert limits.MSER_OBSERVATIONS == timeline.MSER_OBSERVATIONS


def test_the_command_asks_for_as_many_pairs_as_a_certificate_needs() -> None:
    assert limits.AA_PAIRS == api.AA_PAIRS
