"""Whatever a study contains, plan answers soon: with a lock, or with mistakes and lines."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from svload import api
from svload.api import Choices
from svload.model.errors import ExitCode, SvloadError
from svload.study import load_study

STUDY = """\
name: x
lab: {w: {at: "http://127.0.0.1:1"}}
traffic: {g: {executor: constant-vus, vus: 1, request: GET http://w/}}
measure: {duration: 1s, replicates: 1}
"""
AT = '{w: {at: "http://127.0.0.1:1"}}'
ASKS = "request: GET http://w/"
WITHIN_S = 2.0
"""The CPU time of a plan."""


@dataclass(frozen=True)
class Hostile:
    """A study with one part replaced or added; what must be reported, and at which line."""

    name: str
    old: str
    new: str
    says: str
    line: int
    more: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    also: tuple[str, str] = ("", "")

    @property
    def text(self) -> str:
        assert self.old in STUDY
        return STUDY.replace(self.old, self.new).replace(*self.also) + self.more


def added(name: str, more: str, says: str, line: int = 5, **files: bytes) -> Hostile:
    return Hostile(name, "", "", says, line, more, {file.replace("_", "."): files[file] for file in files})


def group(name: str, new: str, says: str) -> Hostile:
    return Hostile(name, "constant-vus, vus: 1", new, says, 3)


def asking(name: str, request: str, says: str, more: str = "", line: int = 3) -> Hostile:
    return Hostile(name, ASKS, f"request: {request}", says, line, more)


def measured(name: str, keys: str, says: str, more: str = "") -> Hostile:
    return Hostile(name, "replicates: 1", keys, says, 4, more)


def lab(name: str, services: str, says: str, more: str = "") -> Hostile:
    return Hostile(name, AT, services, says, 2, more)


def tuned(name: str, directive: str, says: str) -> Hostile:
    return lab(name, f"{{w: {{kit: nginx, tuning: {{{directive}}}}}}}", says)


def levels(count: int) -> str:
    return "[" + ",".join(f"l{number}" for number in range(count)) + "]"


def levelled(name: str, request: str, levels: str, number: str) -> Hostile:
    return asking(name, request, f'Write "{number}".', f"factors: {{v: {levels}}}\n", 5)


def versioned(name: str, more: str, says: str) -> Hostile:
    return added(name, f"factors: {{v: {{1.1: {{p: a}}, 1.10: {{p: b}}}}}}\n{more}\n", says, 6)


TUNED = "kit: nginx\n    tuning:\n"
CSV = "feeders: {f: {csv: c.csv}}\n"
NAMES = "factors: {a: [1, 2]}\ncase_names: c.csv\n"
BY_TWICE = "profiles: {p: {compare: [{factor: a, baseline: x, metric: g.response.p50, by: [b, b]}]}}\n"
VERSION = "factors: {v: [1.10]}\n"
NULL = "factors: {a: {x: {n: null}, y: {n: 1}}}\n"
COMPARED = "factors: {a: [1, 2]}\ncompare: [{factor: a, baseline: 1, metric: g.response.p50}]\n"
COMPARED_IN_P = COMPARED.replace("\ncompare", "\nprofiles:\n  p:\n    compare")
UNTIL_IN_P = f"{COMPARED}profiles:\n  p: {{measure: {{until: ± 5 %}}}}\n"
APART = f"{UNTIL_IN_P}  q: {{measure: {{at_most: 12}}}}\n"
GATED = COMPARED.replace("p50}", "p50, fail_if: worse by more than 5 %}")
INTERNAL = [
    group("hexadecimal digits", f"constant-vus, vus: 0x{'1' * 5000}", "is not a usable number"),
    group("decimal digits", f"constant-vus, vus: {'1' * 5000}", "is not a usable number"),
    asking("a version as a number", "{get: http://w/, headers: {X: 1.10}}", 'Write "1.10".'),
    asking("zeros before a number", "{get: http://w/, headers: {X: 007}}", 'Write "007".'),
    asking("a word as a number", "{tcp: tcp://w, redis: [[SET, a, 1.10]]}", 'Write "1.10".'),
    levelled("a level as a number", "{get: http://w/, headers: {X: '${v}'}}", "[1.10]", "1.10"),
    levelled("a level in a path", "'GET http://w/${v}/x'", "[1.10]", "1.10"),
    levelled("a field in a header", "{get: http://w/, headers: {X: 'v${v.n}'}}", "{a: {n: 007}}", "007"),
    levelled("a level in a body", "{post: http://w/, body: 'v=${v}'}", "[1e3]", "1e3"),
    Hostile("a level in a command", AT, '{w: {run: "./s-${v}"}}', 'Write "1.10".', 5, VERSION),
    versioned(
        "a baseline as a number", "compare: [{factor: v, baseline: 1.10, metric: throughput}]", '"1.10".'
    ),
    versioned("a level of when as a number", "exclude: [{when: {v: [1.10]}, because: x}]", 'Write "1.10".'),
    versioned("no level of when", "exclude: [{when: {v: []}, because: x}]", "v: expected at least one entry"),
    asking("a null in a text", "'GET http://w/${a.n}'", "no such field (a: x)", NULL),
    asking("too many digits", f"{{get: http://w/, check: ['size_bytes == {'9' * 20}']}}", "number of bytes"),
    asking("a status that no server sends", "{get: http://w/, expect_status: 600}", "from 100 to 599"),
    asking("a check that never holds", "{get: http://w/, check: [status > 599]}", "no status fits"),
    asking("a check of no status", "{get: http://w/, check: [status == 700]}", "a status from 100 to 599"),
    group("users as a text", 'constant-vus, vus: "4"', "Write 4 without quotes."),
    lab("a flag as a number", "{w: {kit: nginx, workers: true}}", "expected a whole number, found true"),
    lab("a number as a text", '{w: {kit: nginx, cpus: "0.5"}}', "Write 0.5 without quotes."),
    lab("a word as a flag", "{w: {kit: truth, role: store, log: yes}}", "expected true or false"),
    asking("no status", "{get: http://w/, expect_status: []}", "expected at least one entry"),
    asking("endless redirects", "{get: http://w/, follow_redirects: 200}", "a number of at most 100"),
    Hostile("minutes as in k6", "duration: 1s", "duration: 200", "Write 200 s.", 4),
    added("half a range", "feeders: {f: {range: [1]}}\n", "feeders.f.range[1]: expected two values"),
    added("a range of three", "feeders: {f: {range: [1, 2, 3]}}\n", "feeders.f.range: expected two values"),
    added("a set-up's body elsewhere", "setup: [{post: http://w/, body: {file: ../x}}]\n", "setup[0].body: "),
    added("a set-up by another protocol", "setup: [{get: https://w/}]\n", "setup[0]: w is at an address of"),
    added("a row as a number", "feeders: {f: {values: [1, 2.50]}}\n", 'Write "2.50".'),
    Hostile("until alone", "replicates: 1}", "replicates: 1, until: ± 5 %}", "the study compares nothing", 4),
    measured("at_most alone", "replicates: 1, at_most: 12", "the study has neither"),
    added("at_most alone in a profile", APART, "the study has neither", 9),
    measured("at_most below the plan", "until: ± 5 %, at_most: 3", "Write at_most: 24", COMPARED),
    measured("a gate's at_most below the plan", "at_most: 3", "there are 6", GATED),
    added("NUL in a CSV's name", 'feeders: {f: {csv: "a\\0b.csv"}}\n', "a file inside the study's folder"),
    added("NUL in the table of cases' name", 'case_names: "a\\0b"\n', "a file inside the study's folder"),
    asking("NUL in a body's name", '{post: http://w/, body: {file: "a\\0b"}}', "inside the study's folder"),
    added("case names that are no UTF-8", NAMES, "line 2 is not UTF-8 text", 6, c_csv=b"case,a\n\xff,1\n"),
    added("a long case name", NAMES, "field larger than", 6, c_csv=b'case,a\nA,"' + b"x" * 140_000 + b'"\n'),
    added("a long CSV field", CSV, "line 2: field larger", c_csv=b"a\n" + b"x" * 140_000 + b"\n"),
    added("a long CSV heading", CSV, "line 1: field larger", c_csv=b"a" * 140_000 + b"\nx\n"),
    added("half a surrogate pair", 'question: "\\ud800"\n', "half a surrogate pair"),
    added("half a surrogate pair as a key", '"\\ud800": 1\n', "a key must be a word"),
    tuned("a directive's value with ;", 'sendfile: "on; x"', "not a valid value"),
    tuned("a directive's odd name", '"Send File": "on"', "not a valid directive name"),
    tuned("a directive with a second one", '"sendfile on; include /x": "on"', "not a valid directive name"),
    Hostile("an unknown directive", AT, f"\n  w:\n    {TUNED}      sendfle: on", "mean “sendfile”?", 6),
    tuned("a directive of another block", "proxy_pass: on", "no directive proxy_pass in its http block"),
    tuned("a directive that svload writes", "default_type: a/b", "svload writes default_type itself"),
    lab("DEL in an address", '{w: {at: "http://127.0.0.1\\x7f:1"}}', "not a valid host name"),
    added("factors to compare by in a profile", f"factors: {{a: [x, y], b: [x, y]}}\n{BY_TWICE}", "by", 6),
    added("a number as abort_if", "abort_if: 0.5\n", "abort_if"),
    lab("a number as needs", "{w: {kit: truth, role: store, needs: 7}}", "needs"),
    Hostile("a weight that stands for nothing", ASKS, "mix: {a: 1, f: '${a}'}", "a", 3),
    added("a level that a terminal obeys", 'factors: {a: ["\\e[2J", b]}\n', "expected a level's name"),
]
FIELDS = ", ".join(f'f{n}: "{f"${{a.f{n + 1}}}" * 10}"' for n in range(7))
GROWING = f"factors: {{a: [{{x: {{{FIELDS}, f7: zzzz}}}}]}}\n"
ASKED = "{executor: constant-vus, vus: 1, request: GET http://w/}"
WAITING = ASKED.replace("vus: 1", "vus: 1, start_when: g")
NEWCOMERS = [
    Hostile("a URL under a group", ASKS, "url: http://w/", "Write request: GET http://w/.", 3),
    group("users without a number", "constant-vus, vus: ", "vus: expected a whole number, found nothing"),
    Hostile("a group without its name", f"{{g: {ASKED}}}", ASKED, "Write {NAME: {executor: …}}.", 3),
    lab("a service without its name", "{kit: nginx}", "Write {NAME: {kit: …}}."),
    lab("an address as a service", "{w: http://127.0.0.1:1}", "{web: {at: http://127.0.0.1:8080}}"),
    lab("a list of services", '[{w: {at: "http://127.0.0.1:1"}}]', "“lab” is: the services by name"),
    Hostile("no services", f"lab: {AT}", "", "Define it under lab.", 3),
    Hostile("a text as measure", "{duration: 1s, replicates: 1}", "10s", "{duration: 60s, replicates: 6}", 4),
    group("a rate as a number", "constant-arrival-rate, rate: 100", "Write 100/s."),
    group("a shell's variable", "constant-vus, vus: $users", "Write “${users}” for a factor's level."),
    Hostile("a group to wait for", "traffic: {", f"traffic: {{h: {WAITING}, ", "Write g.ramped.", 3),
    asking("a method as a value", "{method: POST}", "Write get: http://service/path; the key is the method."),
    asking("a body as JSON", "{post: http://w/, json: {a: 1}}", "Write body: '{\"a\": 1}'"),
    asking("a list of headers", '{get: http://w/, headers: ["A: b"]}', "“headers” is: name: value"),
    asking("a secret of no name", '{get: http://w/, headers: {A: "${secret.key}"}}', "secrets: {key: KEY}."),
    added("a criterion as a mapping", "thresholds: [{p95: 200 ms}]\n", "Write a criterion as one text"),
    added("a statistic of a group", "thresholds: [g.p95 < 200 ms]\n", "did you mean “g.response.p95”"),
    added("one sign of equality", "thresholds: [failed = 0]\n", "equality is =="),
    added(
        "a key of a set-up", "setup: [{get: http://w/, zzz: 1}]\n", "Unknown key “zzz” in setup[0]. Known:"
    ),
    measured("a warm-up", "warm_up: 5s, replicates: 1", "svload finds the warm-up and cuts it off"),
    added("a file as a feeder", "feeders: {f: users.csv}\n", "{users: {csv: users.csv}}"),
    added("a file that is missing", CSV, "Put it there, and write its path from that folder."),
    added(
        "a duration in a profile", "profiles: {p: {duration: 2s}}\n", "Write it under measure: {duration: …}."
    ),
    added(
        "a level without when",
        "factors: {a: [1, 2]}\nexclude: [{a: 1, because: no}]\n",
        "Write when: {a: LEVEL} for a factor's level.",
        6,
    ),
]
LARGE = [
    group("users", "constant-vus, vus: 2000000000", "at most 1,000,000 virtual users"),
    group("users by stages", "ramping-vus, stages: [{duration: 1s, target: 2000000000}]", "at most 1,000,000"),
    group("places", "constant-arrival-rate, rate: 1/s, max_vus: 2000000000", "at most 1,000,000 virtual users"),
    group("iterations", "per-vu-iterations, vus: 9, iterations: 90000000000", "at most 10,000,000,000 iterations"),
    group("users times iterations", "per-vu-iterations, vus: 900000, iterations: 900000", "at most 10,000,000,000"),
    group("generators", "constant-vus, vus: 9000, generators: 9000", "at most 1,024 generators"),
    group("generators without a place", "constant-arrival-rate, rate: 1/s, max_vus: 1, generators: 2", "only 1 VUs to share"),
    group("a rate", "constant-arrival-rate, rate: 5e12/s", "at most 100,000,000 arrivals"),
    group("spinning", "constant-vus, vus: 1, spin: 200 ms", "10 ms: it takes a core"),
    group("a quantum", "constant-vus, vus: 1, pacing_quantum: 9s", "1 s: what is due waits"),
    group("a ramp", "constant-vus, vus: 1, ramp_up: 9999 h", "90 days"),
    asking("a body", "{post: http://w/, body: {random: 4000 TiB}}", "1 TiB"),
    added("levels", f"factors: {{a: {levels(2000)}}}\n", "at most 1,000 levels"),
    added("very many levels", f"factors: {{a: {levels(20_000)}}}\n", "at most 10,000 values"),
    added("cases", f"factors: {{a: {levels(300)}, b: {levels(300)}}}\n", "at most 1,000 cases"),
    added("work", f"factors: {{a: {levels(900)}}}\nthresholds: [{', '.join(['g.response.p50 < 1 s'] * 300)}]\n", "at most 150,000 values"),
    Hostile("trials", "replicates: 1", "replicates: 999999", "at most 50,000 trials", 4),
    Hostile("objects", AT, "{w: {kit: truth, role: store}}", "at most 1,000,000 objects", 5, "data: {d: {in: w, count: 99999999999, size: 1 KiB}}\n"),
    added("rows", "feeders: {f: {range: [1, 10000000], take: unique}}\n", "1 to 1,000,000 numbers"),
    lab("workers", "{w: {kit: truth, role: store, workers: 100000000000}}", "at most 1,024 workers"),
    lab("files", "{w: {kit: nginx, files: {" + ",".join(f"/f{n}: 64 MiB" for n in range(99)) + "}}}", "at most 1,073,741,824 bytes"),
    Hostile("bytes of objects", AT, "{w: {kit: truth, role: store}}", "at most 109,951,162,777,600 bytes", 5, "data: {d: {in: w, count: 900000, size: 900 GiB}}\n"),
    lab("a file and its folder", "{w: {kit: nginx, files: {/a: 1, /a/b/c: 1}}}", "the folder of “/a/b/c”"),
    lab("services", "{" + ", ".join(f"w{n}: {{kit: nginx}}" for n in range(300)) + "}", "at most 100 services"),
    asking("patterns", "{get: http://w/, check: [" + ", ".join(f'"body matches x{n}"' for n in range(300)) + "]}", "at most 100 different regular"),
    added("profiles", "profiles: {" + ", ".join(f"p{n}: {{}}" for n in range(30)) + "}\n", "at most 20 profiles"),
    Hostile("text that grows", ASKS, 'request: {get: "http://w/${a.f0}"}', "more than 1,000,000 signs", 3, GROWING),
]  # fmt: skip
LATER = [
    asking("look-around", '{get: http://w/, check: ["body matches (?=x)y"]}', "look-around"),
    asking("no pattern", '{get: http://w/, check: ["body matches ("]}', "no regular expression"),
    asking("an oversized pattern", '{get: http://w/, check: ["body matches (a{1000}){1000}"]}', "exceeds size limit"),
    asking("look-behind", '{get: http://w/, take: {v: {regex: "(?<=a)b"}}}', "look-around"),
    asking("a place in JSON", '{get: http://w/, take: {v: {json: "a[99999999999999999999999]"}}}', "no JSON path"),
    Hostile("a dialogue that waits for nothing", ASKS, "request: {tcp: tcp://w, dialogue: [{match: 'a*'}]}", "before anything has come", 3, also=("http://127", "tcp://127")),
    asking("statuses that descend", "{get: http://w/, expect_status: 300-200}", "must not be below"),
    Hostile("no authority", AT, '{w: {at: "https://127.0.0.1:1", ca_file: no.pem}}', "a file inside the study's folder", 2, also=("GET http:", "GET https:")),
    Hostile("an authority that is none", AT, '{w: {at: "https://127.0.0.1:1", ca_file: c.pem}}', "holds no usable", 2, files={"c.pem": b"garbage"}, also=("GET http:", "GET https:")),
    Hostile("an authority elsewhere", AT, '{w: {at: "https://127.0.0.1:1", ca_file: ../../x.pem}}', "a file inside the study's folder", 2, also=("GET http:", "GET https:")),
    lab("a long address without //", "{w: {at: \"http:" + "9" * 100_000 + "\"}}", "write the server's address"),
    lab("a long scheme", "{w: {at: \"" + "h" * 100_000 + "://x\"}}", "write the server's address"),
    lab("a port twice", "{w: {kit: truth, role: store, port: 8181}, v: {kit: truth, role: store, port: 8181}}", "w has this port already"),
    added("ragged rows", CSV, "line 3 has 1 values", c_csv=b"a,b\n1,2\n3\n"),
    added("NUL in a row", CSV, "line 2 holds a NUL", c_csv=b"a,b\n1,\x00\n"),
    added("sizes that are none", CSV, "whole numbers of bytes", c_csv=b"a_bytes,b\nx,1\n"),
    group("an address of another machine", "constant-vus, vus: 1, source_addresses: 192.0.2.7", "no address of this machine"),
    Hostile("fewer rows than users", "vus: 1, request: GET http://w/", 'vus: 5, request: "GET http://w/${f.value}"', "at least one row a VU", 5, "feeders: {f: {range: [1, 2], take: unique}}\n"),
    group("a rate without its unit", "constant-arrival-rate, rate: 5", "a unit is missing"),
    added("what an outside server does not count", "thresholds: [w.hit_ratio >= 99 %]\n", "does not count its hit_ratio"),
    added("an expectation of it", 'factors: {a: {x: {expect: "w.hits == 0"}, y: {}}}\n', "does not count its hits"),
    Hostile("what a store does not count", AT, "{w: {kit: truth, role: store}}", "does not count its hit_ratio", 5, "thresholds: [w.hit_ratio >= 99 %]\n"),
    Hostile("a row of a feeder whose name is none", ASKS, "request: {get: http://w/, check: ['size_bytes == ${g.ramped.size_bytes}']}", "expected a name", 5, "feeders: {g.ramped: {csv: c.csv, take: first}}\n", {"c.csv": b"a\n1\n"}),
    added("a reset of what runs already", "before_trial: [{reset: w}]\n", "cannot restore"),
    Hostile("groups that wait for each other", "traffic: {", "traffic: {h: {executor: constant-vus, vus: 1, start_when: g.ramped, request: GET http://w/}, ", "in a cycle", 3, also=("vus: 1, request: GET http://w/}}", "vus: 1, start_when: h.ramped, request: GET http://w/}}")),
    added("a share above all", "thresholds: [error_rate < 5]\n", "Write 5 %."),
    added("a share above all that no trial reaches", "abort_if: [error_rate > 10]\n", "Write 10 %."),
    added("a level's", "factors: {a: {x: {n: 9}}}\nthresholds: ['error_rate < ${a.n}']\n", "Write 9 %.", 6),
    added("two points in a number of k6", "thresholds: [errors < 1.2.3]\n", "does not fit here"),
    added("an unknown method", "requests: {r: FETCH http://w/}\n", "expected one of GET"),
    group("no rate", "constant-arrival-rate, rate: e", "“e” is not a number with a unit"),
    asking("a place", "{get: http://w/, take: {v: {json: 'a.${vu}'}}}", "take.v.json: expected a text"),
    asking("a pattern that varies", "{get: http://w/, check: ['body matches a${vu}']}", "expected a pattern"),
    Hostile("an option in a set", AT, "{w: {kit: nginx}}", "Unknown key “wrkers” in sets.s.lab.w", 5, "sets: {s: {lab: {w: {wrkers: 2}}}}\ntuning: s\n"),
    Hostile("a value in a set", AT, "{w: {kit: nginx}}", "sets.s.lab.w.workers: expected a whole number", 5, "sets: {s: {lab: {w: {workers: many}}}}\ntuning: s\n"),
    added("a set of a list", "sets: {s: c.yaml}\n", "sets.s: expected a mapping", 1, c_yaml=b"- lab: {}\n"),
    added("a baseline that is excluded", "factors: {a: [1, 2, 3]}\nexclude: [{when: {a: 1}, because: no}]\ncompare: [{factor: a, baseline: 1, metric: g.response.p50}]\n", "is excluded", 7),
    added("no pair to compare", "factors: {a: [1, 2], b: [1, 2]}\nexclude: [{when: {a: 1, b: 2}, because: no}, {when: {a: 2, b: 1}, because: no}]\ncompare: [{factor: a, baseline: 1, metric: g.response.p50}]\n", "differs from one of a: 1 in a alone", 7),
    added("nothing to compare with", "factors: {a: [1, 2]}\nexclude: [{when: {a: 2}, because: no}]\ncompare: [{factor: a, baseline: 1, metric: g.response.p50}]\n", "nothing to compare", 7),
]  # fmt: skip


@pytest.mark.parametrize("newcomer", NEWCOMERS, ids=lambda one: one.name)
def test_a_newcomer_s_mistake_is_one_error_that_says_what_to_write(newcomer: Hostile, tmp_path: Path) -> None:
    with pytest.raises(SvloadError) as found:
        planned(tmp_path, newcomer.text, newcomer.files)
    (problem,) = found.value.problems
    assert newcomer.says in str(problem)
    assert problem.place == f"{tmp_path / 'study.yaml'}:{newcomer.line}"


def planned(folder: Path, text: str, files: dict[str, bytes] | None = None) -> dict[str, Any]:
    (folder / "study.yaml").write_text(text, encoding="utf-8")
    for name, data in (files or {}).items():
        (folder / name).write_bytes(data)
    return api.plan(str(folder), Choices(out=folder / "runs"))


@pytest.mark.timing
def test_each_is_reported_soon(tmp_path: Path) -> None:
    for hostile in (*INTERNAL, *LARGE, *LATER):
        begun = time.monotonic()
        with pytest.raises(SvloadError):
            planned(tmp_path, hostile.text, hostile.files)
        assert time.monotonic() - begun < WITHIN_S, hostile.name


@pytest.mark.parametrize("hostile", [*INTERNAL, *LARGE, *LATER], ids=lambda one: one.name)
def test_it_is_reported_with_its_line(hostile: Hostile, tmp_path: Path) -> None:
    with pytest.raises(SvloadError) as found:
        planned(tmp_path, hostile.text, hostile.files)
    assert found.value.exit_code == ExitCode.USAGE
    for problem in found.value.problems:
        assert len(str(problem).removeprefix(problem.place)) < 500, problem
        assert problem.place.startswith(str(tmp_path)), problem
    meant = [problem for problem in found.value.problems if hostile.says in str(problem)]
    assert meant, [str(problem) for problem in found.value.problems]
    assert int(meant[0].place.rpartition(":")[2]) == hostile.line


CLEAN = [
    Hostile("plain", "", "", "", 0),
    added("text beyond ASCII", 'question: "😀 ü"\n', ""),
    added("whole rows", CSV, "", c_csv=b'a,b\n1,"x,\ny"\n3,4\n'),
    Hostile("as many rows as users", "vus: 1, request: GET http://w/", 'vus: 2, request: "GET http://w/${f.value}"', "", 0, "feeders: {f: {range: [1, 2], take: unique}}\n"),
    asking("the engine's patterns", '{get: http://w/, check: ["body matches (?<year>\\\\d+)"], take: {v: {regex: "x(.)"}}}', ""),
    lab("ports apart", "{w: {kit: truth, role: store, port: 8181}, v: {kit: truth, role: store, port: 8182}}", ""),
    lab("what a cache counts", "{b: {kit: truth, role: store}, w: {kit: truth, role: cache, of: b}}", "", "thresholds: [w.hit_ratio >= 99 %, w.cpu < 2]\n"),
    added("levels that look like mark-up", 'factors: {a: ["[/b]", "[a-z]+"]}\n', ""),
    lab("plain directives", "{w: {kit: nginx, tuning: {sendfile: true, keepalive_requests: 100, keepalive_timeout: 65s}}}", ""),
    added("a baseline that is run", "factors: {a: [1, 2, 3]}\nexclude: [{when: {a: 3}, because: no}]\ncompare: [{factor: a, baseline: 1, metric: g.response.p50}]\n", ""),
    asking("a level in a time", "{get: http://w/, timeout: '${v} s'}", "", "factors: {v: [1.50]}\n"),
    asking("a header named when", "{get: http://w/, headers: {when: '${vu}'}}", ""),
    lab("what one role counts", '{b: {kit: truth, role: store}, w: {kit: truth, role: "${k}", of: "${k.of}"}}', "", "factors: {k: {plain: {value: store}, front: {value: cache, of: b}}, u: [1, 2]}\ncompare: [{factor: u, baseline: 1, metric: w.hit_ratio, when: {k: front}}]\n"),
    lab("numbers of levels", "{w: {kit: nginx, workers: '${n}', cpus: '${n.cpus}'}}", "", "factors: {n: {few: {value: 2, cpus: 0.5}, many: {value: 4, cpus: 1}}}\n"),
    added("all of them", "thresholds: [success_rate >= 1]\n", ""),
    measured("at_most of a gate that adds nothing", "at_most: 6", "", GATED),
    measured("at_most of a profile's until", "at_most: 12", "", UNTIL_IN_P),
    measured("until of a profile's comparison", "until: ± 5 %", "", COMPARED_IN_P),
    Hostile("groups that wait for one", "traffic: {", "traffic: {h: {executor: constant-vus, vus: 1, start_when: g.ramped, request: GET http://w/}, ", "", 0),
]  # fmt: skip


@pytest.mark.parametrize("clean", CLEAN, ids=lambda one: one.name)
def test_what_is_sound_is_planned(clean: Hostile, tmp_path: Path) -> None:
    assert planned(tmp_path, clean.text, clean.files)["trials"] >= 1


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60))
def test_any_text(folder: Path, text: str) -> None:
    """No text of 60 random characters is a study."""
    (folder / "study.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(SvloadError):
        load_study(folder)
