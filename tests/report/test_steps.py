"""A scenario's steps have a table in each case's section: what each asks for, and its own numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.evolve import evolve

from svload.model.traffic import Scenario, Step
from svload.report.data.gather import Gathered, gather
from svload.report.page.render import render_page

Reporter = Callable[[str], Any]
STEPS = ("login", "buy <b>")


def with_steps(found: Gathered) -> Gathered:
    """Each background group as a scenario of two steps, whose numbers are the group's own."""
    configs = {}
    for name, config in found.configs.items():
        groups = []
        for group in config.groups:
            if group.name == "background":
                steps = tuple(Step(name=step, request=group.request) for step in STEPS)
                group = evolve(group, scenarios=(Scenario(name="shop", steps=steps),))
            groups.append(group)
        configs[name] = evolve(config, groups=tuple(groups))
    cases = []
    for case in found.findings.cases:
        own = {
            f"background.{step}.{key.removeprefix('background.')}": estimate
            for step in STEPS
            for key, estimate in case.metrics.items()
            if key.startswith("background.")
        }
        cases.append(evolve(case, metrics=case.metrics | own))
    findings = evolve(found.findings, cases=tuple(cases))
    return replace(found, configs=configs, findings=findings)


def test_steps_have_a_table_with_their_requests_and_numbers(reported: Reporter) -> None:
    found = reported("plain")
    page, _ = render_page(with_steps(gather(found.run, found.findings)))
    tables = re.findall(r'<div class="scroll" id="TC1\.steps".*?</table>', page, re.DOTALL)
    assert len(tables) == 1
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)<small>background</small></th><td>(.*?)</td>", tables[0])
    assert [name for name, _ in rows] == ["login", "buy &lt;b&gt;"]
    assert all(request.startswith("GET, time-out") for _, request in rows)
    median = found.findings.cases[1].metrics["background.response.p50"]
    assert f"{median.value * 1e3:.3g} ms" in tables[0]


def test_without_scenarios_there_is_none(reported: Reporter) -> None:
    assert ".steps" not in reported("plain").page
