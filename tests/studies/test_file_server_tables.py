"""studies/005-file-server/tables.py: which lines agree with the paper's, and which can't be told."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from svload.model.load_curve import DemandFound, LimitState, LoadCurve, LoadLimit

STUDY = Path(__file__).parents[2] / "studies/005-file-server"


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    found = importlib.util.spec_from_file_location("file_server_tables", STUDY / "tables.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


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
def test_a_saturation_number_agrees_only_where_it_is_bracketed(
    tables: ModuleType, value: float, state: LimitState, theirs: str, told: str
) -> None:
    assert tables.near(LoadLimit(name="N*", value=value, state=state), theirs) == told
    assert ("not bracketed" in tables.limit(LoadLimit(name="N*", value=value, state=state))) == (
        state == "below"
    )


def test_the_paper_s_bottleneck_is_held_against_what_is_full_first(tables: ModuleType) -> None:
    assert tables.same_limit(curve("CPU of server", "CPU of auth"), "CPU") == "agrees"
    assert tables.same_limit(curve("CPU of server"), "Disk I/O") == "differs"
    assert tables.same_limit(curve(), "Disk I/O") == "ours unidentified"
    assert tables.first_full(curve("CPU of server")) == "CPU of server, 95%"
