"""studies/005-file-server, tables.py and callgraph.py: which lines agree with the paper's."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from tests.studies.scripts import script

from svload.model.load_curve import DemandFound, LimitState, LoadCurve, LoadLimit
from svload.model.stacks import Stacks

STUDY = Path(__file__).parents[2] / "studies/005-file-server"


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    return script(STUDY / "tables.py")


def curve(*resources: str) -> LoadCurve:
    """Return a curve whose first resource is full first."""
    demands = tuple(
        DemandFound(resource=name, limited_by="", capacity=2.0, demand_s=0.001, low=None, high=None, at_rest=0.0,
                    most_used=1.9, bottleneck=at == 0)
        for at, name in enumerate(resources)
    )  # fmt: skip
    return LoadCurve(factor="users", kind="users", group="clients", when={"size": "1KB"}, points=(), demands=demands,
                     limits=(), top_rps=None, alone_s=None, agree=None, law_off=None, law_allowed=0.03, scalability=None)  # fmt: skip


@pytest.mark.parametrize(
    ("value", "state", "theirs", "expected"),
    [
        (5.0, "bracketed", "4", "agrees"),
        (40.0, "bracketed", "4", "differs"),
        (4.0, "below", "4", "ours not bracketed"),
        (4.0, "bracketed", "1", "paper's not bracketed"),  # N* at the lowest level tried
        (4.0, "bracketed", "", "not in the paper"),
    ],
)
def test_bracketed_only(
    tables: ModuleType, value: float, state: LimitState, theirs: str, expected: str
) -> None:
    assert tables.near(LoadLimit(name="N*", value=value, state=state), theirs) == expected
    shown = tables.limit(LoadLimit(name="N*", value=value, state=state))
    assert ("not bracketed" in shown) == (state == "below")


def test_the_paper_s_bottleneck_is_held_against_what_is_full_first(tables: ModuleType) -> None:
    assert tables.same_limit(curve("CPU of server", "CPU of auth"), "CPU") == "agrees"
    assert tables.same_limit(curve("CPU of server"), "Disk I/O") == "differs"
    assert tables.same_limit(curve(), "Disk I/O") == "ours unidentified"
    assert tables.first_full(curve("CPU of server")) == "CPU of server, 95%"


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
    steps = ("sends the file", "asks the authentication server", "reads what is asked", "takes connections")
    assert [shares[step] for step in steps] == pytest.approx([0.6, 0.3, 0, 0.1])


def test_only_where_sending_takes_most_it_is_the_paper_s_function(callgraph: ModuleType) -> None:
    *_, step, agrees = callgraph.row("r", "1MB 32", stacks({SENDS: 6, ASKS: 3}))
    assert (step, agrees) == ("sends the file (by itself: tcp_sendmsg in the kernel)", "agrees")
    assert callgraph.row("r", "1KB 32", stacks({SENDS: 3, ASKS: 6}))[-1] == "differs"
    unmeasured = callgraph.row("r", "1KB 1", stacks({}, "perf is missing."))
    assert unmeasured[-2:] == ("perf is missing.", "not measured")


def test_the_functions_that_it_looks_for_are_in_the_source(callgraph: ModuleType) -> None:
    source = "".join(path.read_text() for path in (STUDY / "target").glob("*.[ch]pp"))
    of_libraries = {"__send", "pthread_create", "accept4"}
    for name in {name for names in callgraph.STEPS.values() for name in names} - of_libraries:
        assert name.rpartition("::")[2] + "(" in source, name
