"""One attempt at the trials of a block that take turns: all sides are up at the same time, and one load
alternates between them.

Each side is a trial. They are prepared, warmed up, counted, loaded, counted again and written together, and
sealed at the very end: after a crash either all are sealed, or all are made again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import ceil, inf
from typing import Any

from svload.analysis import limits
from svload.analysis.turn_plan import TurnPlan, least_load_ns, least_rounds, shortened, turn_plan, turns_of
from svload.drive.generators import Load, Progress
from svload.drive.share.cut import Share
from svload.drive.share.timeline import Timeline, timeline
from svload.host.machine.awake import awake
from svload.model.errors import fail
from svload.model.executors import OpenLoop
from svload.model.seals import Seal
from svload.model.study import CaseConfig
from svload.model.summaries import TurnRecord
from svload.model.traffic import Group
from svload.model.units import show_duration
from svload.run.pauses import PauseReadings
from svload.run.sides import is_of, own_readings, plain, sided
from svload.run.trial import Readings, Stopped, TrialRun
from svload.run.warming import ENOUGH, Warmed, confirmed, warm_up, without_ramps
from svload.study.order import draw


@dataclass(frozen=True)
class Planned:
    """The turns of all blocks of the same sides, and the slower side's p99 that they are derived from."""

    turns: TurnPlan
    p99_ns: float

    @classmethod
    def of_record(cls, record: TurnRecord) -> Planned:
        """Return those that a sealed trial had."""
        begin_ns, end_ns = record.turns_ns[0]
        return cls(TurnPlan(end_ns - begin_ns, record.pause_ns, len(record.turns_ns)), record.p99_ns)


def plan_turns(warmed: Sequence[Warmed], duration_ns: int, rounds: int) -> Planned:
    """Plan the turns from what the warm-ups of all sides showed; each side is loaded for at least
    `duration_ns` and `rounds`."""
    p99_ns = max(one.p99_ns for one in warmed)
    per_s = min(one.per_s for one in warmed)
    connections = max(one.connections for one in warmed)
    return Planned(turn_plan(p99_ns, per_s, connections, duration_ns=duration_ns, rounds=rounds), p99_ns)


def plan_within(
    warmed: Sequence[Warmed], duration_ns: int, rounds: int, left_s: float
) -> tuple[Planned, float]:
    """Plan the turns, fewer of them where time is short. Return also by how many seconds the blocks of a claim
    exceed `left_s` even so; negative if they fit."""
    between_s = sum(one.settled_ns or one.took_ns for one in warmed) / 1e9 + limits.TURN_APART_S[1]

    def lacks_s(planned: Planned) -> float:
        blocks_s = limits.CLAIM_BLOCKS * planned.turns.seconds(len(warmed))
        return blocks_s + (limits.CLAIM_BLOCKS - 1) * between_s - left_s

    planned = plan_turns(warmed, least_load_ns(duration_ns, rounds), rounds)
    if lacks_s(planned) > 0:
        planned = plan_turns(warmed, 0, shortened(rounds))
    return planned, lacks_s(planned)


LONG_BLOCK_S = 300.0
"""A block that takes longer than this is announced."""


def why_long(planned: Planned, sides: int) -> str:
    """Return a sentence on blocks that take longer than a user expects; empty where they do not."""
    if planned.turns.seconds(sides) <= LONG_BLOCK_S:
        return ""
    return f"each block takes {_block_time(planned, sides)}: with shorter responses it would be shorter"


def _block_time(planned: Planned, sides: int) -> str:
    """Return `40 min (turns last 1 min, because the p99 is 15 s)`."""
    took = (planned.turns.seconds(sides), planned.turns.length_ns / 1e9, planned.p99_ns / 1e9)
    block, turn, p99 = map(show_duration, took)
    return f"{block} (turns last {turn}, because the p99 is {p99})"


class BlockRun:
    """One attempt at the trials of a set, `sides` in listed order. `run` raises SvloadError (lab, generator)
    or Stopped, and then nothing is sealed. `planned` are the turns of an earlier block of these sides; if
    None, this block decides them, and as many blocks as a claim needs must end by `ends_by_s`
    (time.monotonic())."""

    def __init__(
        self, sides: Sequence[TrialRun], seed: int, planned: Planned | None, ends_by_s: float = inf
    ) -> None:
        self.sides, self.planned, self._ends_by_s = tuple(sides), planned, ends_by_s
        self._seed, self._block = seed, sides[0].plan.block
        self._bench, self._config = sides[0].bench, sides[0].config

    def run(self) -> list[Seal]:
        """Run all phases in order; the seals are written last."""
        with ExitStack() as stack:
            for side in self.sides:
                stack.enter_context(side.begun())
            warmed = self._warmed()
            if self.planned is None:
                self.planned = self._planned(list(warmed.values()))
                if text := why_long(self.planned, len(self.sides)):
                    self.sides[0].notice(text)
            times = self._times(self.planned, warmed)
            shares = self._shares(times)
            self._count(stack)
            loads = self._load(shares, times, self.planned.turns.pause_ns)
            self._keep(loads, times)
        return [side.seal(load) for side, load in zip(self.sides, loads, strict=True)]

    def _planned(self, warmed: Sequence[Warmed]) -> Planned:
        """Return the turns of all blocks, by what is known of each side. Raise SvloadError usage if too few
        blocks would end in time."""
        left_s = self._ends_by_s - time.monotonic()
        least = least_rounds(self._config)
        planned, lacks_s = plan_within(warmed, self._config.measure.duration_ns, least, left_s)
        if lacks_s > 0:
            raise fail(
                "usage",
                reason=f"--for is {show_duration(lacks_s)} too short: an answer needs {limits.CLAIM_BLOCKS} "
                f"blocks, and one takes {_block_time(planned, len(self.sides))}",
                hint=f"Give it --for {_minutes((self._config.measure.within_s or 0) + lacks_s)}, or load less: "
                "with shorter responses, turns are shorter.",
            )
        return planned

    def _warmed(self) -> dict[str, Warmed]:
        """Prepare each side, then warm it up alone, both in orders drawn for this block; in listed order. A
        block that plans the turns needs enough requests for that."""
        drawn = self._drawn("warm-up")
        for side in drawn:
            side.prepare(timeline(side.config, side.config.measure.duration_ns))
        least = 0 if self.planned else ENOUGH
        found: dict[str, Warmed] = {}
        for side in drawn:
            check = None if self.planned else partial(self._must_fit, tuple(found.values()))
            found[side.bench.side] = warm_up(side, least, check)
        if not self.planned:
            by_name = {side.bench.side: side for side in self.sides}
            found = confirmed(found, lambda name: warm_up(by_name[name], least))
        return {side.bench.side: found[side.bench.side] for side in self.sides}

    def _must_fit(self, known: Sequence[Warmed], one: Warmed) -> None:
        """Raise SvloadError usage as soon as what one side shows makes the turns too long."""
        self._planned([*known, *[one] * (len(self.sides) - len(known))])

    def _drawn(self, what: str) -> list[TrialRun]:
        """Return the sides in an order drawn for this block."""
        order = {
            side.bench.side: draw(self._seed, what, self._block, at) for at, side in enumerate(self.sides)
        }
        return sorted(self.sides, key=lambda side: order[side.bench.side])

    def _times(self, planned: Planned, warmed: Mapping[str, Warmed]) -> list[Timeline]:
        """Return each side's clock, and set what its trial's summary says about its turns."""
        turns = turns_of(planned.turns, len(self.sides), self._seed, self._block)
        begins = sorted(begin_ns for own in turns for begin_ns, _ in own)
        following = dict(pairwise(begins)) | {
            begins[-1]: max(own[-1][1] for own in turns) + planned.turns.pause_ns
        }
        for side, own, warm in zip(self.sides, turns, warmed.values(), strict=True):
            side.turns = TurnRecord(
                turns_ns=own,
                next_ns=tuple(following[begin_ns] for begin_ns, _ in own),
                p99_ns=planned.p99_ns,
                pause_ns=planned.turns.pause_ns,
                sides=tuple(one.plan.case for one in self.sides),
                warm_ns=warm.took_ns,
                settled=warm.settled_ns is not None,
            )
        return [Timeline(0, planned.turns.load_ns, turns_ns=own) for own in turns]

    def _shares(self, times: Sequence[Timeline]) -> dict[str, list[Share]]:
        """Return what the generators are asked to do, by side."""
        return {
            side.bench.side: side.shares(_in_turns(side.config), own, side.plan.seed)
            for side, own in zip(self.sides, times, strict=True)
        }

    def _count(self, stack: ExitStack) -> None:
        is_awake = stack.enter_context(awake(self._config.measure.awake))
        for side in self.sides:
            side.awake = is_awake
            side.count()
        marked_ns = self._bench.sampler.mark()
        for side in self.sides:
            side.marked_ns = marked_ns

    def _load(
        self, shares: Mapping[str, Sequence[Share]], times: Sequence[Timeline], pause_ns: int
    ) -> list[Load]:
        """Make one load of all sides; return its outcome by side. Each block draws the sides' generators."""
        named = {
            sided(share.name, side.bench.side): share
            for side in self._drawn("generators")
            for share in shares[side.bench.side]
        }
        ends_ns = [end_ns for own in times for _, end_ns in own.turns_ns]
        pauses = PauseReadings(self._bench.sampler, ends_ns, pause_ns)
        with ExitStack() as stack:
            for side in self.sides:
                stack.enter_context(side.phase("load"))
            stack.callback(pauses.finish)
            load = self._bench.generators.load(
                [replace(share, name=name) for name, share in named.items()],
                self._bench.tables,
                self.sides[0].folder.path,
                self._listener(times),
                self._bench.should_stop,
                may_end=lambda service, offset_ns: any(
                    side.may_end(service, offset_ns) for side in self.sides
                ),
                on_start=pauses.begin,
            )
        results = {result.share.name: result for result in load.results}
        return [
            Load(
                load.start_at_ns,
                [
                    replace(results[name], share=share)
                    for name, share in named.items()
                    if is_of(name, side.bench.side) and name in results
                ],
                load.stopped_ns,
            )
            for side in self.sides
        ]

    def _listener(self, times: Sequence[Timeline]) -> Progress:
        listeners = {side.bench.side: side.listener(own) for side, own in zip(self.sides, times, strict=True)}

        def progress(heard: dict[str, dict[str, Any]]) -> None:
            for name, listener in listeners.items():
                if own := {
                    plain(share, name): progress_words
                    for share, progress_words in heard.items()
                    if is_of(share, name)
                }:
                    listener(own)

        return progress

    def _keep(self, loads: Sequence[Load], times: Sequence[Timeline]) -> None:
        """Count again and write, the same for all sides. Raise Stopped."""
        if loads[0].stopped:
            readings = self._readings(loads[0], times, ask=False)
            for side, load, own in zip(self.sides, loads, times, strict=True):
                if load.results:
                    side.write_stopped(load, own, own_readings(readings, side.bench.side))
            raise Stopped
        counted = [side.count_again(own) for side, own in zip(self.sides, times, strict=True)]
        readings = self._readings(loads[0], times)
        for side, load, own, after in zip(self.sides, loads, times, counted, strict=True):
            with side.phase("write"):
                side.write(load, own, after, own_readings(readings, side.bench.side))
        for side, load in zip(self.sides, loads, strict=True):
            side.let_rest(load)

    def _readings(self, load: Load, times: Sequence[Timeline], *, ask: bool = True) -> Readings:
        """Return the readings of all sides until the end of the last turn."""
        sampler = self._bench.sampler
        end_ns = load.start_at_ns + max(own.real_end_ns for own in times)
        found = sampler.readings(self.sides[0].marked_ns, end_ns, load.start_at_ns, ask=ask)
        for text in sampler.news():
            self.sides[0].notice(text)
        return found


def _minutes(seconds: float) -> str:
    """Return a --for that leaves a tenth to spare, in half minutes: `6m`, `330s`."""
    halves = ceil(1.1 * seconds / 30)
    return f"{30 * halves}s" if halves % 2 else f"{halves // 2}m"


def _in_turns(config: CaseConfig) -> CaseConfig:
    """Return a case as it is loaded after its warm-up. An open loop's requests are followed after its last
    turn for the longest pause only: those that wait for a slot then start in another side's turn. In a closed
    loop nothing waits, and requests in flight may end."""
    whole = without_ramps(config)
    groups = (
        group.model_copy(update={"graceful_stop_ns": min(limits.TURN_PAUSE_NS[1], _graceful_ns(group))})
        if isinstance(group.executor, OpenLoop)
        else group
        for group in whole.groups
    )
    return whole.model_copy(update={"groups": tuple(groups)})


def _graceful_ns(group: Group) -> int:
    return group.longest_timeout_ns if group.graceful_stop_ns is None else group.graceful_stop_ns
