"""Failures by group or step, status, error and check, and when they come first in the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.evolve import evolve
from tests.results import case_of

from svload.analysis.failures import failures_of
from svload.analysis.sentences import unlike_answers
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
    scenarios = (Scenario(name="visit", steps=steps),)
    group = Group(name="shop", executor=ConstantVus(vus=1), request=steps[0].request, scenarios=scenarios)
    return case_of(group, name=case, **fields)


def step(name: str, ok: int = 900, failed: int = 0, **fields: Any) -> StepSummary:
    counts = {"due": ok + failed, "begun": ok + failed, "dropped": 0, "ok": ok, "failed": failed}
    return StepSummary(name=name, **{"status": {"200": ok}} | counts | fields)


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


@pytest.mark.parametrize(
    ("order", "checks_failed", "request_", "kinds"),
    [
        (
            step("order", 891, 9, status={"200": 891, "201": 9}, errors={"check": 9}),
            {"order: status == 200": 9},
            ORDER,
            [("status", "201", 9, "200")],
        ),
        (
            step("order", 0, 900, status={"500": 900}, errors={"status": 900}),
            {},
            request("order"),
            [("status", "500", 900, "200 to 399")],
        ),
        (
            step("order", 880, 20, errors={"check": 5, "timeout_first_byte": 12, "read_reset": 3}),
            {"order: body contains ok": 5, "login: other": 7},
            BODY,
            [
                ("error", "timeout_first_byte", 12, ""),
                ("check", "body contains ok", 5, ""),
                ("error", "read_reset", 3, ""),
            ],
        ),
    ],
    ids=["a status that was not expected", "no check: the default", "errors and checks, most frequent first"],
)
def test_failures_are_reported_by_kind(
    order: StepSummary, checks_failed: dict[str, int], request_: Request, kinds: list[Any]
) -> None:
    (row,) = found(trial(step("login"), order, checks_failed=checks_failed), of=config(request_))
    assert (row.case, row.owner, row.failed, row.ended) == ("A", "shop.order", order.failed, 900)
    assert [(one.kind, one.name, one.count, one.expected) for one in row.kinds] == kinds
    assert row.trials == ("A.r1",)


def test_nothing_is_reported_where_the_server_failed_nothing() -> None:
    """What the generator's own limits cost is no failure of the server's."""
    for order in (step("order"), step("order", 800, 100, errors={"eaddrnotavail": 100})):
        assert found(trial(step("login"), order)) == ()


@pytest.mark.parametrize(
    ("failed", "ok", "that", "outcome", "beside"),
    [
        # less than 99.9 % are ok
        (12, 9_988, "", "", ""),
        (1, 999, "", "", "few"),
        # few, but a criterion on them failed
        (1, 9_999, "shop.order.success_rate >= 99.99 %", "failed", ""),
        (1, 9_999, "shop.error_rate < 0.01 %", "failed", ""),
        (1, 9_999, "shop.response.p50 < 1 ms", "failed", "few"),
        # a criterion of the study takes them
        (9, 891, "shop.order.success_rate >= 98 %", "passed", "allowed"),
        (9, 891, "shop.success_rate >= 98 %", "passed", "allowed"),
        (9, 891, "shop.order.response.p50 < 1 s", "passed", ""),
        # a step that fails each time is not hidden by the others
        (900, 0, "shop.success_rate >= 40 %", "passed", ""),
    ],
)
def test_failures_lead_unless_they_are_few_or_allowed(
    failed: int, ok: int, that: str, outcome: Any, beside: str
) -> None:
    thresholds = ()
    if that:
        thresholds = (ThresholdResult(case="A", that=that, outcome=outcome, measured=0.99, sentence=""),)
    (row,) = found(wrong_orders(failed, ok), thresholds=thresholds)
    assert row.beside == beside


BUILDS = Claim(
    name="B against A",
    factor="build",
    baseline="a",
    treatment="b",
    metric="shop.success_rate",
    pairs=(("Z", "A"),),
    blocks=6,
    ratio=Estimate(value=0.99),
    p=None,
    p_adjusted=None,
    mde=None,
    sentence="told",
    gate=Gate(text="worse by more than 0.1 %", outcome="fail"),
)


@pytest.mark.parametrize(
    ("baseline", "treatment", "codes"),
    [
        ({"200": 900}, {"301": 900}, "a: 200; b: 301"),
        ({"200": 900, "304": 100}, {"200": 990, "204": 10}, "a: 200, 304; b: 200, 204"),
        ({"200": 900}, {"200": 900}, None),
        ({"200": 900}, {"200": 892, "301": 8}, None),
        ({"200": 900, "304": 9}, {"200": 1, "304": 900}, None),
        ({"200": 900}, {"200": 500, "503": 400}, None),
        ({"200": 900}, {}, None),
    ],
    ids=["a redirect", "another status each", "alike", "too few", "both have both", "failures", "no answer"],
)
def test_sides_that_answer_differently_are_named(
    baseline: dict[str, int], treatment: dict[str, int], codes: str | None
) -> None:
    groups = {
        case: GroupSummary.model_construct(status=status)
        for case, status in (("Z", baseline), ("A", treatment))
    }
    summaries = [TrialSummary.model_construct(case=case, groups=(group,)) for case, group in groups.items()]
    told = [one.sentence for one in unlike_answers((BUILDS, BUILDS), summaries)]
    assert told == (
        [f"The compared sides answer with different statuses ({codes}): check that both do the same work."]
        if codes
        else []
    )


def test_a_gate_on_success_that_failed_makes_them_lead() -> None:
    for metric, beside in (
        ("shop.success_rate", ""),
        ("shop.order.failed", ""),
        ("shop.login.failed", "few"),
        ("shop.response.p50", "few"),
    ):
        gated = evolve(BUILDS, metric=metric)
        assert [row.beside for row in found(wrong_orders(1, 9_999), claims=(gated,))] == [beside]


def test_failures_that_a_study_is_after_do_not_lead() -> None:
    fault = Fault.model_construct()
    (planned,) = found(wrong_orders(), of=evolve(config(), faults=(fault,)))
    assert planned.beside == "planned fault"
    (sought,) = found(wrong_orders(), searched=True)
    assert sought.beside == "search"
