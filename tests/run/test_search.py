"""`svload capacity` before anything is started: its options, what is refused, which trials follow from
which verdicts, and what is reported."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.evolve import evolve
from tests.results import findings_of, trial_result
from tests.support import make_run

from svload import api
from svload.analysis.capacity.asked import capacity_of
from svload.analysis.judge import sealed_at
from svload.api.capacity import LOADS, CapacityAsk, searched_lock
from svload.api.runs import FinalVerdicts, verdict_exit
from svload.model.errors import ExitCode, SvloadError
from svload.model.events import Event
from svload.model.plan import Batch
from svload.model.results import Estimate, Outage, TrialResult
from svload.model.study import Lock
from svload.model.units import parse_quantity
from svload.report.terminal.live import search_line
from svload.report.wording.search_rows import search_outcome
from svload.run.policies.base import Sealed, Verdicts
from svload.run.policies.capacity import capacity, first_batch, so_far
from svload.run.policies.of_study import adds_batches
from svload.store import Journal, RunDir, read_trial, unfinished_runs
from svload.store.seal import write_artefact
from svload.study.quick_load import QuickLoad

STUDY = """\
name: bears
lab:
  server: {kit: truth, role: store, service_time: 10 ms}
factors:
  users: FACTOR
traffic:
  people: {executor: constant-vus, vus: "${users}", request: {get: http://server/v1/a/c/o, expect_status: 404}}
measure: {duration: 1s, replicates: 5}
THRESHOLDS
"""
OPEN = "{open: [1, 400]}"
CRITERION = "p95 <= 200 ms"
Study = Callable[..., str]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    def write(factor: str = OPEN, thresholds: str = "") -> str:
        (tmp_path / "study").mkdir(exist_ok=True)
        text = STUDY.replace("FACTOR", factor).replace("THRESHOLDS", thresholds)
        (tmp_path / "study" / "study.yaml").write_text(text)
        return str(tmp_path / "study")

    return write


def lock_of(target: str, folder: Path | None = None, **asked: Any) -> Lock:
    """Return the lock of a search; `folder` is that of its runs."""
    choices = api.Choices(out=folder or Path(target).parent / "runs")
    with searched_lock(CapacityAsk(target, **asked), choices) as lock:
        return lock


URL = "http://127.0.0.1:9/"


def of_url(folder: Path, **asked: Any) -> Lock:
    return lock_of(URL, folder, **{"that": CRITERION} | asked)


def test_criteria_are_read_as_people_write_them_or_are_the_studys_thresholds(study: Study) -> None:
    path = study(thresholds='thresholds: ["people.response.p90 <= 150 ms", "success_rate >= 99 %"]')
    lock = lock_of(path)
    assert lock.search.that == ("people.response.p90 <= 150 ms", "success_rate >= 99 %")
    assert lock.thresholds == (), "levels break them on purpose"
    search = lock_of(path, that="p95 <= 200 ms and success_rate >= 99.9 %").search
    assert search.that == ("response.p95 <= 200 ms", "success_rate >= 99.9 %")
    assert (search.over, search.least, search.most, search.start) == ("users", 1, 400, 8)
    assert lock_of(path, that=CRITERION).search.that == search.that, "failing is not bearing"
    assert lock_of(path, that="failed <= 3").search.that == ("failed <= 3",)


def test_a_factor_with_levels_can_be_searched(study: Study) -> None:
    compared = "compare: [{factor: users, baseline: 1, metric: people.response.p95}]\n"
    path = Path(study("[1, 2, 4]", compared)) / "study.yaml"
    path.write_text(path.read_text().replace("replicates: 5", "replicates: 5, until: ± 5 %, at_most: 9"))
    search = lock_of(str(path.parent), that=CRITERION, over="users", least=2, most=64).search
    assert (search.least, search.most) == (2, 64)


def test_a_url_is_a_study_of_its_own(tmp_path: Path) -> None:
    lock = of_url(tmp_path, within_s=108)
    assert lock.search.over == "users"
    assert LOADS[0] == lock.search.least < lock.search.most <= LOADS[1]
    assert lock.measure.duration_ns == 3 * 10**9, "24 trials of 4.5 s, 3 s of load each"
    assert (lock.search.within_s, lock.search.trial_s) == (108, 4.5)
    by = QuickLoad(URL, rate_rps=1.0, data="x", headers=("Accept: text/plain",), http2=True)
    by_rate = of_url(tmp_path, most=500, request=by)
    assert (by_rate.search.over, by_rate.search.start, by_rate.search.most) == ("rate", 64, 500)
    assert by_rate.measure.duration_ns == 5 * 10**9
    group, request = by_rate.source["traffic"]["load"], by_rate.source["requests"]["get"]
    assert (group["rate"], group["http2"]) == ("${rate}/s", True)
    assert request["post"] == "http://server/", "a body makes it POST, as svload load does"
    assert request["headers"] == {"Accept": "text/plain"}


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"request": QuickLoad(URL, rate_rps=1.0, max_vus=10**8)}, "--max-vus: at most"),
        ({"request": QuickLoad(URL, think_time="-5s")}, "--think-time: it must not"),
        ({"most": 10**7}, "--to: at most"),
        ({"most": 900_000}, "capacity needs more than this machine can provide"),
        ({"least": 10, "most": 5}, "a search from 10 to 5 has no range"),
        ({"least": 20_000}, "a search from 20,000 to"),
    ],
)
def test_a_mistake_of_a_url_names_its_option(tmp_path: Path, asked: dict[str, Any], text: str) -> None:
    """It names no generated file, and leaves none, nor touches the study of an earlier run."""
    with pytest.raises(SvloadError) as caught:
        of_url(tmp_path, **asked)
    assert str(caught.value.problems[0]).startswith(text)
    assert not list(tmp_path.iterdir())
    of_url(tmp_path)
    kept = sorted(tmp_path.rglob("*"))
    with pytest.raises(SvloadError):
        of_url(tmp_path, **asked)
    assert sorted(tmp_path.rglob("*")) == kept != []


@pytest.mark.parametrize(
    ("that", "within_s", "lasts_s", "waits_s"),
    [
        ("p95 <= 10 ms", None, 5, 30),
        ("p95 <= 200ms", 45, None, 1.5),
        ("p95 <= 300 ms", 90, 4.5, None),
        ("p95 <= 300 ms", 20, 1, None),
        ("success_rate >= 99 %", 90, 2.25, None),
        ("p95 <= 1 s and p50 <= 100 ms", None, 15, 30),
        ("p95 <= 20 s", 45, None, 30),
    ],
)
def test_a_trial_lasts_long_enough_and_a_hang_is_given_up_soon(
    tmp_path: Path, that: str, within_s: float | None, lasts_s: float | None, waits_s: float | None
) -> None:
    """The timeout is well above the requested response, so that the criterion decides."""
    lock = of_url(tmp_path, that=that, within_s=within_s)
    (request,) = lock.source["requests"].values()
    if lasts_s:
        assert lock.measure.duration_ns == lasts_s * 1e9
    if waits_s:
        assert parse_quantity(request["timeout"], "time_s") == waits_s
        assert lock.search.given_up_s == (waits_s if waits_s < 30 else None)


@pytest.mark.parametrize("typed", ["30s", "2s"])
def test_a_time_out_that_was_typed_stays(tmp_path: Path, typed: str) -> None:
    lock = of_url(tmp_path, within_s=45, request=QuickLoad(URL, timeout=typed))
    (request,) = lock.source["requests"].values()
    assert (request["timeout"], lock.search.given_up_s) == (typed, None)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"that": "p95 == 200 ms"}, "<= or >="),
        ({"that": "speed <= 3"}, "speed"),
        ({"that": "throughput >= 500/s"}, "grows with the load"),
        ({"that": "success_rate <= 99 %"}, "does not break"),
        ({"that": "success_rate >= 100 %"}, "none ever fails"),
        ({"that": "response.p95 <= 0 ms"}, "not above 0"),
        ({"until": "gain < ten"}, "expected a gain"),
        ({"until": "gain < 0 %"}, "expected a gain between 0 and 100 %"),
        ({"until": "gain < 100 %"}, "expected a gain between 0 and 100 %"),
        ({"until": "gain < 10 %", "that": CRITERION}, "without --that"),
        ({"until": "gain < 10 %", "at_least": 5}, "--at-least"),
        ({"that": CRITERION, "at_least": 500}, "500 is not between 1 and 400"),
        ({"that": CRITERION, "least": 5, "most": 900}, "does not fit users"),
        ({"that": CRITERION, "over": "rate"}, "one open factor"),
        ({"that": CRITERION, "within_s": 2.0}, "--for is too short: one trial takes 2.5 s"),
        ({"that": CRITERION, "request": QuickLoad("x", headers=("A: b",))}, "apply to a URL"),
        ({"that": CRITERION, "factor": "[1, 2]"}, "--over users --from 1 --to 4000"),
    ],
)
def test_unsearchable_is_one_sentence(study: Study, asked: dict[str, Any], words: str) -> None:
    asked = dict(asked)
    with pytest.raises(SvloadError) as caught:
        lock_of(study(asked.pop("factor", OPEN)), **asked)
    assert caught.value.exit_code is ExitCode.USAGE
    assert words in str(caught.value.problems[0])


def result(batch_trial: Any, value: float, server: str = "STEADY") -> TrialResult:
    metrics = {
        "people.response.p95": Estimate(value=value, n=2_000),
        "people.ok_throughput": Estimate(value=100.0, n=2_000),
        "people.success_rate": Estimate(value=1.0, n=2_000),
    }
    own = {"trial": batch_trial.trial, "replicate": batch_trial.replicate}
    return trial_result(batch_trial.case, batch_trial.block, metrics, server=server, **own)


def played(lock: Lock, breaks_above: float = 100, made: Any = None) -> tuple[list[Batch], list[TrialResult]]:
    """Run the search against a server whose p95 is 200 ms at this number of users, or with other trials."""
    made = made or (lambda trial, users: result(trial, 0.2 * (users / breaks_above) ** 2))
    batches, results = [first_batch(lock)], []
    while len(batches) < 60:
        results += [made(trial, int(trial.at.values["users"])) for trial in batches[-1].trials]
        following = capacity(lock, sealed(batches, results))
        if following is None:
            return batches, results
        batches.append(following)
    raise AssertionError("no answer")


def sealed(batches: Sequence[Batch], results: Sequence[TrialResult]) -> Sealed:
    trials = {one.trial: one for one in results}
    return Sealed(batches, dict.fromkeys(trials, "0" * 64), Verdicts(trials))


def test_what_was_found_is_reported_with_every_load_and_trial(study: Study) -> None:
    lock = lock_of(study(), that=CRITERION, at_least=50)
    batches, results = played(lock, 100)
    trials = [trial for batch in batches for trial in batch.trials]
    assert len({trial.trial for trial in trials}) == len(trials) == len(results)
    numbered = [(place, place + 1) for place in range(len(trials))]
    assert [(trial.position, trial.block) for trial in trials] == numbered
    assert len({trial.seed for trial in trials}) == len(trials)
    shown = capacity_of(lock, list(reversed(results)))
    assert (shown.state, shown.ended) == ("found", True)
    assert shown.limit == pytest.approx(100, rel=0.03)
    assert shown.low <= 100 <= shown.high
    assert [one.trial for one in shown.trials] == [one.trial for one in results], "in the order they ran"
    levels = {one.load: one.outcome for one in shown.levels}
    assert (levels[64], levels[128]) == ("holds", "breaks")
    interval = f"({shown.low} to {shown.high}: 95 % interval"
    assert f"holds up to about {round(shown.limit or 0)} users {interval}" in shown.sentence
    assert shown.gate.outcome == search_outcome(shown) == "pass"


def test_an_interval_that_reaches_below_the_allowed_loads_is_no_pass(study: Study) -> None:
    """Its lower end was raised to the smallest allowed load, which used to count as enough."""
    lock = lock_of(study(), that=CRITERION, least=99, at_least=99)

    def noisy(trial: Any, users: int) -> TrialResult:
        return result(trial, 0.2 * (users / 101) ** 2 * 1.3 ** ((trial.position * 7 % 5 - 2) / 2))

    shown = capacity_of(lock, played(lock, made=noisy)[1])
    assert shown.state == "found", shown.sentence
    assert shown.low < 99 <= shown.limit
    assert shown.gate.outcome == "open"


def test_a_search_fits_its_time_however_slow_the_machine_is(study: Study) -> None:
    """Trials take twice as long as expected: the last one leaves time for the answer."""
    lock = lock_of(study(), that=CRITERION, within_s=60)
    batches, results = [first_batch(lock)], []
    sealed_s: dict[str, float] = {}
    now_s = 1e9 + 6
    while True:
        for trial in batches[-1].trials:
            load = int(trial.at.values["users"])
            results.append(result(trial, 0.2 * (load / 100) * (1 + 0.3 * (len(results) % 2))))
            now_s += 5
            sealed_s[trial.trial] = now_s
        known = sealed(batches, results)
        verdicts = replace(known.verdicts, sealed_s=sealed_s, begun_s=1e9)
        if (following := capacity(lock, replace(known, verdicts=verdicts))) is None:
            break
        batches.append(following)
    assert 60 - 28 <= now_s - 1e9 <= 0.88 * 60
    shown = capacity_of(lock, results, sealed_s, 1e9)
    assert shown.ended
    assert "the time of 60 s is over" in shown.sentence


def unanswered(batch_trial: Any) -> TrialResult:
    what = {"group": "people", "error": "connect_refused", "failed": 2_000, "sentence": "gone"}
    gone = Outage(since_s=0.0, until_s=None, **what)
    counts = {name: Estimate(value=2_000.0, n=1) for name in ("people.failed", "people.requests")}
    found = result(batch_trial, 0.1)
    return evolve(found, outages=(gone,), metrics=found.metrics | counts)


@pytest.mark.parametrize("back", [False, True])
def test_a_search_ends_where_its_server_is_gone(study: Study, back: bool) -> None:
    """What was measured before gives the answer, without the trial in which the server disappeared; if it
    returns, the search continues."""
    lock = lock_of(study(), that=CRITERION)
    batches, results = played(lock, 100)
    last = batches[-1].trials
    made = results[: -len(last)]
    dying = made[-1].metrics | {"people.failed": Estimate(value=3.0, n=1)}
    made[-1] = evolve(made[-1], metrics=dying)
    made += [result(one, 0.2) if back and one is last[-1] else unanswered(one) for one in last]
    shown = capacity_of(lock, made)
    without = [one.outcome for one in shown.trials].count("no number")
    if back:
        assert "gone" not in shown.sentence
        assert without == len(last) - 1
        return
    assert capacity(lock, sealed(batches, made)) is None
    assert (shown.ended, shown.state) == (True, "found")
    assert f"server gone since the end of {made[-len(last) - 1].trial}" in shown.sentence
    assert without == len(last) + 1
    assert shown.low <= 100 <= shown.high


def test_the_knee_is_reported_with_its_steps(study: Study) -> None:
    lock = lock_of(study(), until="gain < 10 %")

    def flat_above_40(trial: Any, users: int) -> TrialResult:
        made = result(trial, 0.01)
        rate = Estimate(value=10.0 * min(users, 40), n=2_000)
        return evolve(made, metrics={**made.metrics, "people.ok_throughput": rate})

    _, results = played(lock, made=flat_above_40)
    shown = capacity_of(lock, results)
    assert shown.state == "found", shown.sentence
    assert shown.limit == pytest.approx(40, rel=0.15)
    assert len(shown.steps) == len(results) / 2
    assert max(one.high_rps for one in shown.steps) == pytest.approx(400.0)
    assert "more users gain less than 10 %" in shown.sentence
    left = capacity_of(lock, [one for one in results if one is not results[2]])
    assert left.steps == (shown.steps[0], *shown.steps[2:]), (
        "a trial that was given up takes only its own step"
    )
    assert [one.outcome for one in left.trials][:4] == ["holds", "holds", "no number", "holds"]


def test_a_live_picture_shows_every_level_with_its_verdict(study: Study) -> None:
    lock = lock_of(study(), that=CRITERION)
    batches, results = played(lock, 100)
    shown = so_far(lock, sealed(batches[:5], results[:5]))
    line = search_line({**shown, "because": "x"})
    assert line.plain.startswith("users:")
    assert f"between {shown['low']:,} and {shown['high']:,}" in line.plain
    assert "✓" in line.plain and "✗" in line.plain
    early = search_line(so_far(lock, sealed(batches[:1], results[:1])))
    assert "8 ✓" in early.plain
    late = search_line(so_far(lock, sealed(batches, results)))
    assert "about 100 (" in late.plain
    assert search_line({"trials": 3, "because": "block 7"}) is None


@pytest.mark.parametrize(
    ("asked", "breaks_above", "code", "words"),
    [
        ({}, 100, ExitCode.DONE, "holds up to about 100 users"),
        ({}, 10_000, ExitCode.REFUSED, "the limit is higher"),
        ({}, 0.5, ExitCode.REFUSED, "the limit is lower"),
        ({"within_s": 14.4}, 100, ExitCode.REFUSED, "held at 64 and broke at 128"),
        ({"at_least": 50}, 100, ExitCode.DONE, ""),
        ({"at_least": 100}, 100, ExitCode.REFUSED, ""),
        ({"at_least": 300}, 100, ExitCode.THRESHOLD_FAILED, ""),
    ],
)
def test_the_exit_code_is_the_gate_s_and_without_one_that_of_the_answer(
    study: Study, asked: dict[str, Any], breaks_above: float, code: ExitCode, words: str
) -> None:
    lock = lock_of(study(), that=CRITERION, **asked)
    shown = capacity_of(lock, played(lock, breaks_above)[1])
    assert verdict_exit(findings_of(capacity=shown)) is code, shown.sentence
    assert words in shown.sentence


def test_a_search_killed_between_batches(study: Study, tmp_path: Path) -> None:
    """All that is planned is sealed, and yet it continues: only its journal can state that it is complete."""
    lock = lock_of(study(), that=CRITERION)
    run = RunDir.create(tmp_path / "runs", "bears")
    batch = first_batch(lock)
    write_artefact(run.lock_path, lock)
    write_artefact(run.batch_path(0), batch)
    for trial in batch.trials:
        run.trial(trial.trial).path.mkdir()
        run.trial(trial.trial).seal.write_text("{}")
    assert run.is_complete()
    assert [one.name for one in unfinished_runs(tmp_path / "runs", adds_batches)] == [run.name]
    with Journal(run.events) as journal:
        journal.write(Event("trial-sealed", {"trial": batch.trials[0].trial}), sync=True)
        assert [one.name for one in unfinished_runs(tmp_path / "runs", adds_batches)] == [run.name]
        journal.write(Event("run-ended", {"complete": True}), sync=True)
    assert unfinished_runs(tmp_path / "runs", adds_batches) == []


@pytest.mark.parametrize("compared", [True, False])
def test_the_kept_is_the_judged(compared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checked after all trials but the last, then after all."""
    if not compared:
        of_study = RunDir.lock
        monkeypatch.setattr(RunDir, "lock", lambda run: evolve(of_study(run), comparisons=()))
    made = make_run(tmp_path, cases=2, replicates=2, duration_s=0.4)
    run = RunDir(made.path)
    last = made.sealed_trials()[-1]
    kept = tmp_path / "kept"
    shutil.move(run.trial(last).path, kept)
    ask = FinalVerdicts()
    before = ask(run).trials
    assert before == FinalVerdicts()(run).trials and last not in before
    shutil.move(kept, run.trial(last).path)
    assert ask(run).trials == FinalVerdicts()(run).trials
    assert last in ask(run).trials


def test_the_time_of_a_run_begins_with_the_execution_that_sealed_its_first_trial(tmp_path: Path) -> None:
    """The first of three executions was stopped; a day later the second sealed all, and the third nothing."""
    run = RunDir(make_run(tmp_path, cases=1, replicates=2, duration_s=0.4).path)
    sealed_s = sealed_at(read_trial(run.trial(name)) for name in run.sealed_trials()).values()
    with Journal(run.events) as journal:
        for wall in (min(sealed_s) - 86_400, min(sealed_s) - 5, max(sealed_s) + 5):
            journal.write(Event("placement", {}, wall=wall))
    assert FinalVerdicts()(run).begun_s == min(sealed_s) - 5
