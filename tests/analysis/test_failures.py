"""Failures by group or step, status, error and check, and when they come first in the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.evolve import evolve
from tests.results import case_of

from svload.analysis import limits
from svload.analysis.failures import failures_of
from svload.model.executors import ConstantVus
from svload.model.faults import Fault
from svload.model.results import (
    Claim,
    Estimate,
    Failures,
    Gate,
    GroupSummary,
    StepSummary,
    ThresholdResult,
    TrialSummary,
)
from svload.model.study import CaseConfig
from svload.model.traffic import BodyCheck, Group, Request, Scenario, StatusCheck, Step, TextTest

OWNERS: Mapping[str, Any] = {"shop": "traffic", "shop.login": "traffic", "shop.order": "traffic"}


def request(name: str, **fields: Any) -> Request:
    return Request(name=name, scheme="http", host="web", path=(), **fields)


ORDER = request("order", checks=(StatusCheck(name="status == 200", status=(200, 200)),))
BODY = request("order", checks=(BodyCheck(name="body contains ok", body=TextTest(present=True)),))


def config(order: Request = ORDER, case: str = "A", **fields: Any) -> CaseConfig:
    steps = (Step(name="login", request=request("login")), Step(name="order", request=order))
    group = Group(
        name="shop",
        executor=ConstantVus(vus=1),
        request=steps[0].request,
        scenarios=(Scenario(name="visit", steps=steps),),
    )
    return case_of(group, name=case, **fields)


def step(name: str, ok: int = 900, failed: int = 0, **fields: Any) -> StepSummary:
    status = fields.pop("status", {"200": ok})
    return StepSummary(
        name=name,
        due=ok + failed,
        begun=ok + failed,
        dropped=0,
        ok=ok,
        failed=failed,
        status=status,
        **fields,
    )


def trial(*steps: StepSummary, case: str = "A", number: int = 1, **fields: Any) -> TrialSummary:
    due, ok, failed = (sum(getattr(one, name) for one in steps) for name in ("due", "ok", "failed"))
    errors = {name: count for one in steps for name, count in one.errors.items()}
    group = GroupSummary(name="shop", due=due, begun=due, waiting=0, dropped=0, ok=ok, failed=failed, in_flight=0, written=due,
                         completed_in_window=due, ok_in_window=ok, errors=errors, steps=steps, **fields)  # fmt: skip
    return TrialSummary(trial=f"{case}.r{number}", case=case, started_wall=0.0, start_at_ns=0, window_ns=(0, 10**9), interval_ns=10**6,
                        groups=(group,), generators=())  # fmt: skip


def wrong_orders(failed: int = 9, ok: int = 891, **where: Any) -> TrialSummary:
    """Some orders are answered with 201 where 200 is expected."""
    order = step("order", ok, failed, status={"200": ok, "201": failed}, errors={"check": failed})
    return trial(step("login"), order, checks_failed={"order: status == 200": failed}, **where)


def found(*summaries: TrialSummary, of: CaseConfig | None = None, thresholds: tuple[ThresholdResult, ...] = (), claims: tuple[Claim, ...] = (), searched: bool = False) -> tuple[Failures, ...]:  # fmt: skip
    one = of or config()
    return failures_of({one.case.name: one}, summaries, thresholds, claims, OWNERS, searched)


def said(that: str, outcome: Any) -> ThresholdResult:
    return ThresholdResult(case="A", that=that, outcome=outcome, measured=0.99, sentence="told")


def test_a_wrong_status_is_reported_with_the_one_that_was_expected() -> None:
    (row,) = found(wrong_orders())
    assert (row.case, row.owner, row.failed, row.ended) == ("A", "shop.order", 9, 900)
    assert [(one.kind, one.name, one.count, one.expected) for one in row.kinds] == [
        ("status", "201", 9, "200")
    ]
    assert row.trials == ("A.r1",)


def test_nothing_is_reported_where_nothing_failed() -> None:
    assert found(trial(step("login"), step("order"))) == ()


def test_the_default_says_what_is_expected_where_no_check_does() -> None:
    order = step("order", 0, 900, status={"500": 900}, errors={"status": 900})
    (row,) = found(trial(step("login"), order), of=config(request("order")))
    assert [(one.name, one.count, one.expected) for one in row.kinds] == [("500", 900, "200 to 399")]


def test_errors_and_checks_are_reported_by_name_the_most_frequent_first() -> None:
    order = step("order", 880, 20, errors={"check": 5, "timeout_first_byte": 12, "read_reset": 3})
    (row,) = found(
        trial(step("login"), order, checks_failed={"order: body contains ok": 5, "login: other": 7}),
        of=config(BODY),
    )
    assert [(one.kind, one.name, one.count) for one in row.kinds] == [
        ("error", "timeout_first_byte", 12),
        ("check", "body contains ok", 5),
        ("error", "read_reset", 3),
    ]


def test_what_the_generator_s_own_limits_cost_is_no_failure_of_the_server_s() -> None:
    order = step("order", 800, 100, errors={"eaddrnotavail": 100})
    assert found(trial(step("login"), order)) == ()


def test_summaries_that_counted_no_steps_are_reported_as_the_group() -> None:
    order = step("order", 891, 9, errors={"read_reset": 9})
    summary = trial(order)
    group = evolve(summary.groups[0], steps=())
    (row,) = found(evolve(summary, groups=(group,)))
    assert row.owner == "shop"


def test_each_case_has_a_row_of_its_own_trials() -> None:
    configs = {name: config(case=name) for name in ("A", "B")}
    summaries = [wrong_orders(case=name, number=number) for name in ("A", "B") for number in (1, 2)]
    rows = failures_of(configs, summaries, (), (), OWNERS)
    assert [row.trials for row in rows] == [("A.r1", "A.r2"), ("B.r1", "B.r2")]


@pytest.mark.parametrize(("failed", "ok", "leads"), [(2, 998, True), (1, 999, False)])
def test_failures_lead_where_less_than_99_9_percent_are_ok(failed: int, ok: int, leads: bool) -> None:
    assert limits.SUCCESS_LEADS == 0.999
    (row,) = found(wrong_orders(failed, ok))
    assert row.beside == ("" if leads else "few")


@pytest.mark.parametrize("that", ["shop.order.success_rate >= 99.99 %", "shop.error_rate < 0.01 %"])
def test_few_lead_where_a_criterion_on_them_failed(that: str) -> None:
    (row,) = found(wrong_orders(1, 9_999), thresholds=(said(that, "failed"),))
    assert row.beside == ""
    (other,) = found(wrong_orders(1, 9_999), thresholds=(said("shop.response.p50 < 1 ms", "failed"),))
    assert other.beside == "few"


def test_a_gate_on_success_that_failed_makes_them_lead() -> None:
    claim = Claim(name="B against A", factor="build", baseline="a", treatment="b", metric="shop.success_rate", pairs=(("Z", "A"),), blocks=6,
                  ratio=Estimate(value=0.99), p=None, p_adjusted=None, mde=None, sentence="told",
                  gate=Gate(text="worse by more than 0.1 %", outcome="fail"))  # fmt: skip
    for metric, beside in (
        ("shop.success_rate", ""),
        ("shop.order.failed", ""),
        ("shop.login.failed", "few"),
        ("shop.response.p50", "few"),
    ):
        gated = evolve(claim, metric=metric)
        assert [row.beside for row in found(wrong_orders(1, 9_999), claims=(gated,))] == [beside]


def test_what_a_criterion_of_the_study_takes_does_not_lead() -> None:
    (row,) = found(wrong_orders(), thresholds=(said("shop.order.success_rate >= 98 %", "passed"),))
    assert row.beside == "allowed"
    (step_too,) = found(wrong_orders(), thresholds=(said("shop.success_rate >= 98 %", "passed"),))
    assert step_too.beside == "allowed"
    (worse,) = found(wrong_orders(900, 0), thresholds=(said("shop.success_rate >= 40 %", "passed"),))
    assert worse.beside == "", "a step that fails each time is not hidden by the others"
    (times,) = found(wrong_orders(), thresholds=(said("shop.order.response.p50 < 1 s", "passed"),))
    assert times.beside == ""


def test_failures_that_a_study_is_after_do_not_lead() -> None:
    fault = Fault.model_construct()
    (planned,) = found(wrong_orders(), of=evolve(config(), faults=(fault,)))
    assert planned.beside == "planned fault"
    (sought,) = found(wrong_orders(), searched=True)
    assert sought.beside == "search"
