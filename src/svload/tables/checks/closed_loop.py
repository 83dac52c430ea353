"""Checks by N = X·(R + Z) of a closed loop's tables: delays taken for speed, answers counted late, flat
throughput (docs/method.md §4)."""

from __future__ import annotations

from collections.abc import Iterator

from svload.analysis import limits
from svload.model.units import show_duration, show_percent, three_figures
from svload.tables.checks.base import (
    Tables,
    finding,
    given,
    groups_of,
    known,
    listed,
    run_time_of,
    signed_percent,
    table_check,
    think_of,
    users_of,
)
from svload.tables.table import Table, TableFinding


@table_check("littles-law", 10, "users, throughput and mean response of a closed loop")
def littles_law(tables: Tables) -> Iterator[TableFinding | None]:
    """X·(R + Z) compared with N: above it late completions are counted, below it the run's edges are
    (docs/method.md §4)."""
    for table in tables:
        loop = _loop(table)
        if loop is None:
            continue
        yield None
        off = {row: x * (r + z) / n - 1 for row, (n, x, r, z) in loop.items()}
        for sign, text in ((1, _LATE), (-1, _EDGE)):
            rows = [row for row, share in off.items() if sign * share > limits.TABLE_BIAS]
            if rows:
                worst = max(rows, key=lambda row: abs(off[row]))
                n, x, r, z = loop[worst]
                sentence = (
                    f"{table.row(worst, table.factors)}: X·(R + Z) is {three_figures(x * (r + z))} with {three_figures(n)} users "
                    f"({signed_percent(off[worst])}): {text}"
                    + (f"; the same in {len(rows)} rows." if len(rows) > 1 else ".")
                )
                yield finding(table, [worst, *(row for row in rows if row != worst)], sentence, _EXACT)


_LATE = "L > N, late completions counted: answers that came after the run's end are divided by its length"
_EDGE = "L < N, the run's edges matter, because there are too few requests to outweigh them"
_EXACT = "Times are clipped to the measured window: Σ over users of request and think time is N·T exactly."


@table_check("delay-is-think-time", 11, "users, throughput, mean response and a delay that varies")
def delay_is_think_time(tables: Tables) -> Iterator[TableFinding | None]:
    """A longer delay between requests that makes a server "faster": it is the think time of a closed loop."""
    for table in tables:
        loop, varied = _loop(table), table.column_of("think")
        if loop is None or varied is None:
            continue
        yield None
        whole = [[row for row in rows if row in loop] for rows in groups_of(table, varied).values()]
        groups = [rows for rows in whole if _is_think_time(rows, loop)]
        if not groups:
            continue
        rows = [row for group in groups for row in group]
        most = max(abs(x * (r + z) / n - 1) for n, x, r, z in (loop[row] for row in rows))
        last = max(groups[0], key=lambda row: loop[row][3])
        first = min(groups[0], key=lambda row: loop[row][3])
        n, x, r, z = loop[last]
        sentence = (
            f"{table.row(last, table.factors)}: the delay of {show_duration(z)} did not make the server "
            f"faster: N = X·(R + Z) holds "
            f"within {show_percent(most, 2)} ({x:.2f}/s × ({show_duration(r)} + {show_duration(z)}) = "
            f"{x * (r + z):.1f} of {three_figures(n)} users), "
            f"at {three_figures(loop[first][1])}/s with {_delay(loop[first][3])}: it is the users' "
            "think time."
        )
        yield finding(table, rows, sentence, "N = X·(R + Z) is a finding, beside utilisation and N*.")


def _is_think_time(rows: list[int], loop: dict[int, tuple[float, float, float, float]]) -> bool:
    mine = sorted((loop[row] for row in rows), key=lambda one: one[3])
    if len(mine) < 2 or mine[-1][3] <= mine[0][3]:
        return False
    holds = all(abs(x * (r + z) / n - 1) <= limits.TABLE_LAW_HOLDS for n, x, r, z in mine)
    rates = [x for _, x, _, _ in mine]
    return (
        holds
        and mine[-1][2] < mine[0][2] / limits.TABLE_FASTER
        and max(rates) < min(rates) * limits.TABLE_FASTER
    )


def _delay(think_s: float) -> str:
    return f"a delay of {show_duration(think_s)}" if think_s else "no delay"


@table_check("think-time-slows", 12, "mean response of a closed loop and a delay that varies")
def think_time_slows(tables: Tables) -> Iterator[TableFinding | None]:
    """Think time reduces load; a response that grows with it has another cause, which was not held
    constant."""
    for table in tables:
        response, think, varied = table.quantity("response"), think_of(table), table.column_of("think")
        if response is None or think is None or varied is None or users_of(table) is None:
            continue
        yield None
        against: dict[int, int] = {}
        for rows in groups_of(table, varied).values():
            mine = [row for row in rows if known(response[row]) and think[row] >= 0]
            first = min(mine, key=lambda row: think[row], default=0)
            against |= {row: first for row in mine if think[row] > think[first]}
        slower = {row: response[row] / response[first] - 1 for row, first in against.items()}
        rows = [row for row, share in slower.items() if share > limits.TABLE_FASTER - 1]
        if rows:
            worst = max(rows, key=lambda row: slower[row])
            beside = " Generator and servers share one machine." if table.about.given.same_host else ""
            sentence = (
                f"{table.row(worst, table.factors)}: the mean response is {signed_percent(slower[worst])} "
                f"against {_delay(think[against[worst]])}, and think time "
                f"can't do that: what else changed is not identified.{beside}"
            )
            instead = "Each trial proves its reset; the effect of anything not held fixed is Unidentified."
            yield finding(table, sorted(rows, key=lambda row: -slower[row]), sentence, instead)


@table_check(
    "saturated-from-first-level",
    13,
    "users at three levels or more, and throughput, or mean response and think time",
)
def saturated_from_the_first(tables: Tables) -> Iterator[TableFinding | None]:
    """Throughput that does not rise over the levels of users: all of them lie above N*, and
    "breakpoints" in response follow from N."""
    for table in tables:
        users = table.quantity("users")
        rates = _rates(table)
        if users is None or rates is None or table.column_of("users") not in table.factors:
            continue
        mine = [row for row in range(len(table)) if known(users[row], rates[row])]
        levels = {users[row] for row in mine}
        if len(levels) < limits.TABLE_LEVELS or len(levels) < len(mine):
            continue
        yield None
        mine.sort(key=lambda row: users[row])
        most, least = max(rates[row] for row in mine), min(rates[row] for row in mine)
        if most >= least * limits.TABLE_FLAT or users[mine[-1]] < 2 * users[mine[0]]:
            continue
        corrected = "" if table.quantity("throughput") else ", by N̄ = X·(R + Z) and without the ramp"
        text = ", ".join(f"{rates[row]:.1f}" for row in mine)
        sentence = (
            f"Throughput is {text}/s at {', '.join(three_figures(users[row]) for row in mine)} users{corrected}: "
            f"saturated from the first level, "
            f"so that N* is not bracketed and breakpoints in response follow from N "
            f"alone.{_link(table, [rates[row] for row in mine])}"
        )
        instead = (
            "Levels below N* are measured too; throughput is shown beside time, with the instrument's "
            "verdict."
        )
        yield finding(table, mine, sentence, instead)


def _rates(table: Table) -> list[float] | None:
    """Return the throughput by row: the column's, else that of N̄ users, without those that are still ramping
    up."""
    rates = table.quantity("throughput")
    if rates is not None:
        return rates
    users, response, think = users_of(table), table.quantity("response"), think_of(table)
    if users is None or response is None or think is None:
        return None
    present = present_users(table, users)
    return [
        n / (r + z) if known(n, r) and z >= 0 else float("nan")
        for n, r, z in zip(present, response, think, strict=True)
    ]


def present_users(table: Table, users: list[float]) -> list[float]:
    """Return the average users over the measured time: less than N where it includes the ramp."""
    spawn, lasts = given(table.about.given.spawn_rate, "rate_rps"), run_time_of(table)
    if not spawn or lasts is None:
        return users
    ramps = [n / spawn for n in users]
    return [
        n * (1 - ramp / (2 * time)) if 0 < time >= ramp else spawn * time / 2
        for n, ramp, time in zip(users, ramps, lasts, strict=True)
    ]


_LINKS_GBPS = (0.1, 1.0, 10.0, 25.0, 40.0, 100.0)


def _link(table: Table, rates: list[float]) -> str:
    payload = given(table.about.given.payload, "size_bytes")
    if not payload:
        return ""
    carried = [rate * payload * 8 / 1e9 for rate in rates]
    near = [
        gbps for gbps in _LINKS_GBPS if all(abs(one / gbps - 1) <= limits.TABLE_NEAR_LINK for one in carried)
    ]
    text = f" That is {min(carried):.2f} to {max(carried):.2f} Gbit/s"
    return f"{text}: perhaps a link of {near[0]:g} Gbit/s (an inference)." if near else f"{text}."


def _loop(table: Table) -> dict[int, tuple[float, float, float, float]] | None:
    """Return by row (N, X, R, Z) where all are known; None where the table lacks a column."""
    users, rates, response = users_of(table), table.quantity("throughput"), table.quantity("response")
    think = think_of(table) or [0.0] * len(table)
    if users is None or rates is None or response is None:
        return None
    return {
        row: (n, x, r, z)
        for row, (n, x, r, z) in enumerate(zip(users, rates, response, think, strict=True))
        if known(n, x, r) and z >= 0
    }


@table_check("ramp-in-statistics", 14, "users, run time and spawn rate")
def ramp_in_statistics(tables: Tables) -> Iterator[TableFinding | None]:
    """Users that are still being started during the measurement: the statistics are of another load than the
    row says."""
    for table in tables:
        users, lasts = users_of(table), run_time_of(table)
        spawn = given(table.about.given.spawn_rate, "rate_rps")
        if users is None or lasts is None or not spawn:
            continue
        yield None
        shares = {
            row: min(n / spawn / time, 1.0)
            for row, (n, time) in enumerate(zip(users, lasts, strict=True))
            if known(n, time)
        }
        rows = [row for row, share in shares.items() if share > limits.TABLE_RAMP]
        if rows:
            text = listed([f"{table.row(row, table.factors[:1])} {100 * shares[row]:.0f} %" for row in rows])
            sentence = f"At {three_figures(spawn)} user/s the ramp fills the statistics: {text} of the measured time."
            yield finding(table, rows, sentence, "Ramps are excluded from what is measured, by definition.")
