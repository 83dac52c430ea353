"""All mistakes of a study are reported at once, each with its line and the nearest valid word."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import pytest

from .conftest import SMALL, line_of, problems_of, refusal


@dataclass(frozen=True)
class Slip:
    """One mistake in SMALL: the original text, its replacement, and what must be reported."""

    old: str
    new: str
    code: str
    says: tuple[str, ...]

    def line(self) -> int:
        at = SMALL.index(self.old) + len(self.old) - len(self.old.lstrip())
        return SMALL.count("\n", 0, at) + 1


# No two of them change the same entry of the study in a way that would change the meaning of one.
SLIPS = (
    Slip("replicates: 3", "replicats: 3", "study-unknown-key", ("replicats", "measure", "“replicates”")),
    Slip("duration: 2s", "duration: 2 parsec", "study-bad-value", ("measure.duration", "parsec", "ms, s")),
    Slip("timeout: 5s", "timeout: 5", "study-bad-value", ("requests.fetch.timeout", "a unit is missing", "Write 5 s.")),
    Slip("vus: 40", "vus: -40", "study-bad-value", ("traffic.crowd.vus", "at least 1", "-40")),
    Slip("generators: 2", "generators: 1_0", "study-bad-value", ("traffic.crowd.generators", "“1.0” or “10”")),
    Slip("count: 100", "count: '1,00'", "study-bad-value", ("data.things.count", "“1.00” or “100”")),
    Slip("${scheme}", "${sceme}", "study-bad-reference", ("${sceme}", "“${scheme}”")),
    Slip("${way.host}", "${way.hots}", "study-bad-reference", ("${way.hots}", "“${way.host}”")),
    Slip("${thing.path}", "${thing.pth}", "study-bad-reference", ("${thing.pth}", "“${thing.path}”")),
    Slip("host: front", "host: frnt", "study-unknown-name", ("way.through.host", "frnt", "service", "“front”")),
    Slip("when: {way: through, users", "when: {wy: through, users", "study-unknown-name", ("exclude[0]", "wy", "factor", "“way”")),
    Slip("users: 8}, because", "users: 9}, because", "study-unknown-name", ("9", "level of users", "Known: 1, 8")),
    Slip("when: {users: 8}", "when: {user: 8}", "study-unknown-name", ("traffic.crowd.when", "“users”")),
    Slip("in: store", "in: stor", "study-unknown-name", ("data.things.in", "service", "“store”")),
    Slip("from: things", "from: thinks", "study-unknown-name", ("feeders.thing.from", "“things”")),
    Slip("take: walk", "take: wlk", "study-bad-value", ("feeders.thing.take", "first, walk, sequential, unique, vu, random", "“walk”")),
    Slip("reset: [store, front]", "reset: [store, font]", "study-unknown-name", ("before_trial[0].reset[1]", "“front”")),
    Slip("warm: thing", "warm: ting", "study-unknown-name", ("before_trial[1].warm", "feeder", "“thing”")),
    Slip("start_when: crowd.ramped", "start_when: crwd.ramped", "study-unknown-name", ("traffic.guest.start_when", "“crowd”")),
    Slip("client: curl", "client: crl", "study-bad-value", ("traffic.guest.client", "engine, curl", "“curl”")),
    Slip("factor: way", "factor: ways", "study-unknown-name", ("compare[0].factor", "“way”")),
    Slip("guest.response.p50", "guest.respons.p50", "study-bad-criterion", ("“response”", "metric[.stat], for")),
    Slip("guest.success_rate >= 99 %", "guest.success_rate >= 99 ms", "study-bad-criterion", ("ms", "%")),
    Slip("front.requests == 0", "front.request == 0", "study-bad-criterion", ("request", "“requests”")),
    Slip("status == 200", "staus == 200", "study-bad-value", ("requests.fetch.check[0]", "“status”")),
    Slip("size: 4 KiB", "size: 100 KB", "study-bad-value", ("data.things.size", "“100 kB” or “100 KiB”.")),
    Slip("kit: glass", "kid: glass", "study-bad-value", ("lab.front", "kit, run, at")),
    Slip("    measure: {duration: 0.5s}", "    measur: {duration: 0.5s}", "study-unknown-key", ("measur", "“measure”")),
    Slip("{vus: 4}", "{vus: four}", "study-bad-value", ("traffic.crowd.vus", "whole number", "four")),
    Slip("think_time: 10ms", "sleep: 10ms", "study-unknown-key", ("sleep", "traffic.guest", "“think_time”")),
    Slip("\nexclude:", "\nexlude:", "study-unknown-key", ("exlude", "“exclude”")),
    Slip("\nrequests:", "\nrequest:", "study-unknown-key", ("request", "“requests”")),
    Slip("\nfactors:", "\nfactrs:", "study-unknown-key", ("factrs", "“factors”")),
)  # fmt: skip


def planted(*slips: Slip) -> str:
    text = SMALL
    for slip in slips:
        assert SMALL.count(slip.old) == 1 or slip.old.startswith("\n"), slip
        text = text.replace(slip.old, slip.new, 1)
    return text


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip.new.strip())
def test_one_mistake_gives_one_message_with_its_line_and_the_nearest_word(folder: Path, slip: Slip) -> None:
    (problem,) = problems_of(folder, planted(slip))
    assert problem.code == slip.code
    assert line_of(problem) == slip.line()
    for words in slip.says:
        assert words in str(problem)


def test_all_mistakes_at_once(folder: Path) -> None:
    assert len(problems_of(folder, planted(*SLIPS))) == len(SLIPS)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("size: 4 KiB", "size: {lognormal: {median: 9 KiB, p99: 4 KiB}}", "p99 must not be below the median"),
        ("think_time: 10ms", "think_time: {uniform: [2s, 1s]}", "the high end must not be below"),
        ("scheme: [http, https]", "scheme: []", "a list of levels"),
        ("scheme: [http, https]", "scheme: [http, http, https]", "listed twice"),
        ("scheme: [http, https]", "scheme: [http, https, htps]", "expected the scheme http or https"),
        ("get: ${scheme}://${way.host}$", "get: ${scheme}://${way.host}:80$", "follows from the service"),
        ("get: ${scheme}://${way.host}$", "get: ${scheme}://${thing.path}$", "one name for all requests"),
        ("users: [1, 8]", "users: [1, 8]\n  thing: [a]", "already used under factors"),
        ("users: [1, 8]", "users: [1, 8]\n  request: [a]", "a reserved word"),
        ("- {when: {way: through, users: 8}", "- {when: {}", "exclude[0].when: expected at least one entry"),
        ("- {when: {way: through, users: 8}", "- {when: {scheme: [http, https]}", "no case is left"),
        ("start_when: crowd.ramped", "start_when: crowd.ready", "GROUP.ramped"),
        ("kit: stone,", "kit: stone, run: ./x,", "one of kit, run, at"),
        ("duration: 2s", 'duration: "${users}"', "measure.duration"),
        ("reset: [store, front]", "reset: store\n    warm: thing", "one of reset, restart, drop_cache,"),
        ("containers: 10", "containers: 10.5", "a whole number"),
        ("workers: 4", 'workers: "${thing.path}"', "Only a request knows"),
        ('"${users}", think_time: 10ms', '"${users.count}", think_time: 10ms', "have no fields"),
        ('expect: "front.requests == 0"', 'expect: "${way.mark}"', "no such field (way: direct)"),
        ("when: {users: 8}, ex", 'when: {users: "${way}"}, ex', "before the cases are made"),
        ("metric: guest.response.p50", "metric: throughput, when: {way: direct}", "only one level of way"),
        ("tiny:", "tiny: {profiles: {}}\n  other:", "Unknown key “profiles”"),
    ],
)
def test_other_mistakes(folder: Path, old: str, new: str, says: str) -> None:
    assert SMALL.count(old) == 1, old
    (problem,) = problems_of(folder, SMALL.replace(old, new))
    assert says in str(problem)


@pytest.mark.parametrize(
    ("named", "lines"),
    [("one: one", [6]), ("one: two\n  two: one", [6, 7]), ("one: two\n  two: GET http://store/", [6])],
)
def test_a_request_that_only_names_one_is_no_request(folder: Path, named: str, lines: list[int]) -> None:
    """Also one that names itself, which would be an endless chain."""
    text = f"lab:\n  store: {{at: http://127.0.0.1:1}}\nmeasure: {{duration: 1s}}\nname: small\nrequests:\n  {named}\n"
    group = "{executor: constant-vus, vus: 1, request: one}"
    found = problems_of(folder, f"{text}traffic: {{guest: {group}}}\n")
    assert [line_of(one) for one in found] == lines
    assert all("expected a mapping" in str(one) for one in found)


@pytest.mark.parametrize(
    "field", ["{again: '${way.deep}'}", "['${way.deep}', '${way.deep}']", "{one: {two: ['${way.other}']}}"]
)
def test_a_list_or_mapping_that_leads_back_to_itself_is_reported(folder: Path, field: str) -> None:
    level = f"direct: {{deep: {field}, other: '${{way.deep}}', host"
    text = SMALL.replace("direct: {host", level).replace("timeout: 5s", "timeout: '${way.deep}'")
    found = problems_of(folder, text)
    assert any("leads back to itself" in str(one) for one in found)
    assert len(found) < 5


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("", "faults:\n  make: {at: 20s, pause: store, lasts: 1s}\n", "faults: expected a list"),
        ("", "setup:\n  make: {request: fetch}\n", "setup: expected a list"),
        ("  things: {in: store", "  - {in: store", "data: expected a mapping"),
        ("  things: {in: store", "  1: {in: store", "1"),
        ("  thing: {from: things", "  - {from: things", "feeders: expected a mapping"),
        ("  store: {kit: stone, workers: 4}\n  front: {kit: glass, of: store}", "  - {kit: stone, workers: 4}", "lab: expected a mapping"),
        ("  - reset: [store, front]\n  - {when: {way: through}, warm: thing, through: front}", "  make: {reset: [store, front]}", "before_trial: expected a list"),
        # after an open reference the brace of the next one would end both
        ("    get: ${scheme}", '    body: \'{"a": "${users", "b": ${users}}\'\n    post: ${scheme}', "It has no closing “}”"),
        ("reset: [store, front]", "reset: '${'", "It has no closing “}”"),
        ('"${users}"', '"${way.${users}}"', "It has no closing “}”"),
    ],
)  # fmt: skip
def test_a_wrong_section_or_open_reference_is_reported(folder: Path, old: str, new: str, says: str) -> None:
    assert old in SMALL
    found = problems_of(folder, SMALL.replace(old, new, 1) if old else SMALL + new)
    assert any(says in str(one) for one in found), found


def test_the_signs_of_a_reference_can_stand_for_themselves(folder: Path) -> None:
    text = SMALL.replace('X-Users: "${users}"', 'X-Users: "$${users and $${"')
    assert refusal(folder, f"question: what does ${{ cost?\n{text}") == ""


def test_a_bad_value_of_a_level_is_reported_at_the_level(folder: Path) -> None:
    text = SMALL.replace("users: [1, 8]", "users:\n    few: {n: 1}\n    many: {n: -8}")
    text = text.replace("${users}", "${users.n}").replace("users: 8", "users: many")
    (problem,) = problems_of(folder, text)
    assert line_of(problem) == SMALL.count("\n", 0, SMALL.index("users: [1, 8]")) + 3
    assert "-8" in str(problem)


@pytest.mark.parametrize(
    ("more", "options", "place", "says"),
    [
        ("", {"profile": "tny"}, "", "There is no profile “tny”. Did you mean “tiny”?"),
        ("  broken:\n    measure: {duration: soon}\n", {"profile": "tiny"}, "study.yaml:40", "soon"),
        ("", {"overrides": {"measure.duration": "soon"}}, "override measure.duration", "soon"),
    ],
)
def test_a_wrong_choice(folder: Path, more: str, options: dict[str, Any], place: str, says: str) -> None:
    (problem,) = problems_of(folder, SMALL + more, **options)
    assert says in str(problem)
    assert problem.place.endswith(place)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("case,scheme,way,users\nA,http,drect,1\nB,http,drect,8\n", ("names.csv:2", "“direct”")),
        ("case,scheme,way\nA,http,direct\n", ("case, scheme, users, way",)),
        ("case,scheme,way,users,valid\nA,http,through,8,yes\n", ("A is valid, but it is excluded",)),
        ("case,scheme,way,users\nA,http,direct,1\nA,http,direct,8\n", ("listed twice",)),
        (None, ("inside the study's folder",)),
    ],
)
def test_a_table_of_case_names_is_checked(folder: Path, table: str | None, says: tuple[str, ...]) -> None:
    """Each mistake once; without a table the study names one outside its folder."""
    (folder / "names.csv").write_text(table or "")
    name = "names.csv" if table else "../names.csv"
    (problem,) = problems_of(folder, SMALL.replace("feeders:", f"case_names: {name}\nfeeders:", 1))
    assert all(words in str(problem) for words in says), problem


HABITS = """\
name: habits
lab: {{api: {{at: "http://127.0.0.1:8080"}}}}
factors: {{build: [a, b]}}
requests: {{one: GET http://api/a, two: GET http://api/b}}
scenarios:
  buy: {scenario}
traffic:
  users: {group}
  others: {{executor: constant-vus, vus: 1, scenario: buy}}
measure: {{duration: 60s}}
compare:
  - {{factor: build, baseline: a, metric: response.p50, fail_if: {gate}}}
"""
SOUND = {
    "scenario": "[{request: one, think_time: 1s}, two]",
    "group": "{executor: constant-vus, vus: 4, request: one}",
    "gate": "worse by more than 5 %",
}
LINES = {"scenario": 6, "group": 8, "gate": 12}
ALL = "constant-vus, ramping-vus, shared-iterations, per-vu-iterations, constant-arrival-rate, ramping-arrival-rate"
STAGES = "With stages write executor: ramping-vus, whose targets are users ({duration: 30s, target: 100}), or ramping-arrival-rate, whose targets are rates"  # fmt: skip


@pytest.mark.parametrize(
    ("part", "written", "says"),
    [
        ("group", "{stages: [{duration: 30s, target: 20}], request: one}", f"traffic.users needs “executor”. {STAGES}"),
        ("group", "{executor: constant-vus, stages: [{duration: 30s, target: 20}], request: one}", f"Unknown key “stages” in traffic.users. {STAGES}"),
        ("group", "{vus: 4, request: one}", f"needs “executor”. Write executor: constant-vus, or another one of {ALL}."),
        ("group", "{rate: 5/s, request: one}", "Write executor: constant-arrival-rate, or another one of"),
        ("group", "{request: one}", f"traffic.users needs “executor”. Write one of {ALL}."),
        ("group", "{executor: constant-arrival-rate, rate: 5/s, sleep: 1s, request: one}", "Unknown key “sleep” in traffic.users. “think_time” goes with executor: constant-vus or ramping-vus or"),
        ("group", "{executor: constant-vus, rate: 5/s, request: one}", "“rate” goes with executor: constant-arrival-rate."),
        ("group", "{executor: constant-arrival-rate, rate: 5/s, timeUnit: 1s, request: one}", "Write it with the rate: rate: 50/s"),
        ("group", "{executor: constant-vus, vus: 4, duration: 30s, request: one}", "The measured time is set at the top level: measure: {duration: 30s}."),
        ("group", "{executor: ramping-vus, startVUs: 4, stages: [{duration: 30s, target: 20}], request: one}", "Did you mean “start_vus”?"),
        ("group", "{executor: constant-vus, vus: 4}", "traffic.users.request: expected one of request, scenario, mix, found nothing. Write request: GET http://service/path."),
        ("group", "{executor: constant-vus, vus: 4, request: http://api/}", "no such request: “http://api/”. Write GET http://api/."),
        ("group", "{executor: constant-vus, vus: 4, target: one}", "Unknown key “target” in traffic.users. Did you mean “request”?"),
        ("group", "{executor: constant-vus, vus: 4, request: one, artist: 3}", "Unknown key “artist” in traffic.users. Did you mean “start”?"),
        ("scenario", "[one, {sleep: 1s}, two]", "scenarios.buy[1]: a pause is not a step; use the step's think_time, found {sleep: 1s}. Write the pause at the step before it: {request: NAME, think_time: 2s}."),
        ("scenario", "[one, sleep 1s, two]", "a pause is not a step"),
        ("scenario", "[one, {think_time: 1s}, two]", "a pause is not a step"),
        ("scenario", "[{get: http://api/, think_time: 1s}, two]", "scenarios.buy[0]: think_time is not a key of a request; write it beside request"),
        ("scenario", "[{request: one, sleep: 1s}, two]", "Did you mean “think_time”?"),
        ("gate", "worse than 10%", "compare[0].fail_if: expected worse, better or different by more than a number of percent, found worse than 10%. Write worse by more than 10 %."),
        ("gate", "slower", "Write worse by more than 5 %."),
        ("gate", "different by 2.5 %", "Write different by more than 2.5 %."),
        ("gate", f"worse by {'9' * 5000} %", "Write worse by more than 5 %."),
        ("gate", "better by more than 100 %", "compare[0].fail_if: response never falls by 100 % or more, so this gate could not fail, found better by more than 100 %. Write a smaller number."),
    ],
)  # fmt: skip
def test_the_message_says_the_form(folder: Path, part: str, written: str, says: str) -> None:
    (problem,) = problems_of(folder, HABITS.format(**SOUND | {part: written}))
    assert line_of(problem) == LINES[part]
    assert says in str(problem)


AT_ONCE_SOUND = {
    "at": "http://127.0.0.1:1",
    "limit": "200 ms",
    "stages": "[{duration: 30s, target: 8}]",
    "group": "{executor: constant-vus, vus: 4, request: GET http://api/}",
    "duration": "60s",
    "fault": "{at: 1s, pause: own, for: 1s}",
    "criterion": "errors < 1 %",
    "gate": "worse by more than 5 %",
}
AT_ONCE = """\
name: at-once
lab:
  api: {{at: "{at}"}}
  own: {{run: "./server ${{port}}"}}
factors:
  page: {{small: {{within: {limit}}}, large: {{within: 1 s}}}}
traffic:
  wave: {{executor: ramping-vus, stages: {stages}, request: GET http://own/}}
  users: {group}
measure: {{duration: {duration}}}
faults: [{fault}]
thresholds:
  - "users.response.p95 < ${{page.within}}"
  - {criterion}
compare:
  - {{factor: page, baseline: small, metric: users.response.p50, fail_if: {gate}}}
"""


WRONG = {
    "a reference's value, known in its case": ("limit", "2 parsec", [13]),
    "a scheme that the server does not speak": ("at", "https://127.0.0.1:1", [9]),
    "a field, and what no field tells": ("group", "{executor: constant-vus, vus: four}", [9, 9]),
    "a missing executor, and a field": ("group", "{vus: 4, think_time: 5, request: GET http://api/}", [9, 9]),
    "a time without a unit": ("duration", "60", [10]),
    "a fault of no service": ("fault", "{at: 1s, pause: owm}", [11]),
    "a criterion in k6's words": ("criterion", "iteration_duration: p(95)<5", [14]),
    "a gate": ("gate", "worse than 5", [16]),
    "stages without a unit": ("stages", "[{duration: 30, target: 8}]", [8]),
}


@pytest.mark.parametrize(("first", "second"), list(combinations_with_replacement(WRONG, 2)))
def test_each_alone_and_any_two_together(tmp_path: Path, first: str, second: str) -> None:
    (one, text, lines), (other, text_too, lines_too) = WRONG[first], WRONG[second]
    found = [*lines, *(lines_too if one != other else [])]
    if {"at", "group"} == {one, other}:
        found.remove(9)  # the group with the wrong scheme is itself invalid
    problems = problems_of(tmp_path, AT_ONCE.format(**AT_ONCE_SOUND | {one: text, other: text_too}))
    assert [line_of(problem) for problem in problems] == sorted(found)
