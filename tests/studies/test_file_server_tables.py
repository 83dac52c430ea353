"""studies/005-file-server, tables.py and callgraph.py: which lines agree with the paper's."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from tests.evolve import evolve
from tests.studies.scripts import script

from svload.lab import find_mistakes, kit_options
from svload.model.evidence import CaseEvidence, CaseRefusal
from svload.model.load_curve import DemandFound, LimitState, LoadCurve, LoadLimit, LoadPoint
from svload.model.results import CaseResult, Estimate
from svload.model.stacks import Stacks
from svload.study import load_study

STUDY = Path(__file__).parents[2] / "studies/005-file-server"


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    return script(STUDY / "tables.py")


def curve(*resources: str) -> LoadCurve:
    """Of which the first resource is full first."""
    demands = tuple(
        DemandFound(resource=name, limited_by="", capacity=2.0, demand_s=0.001, low=None, high=None, at_rest=0.0,
                    most_used=1.9, bottleneck=at == 0)
        for at, name in enumerate(resources)
    )  # fmt: skip
    return LoadCurve(factor="users", kind="users", group="clients", when={"size": "1KB"}, points=(), demands=demands,
                     limits=(), top_rps=None, alone_s=None, agree=None, law_off=None, law_allowed=0.03, scalability=None)  # fmt: skip


@pytest.mark.parametrize(
    ("value", "state", "theirs", "told"),
    [
        (5.0, "bracketed", "4", "agrees"),
        (40.0, "bracketed", "4", "differs"),
        (4.0, "below", "4", "ours not bracketed"),
        (4.0, "bracketed", "1", "paper's not bracketed"),  # N* at the lowest level tried
        (4.0, "bracketed", "", "not in the paper"),
    ],
)
def test_bracketed_only(tables: ModuleType, value: float, state: LimitState, theirs: str, told: str) -> None:
    assert tables.near(LoadLimit(name="N*", value=value, state=state), theirs) == told
    assert ("not bracketed" in tables.limit(LoadLimit(name="N*", value=value, state=state))) == (
        state == "below"
    )


def test_the_paper_s_bottleneck_is_held_against_what_is_full_first(tables: ModuleType) -> None:
    assert tables.same_limit(curve("CPU of server", "CPU of auth"), "CPU") == "agrees"
    assert tables.same_limit(curve("CPU of server"), "Disk I/O") == "differs"
    assert tables.same_limit(curve(), "Disk I/O") == "ours unidentified"
    assert tables.first_full(curve("CPU of server")) == "CPU of server, 95%"


def with_points(made: LoadCurve, *at: float, size: str = "1KB") -> LoadCurve:
    """The same over these users, whose responses are as many ms."""
    points = tuple(
        LoadPoint(case=f"c{one:g}", level=f"{one:g}", at=one, users=one, think_s=0, throughput_rps=100, throughput_low=None,
                  throughput_high=None, response_s=one / 1000, response_low=None, response_high=None, runs=(), most_rps=None,
                  least_s=None, accounted=None, flat=False)
        for one in at
    )  # fmt: skip
    return evolve(made, points=points, when={"size": size})


def test_our_response_is_that_of_the_first_level_at_n_star(tables: ModuleType) -> None:
    made = with_points(curve(), 1, 4, 16)
    assert tables.response(made, LoadLimit(name="N*", value=3.0, state="bracketed")) == "4 ms at 4"
    assert tables.response(made, LoadLimit(name="N*", value=20.0, state="above")) == "no level at N*"
    assert tables.response(made, LoadLimit(name="N*", value=None, state="none")) == "no N*"
    assert tables.time("0.0280648") == "28.1 ms"


def test_distinct_files_and_when_one_comes_again(tables: ModuleType) -> None:
    made = with_points(curve(), 1, 8, size="1MB")
    fields = {"bytes": 1 << 20, "last": 5119}
    assert tables.again(made, fields) == "5 GiB"
    assert tables.again(made, {**fields, "take": "random"}) == "5 GiB"
    assert (
        tables.again(made, {**fields, "take": "vu"}) == "8 MiB"
    )  # as the paper's code stands: a file a user
    assert tables.again(made, {"bytes": 1 << 20}) == "1 MiB"
    assert tables.again(made, {}) == "–"
    case = CaseResult(case="c8", levels={}, excluded=None, instrument="VALID", server="STEADY", trials=(), refused=(),
                      metrics={"number.distinct": Estimate(value=1234.0)})  # fmt: skip
    run = SimpleNamespace(cases=(case,))
    assert tables.distinct(run, made, fields) == "1,234 of 5,120"
    assert tables.distinct(SimpleNamespace(cases=()), made, fields) == "not told of 5,120"
    assert tables.distinct(run, made, {"bytes": 1 << 20}) == "1 of 1"


def test_levels_stand_for_what_the_study_says(tables: ModuleType) -> None:
    lock = load_study(STUDY / "different.yaml", kits=kit_options(), check_lab=find_mistakes)
    fields = tables.fields_of(lock, {"size": "10MB", "choice": "offset"})
    assert (fields["bytes"], tables.files_of(fields), fields["take"]) == (10_000_000, 600, "walk")


def test_n_star_is_started_and_half_is_refused(tables: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = CaseRefusal(service="db", monitor="mariadb", counter="rejected_total", resource="connections", entity="",
                          means="connections refused for max_connections", kind="refused", count=7.0, moved=3, trials=3,
                          first_s=1.0)  # fmt: skip
    cases = [
        CaseResult(case=f"c{users}", levels={}, excluded=None, instrument="VALID", server="STEADY", trials=(), refused=(),
                   metrics={}, evidence=CaseEvidence(refusals=(refused,) if users == 8 else ()))
        for users in (4, 8)
    ]  # fmt: skip
    star = LoadLimit(name="N*", value=7.0, state="bracketed")
    made = evolve(with_points(curve(), 4, 8), limits=(star,))
    findings = SimpleNamespace(cases=cases, curves=(made,), trials=())
    assert tables.forks_table(None, findings).rows[1] == ("1KB", "started a request", "not read", "not read")
    monkeypatch.setattr(tables, "fork_rate", lambda _, __, case: {"c4": 200.0, "c8": 300.0}[case])
    assert tables.forks_table(None, findings).rows == (
        ("1KB", "users", "4", "8"),
        ("1KB", "started a request", "2", "3"),
        ("1KB", "db: connections refused for max_connections, a trial", "0", "7"),
    )
    assert tables.forks_table(None, SimpleNamespace(cases=(), curves=(), trials=())) is None


SENDS = "fileserver;clone3;start_thread;serve;answer;answer_get;send_file;sendfile;tcp_sendmsg_[k]"
ASKS = "fileserver;clone3;start_thread;serve;answer;Authority::ask;LineReader::next;__poll"


@pytest.fixture(scope="module")
def callgraph() -> ModuleType:
    return script(STUDY / "callgraph.py")


def stacks(folded: dict[str, int], why: str = "") -> Stacks:
    samples = sum(folded.values())
    return Stacks(service="server", rate_hz=99, window_s=1.0, samples=samples, folded=folded, why=why)


def test_a_sample_belongs_to_its_outermost_step(callgraph: ModuleType) -> None:
    shares = callgraph.steps({SENDS: 6, ASKS: 3, "fileserver;main;accept4@@GLIBC_2.10": 1})
    assert shares["sends the file"] == pytest.approx(0.6)
    assert shares["asks the authentication server"] == pytest.approx(0.3)
    assert shares["reads what is asked"] == 0
    assert shares["takes connections"] == pytest.approx(0.1)


def test_only_where_sending_takes_most_it_is_the_paper_s_function(callgraph: ModuleType) -> None:
    assert callgraph.row("r", "1MB 32", stacks({SENDS: 6, ASKS: 3}))[-2:] == (
        "sends the file (by itself: tcp_sendmsg in the kernel)",
        "agrees",
    )
    assert callgraph.row("r", "1KB 32", stacks({SENDS: 3, ASKS: 6}))[-1] == "differs"
    assert callgraph.row("r", "1KB 1", stacks({}, "perf is missing."))[-2:] == (
        "perf is missing.",
        "not measured",
    )


def test_the_functions_that_it_looks_for_are_in_the_source(callgraph: ModuleType) -> None:
    source = "".join(path.read_text() for path in (STUDY / "target").glob("*.[ch]pp"))
    own = {name for names in callgraph.STEPS.values() for name in names} - {
        "__send",
        "pthread_create",
        "accept4",
    }
    for name in own:
        assert name.rpartition("::")[2] + "(" in source, name
