"""Cases: their order and names, who is left out and why, and what a `when` means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svload.model.errors import SvloadError
from svload.model.study import Factor, Level, Lock
from svload.study import load_study, resolve, study_digest
from svload.study.factors import make_cases, matches, read_factor

from .conftest import SMALL


def test_without_a_table_cases_are_named_by_their_levels_in_product_order(load: Callable[..., Lock]) -> None:
    lock = load()
    assert [case.name for case in lock.cases] == [
        f"scheme-{scheme}_way-{way}_users-{users}"
        for scheme in ("http", "https")
        for way in ("direct", "through")
        for users in ("1", "8")
    ]
    assert [tuple(case.levels.values()) for case in lock.cases] == [
        (scheme, way, users)
        for scheme in ("http", "https")
        for way in ("direct", "through")
        for users in ("1", "8")
    ]
    assert {case.name: case.excluded for case in lock.cases if case.excluded} == {
        "scheme-http_way-through_users-8": "too much",
        "scheme-https_way-through_users-8": "too much",
    }


def test_a_table_names_cases_and_their_order_and_the_rest_follows(
    load: Callable[..., Lock], folder: Path
) -> None:
    (folder / "names.csv").write_text("case,users,way,scheme\nB,8,direct,https\nA,1,through,http\n")
    lock = load(SMALL.replace("feeders:", "case_names: names.csv\nfeeders:", 1))
    assert [case.name for case in lock.cases][:3] == ["B", "A", "scheme-http_way-direct_users-1"]
    assert lock.case("B").levels == {"scheme": "https", "way": "direct", "users": "8"}
    assert len({tuple(case.levels.values()) for case in lock.cases}) == 8


def test_a_profile_may_drop_levels_that_the_table_names(load: Callable[..., Lock], folder: Path) -> None:
    (folder / "names.csv").write_text("case,scheme,way,users\nB,https,direct,8\nA,http,through,1\n")
    text = SMALL.replace("feeders:", "case_names: names.csv\nfeeders:", 1).replace(
        "tiny:", "tiny:\n    factors: {scheme: [http]}\n    thresholds: []"
    )
    assert [case.name for case in load(text, profile="tiny").cases] == [
        "A",
        "way-direct_users-1",
        "way-direct_users-8",
        "way-through_users-8",
    ]


@pytest.mark.parametrize(
    ("levels", "names"),
    [
        ("[50/s, 100/s]", ["scheme-50-s", "scheme-100-s"]),
        ("[a b, a-b]", ["case-0", "case-1"]),
        ("[ä, b]", ["case-0", "case-1"]),
        ("[{0}1, {0}2]".format("x" * 40), ["case-0", "case-1"]),
        ("[only]", ["case-0"]),
    ],
)
def test_levels_that_make_no_short_plain_names_leave_cases_numbered(levels: str, names: list[str]) -> None:
    raw = levels.strip("[]").split(", ")
    factor = Factor(name="scheme", levels=tuple(Level(name=one, value=one) for one in raw))
    assert [case.name for case in make_cases([factor], [], {})] == names


levels = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), min_size=3)
whens = st.dictionaries(
    st.sampled_from("abc"), st.sampled_from("xyz") | st.lists(st.sampled_from("xyz"), min_size=1)
)


@given(levels, whens)
def test_when_means_all_of_its_parts_and_any_of_a_list(case: dict[str, str], when: dict[str, Any]) -> None:
    said = [
        case[factor] in (wanted if isinstance(wanted, list) else [wanted]) for factor, wanted in when.items()
    ]
    assert matches(when, case) == all(said)


@pytest.mark.parametrize(
    ("raw", "names", "values"),
    [
        (["a", "b"], ["a", "b"], ["a", "b"]),
        ([1, 2.5, True], ["1", "2.5", "true"], [1, 2.5, True]),
        ({"few": {"n": 1}, "bare": None, "size": "4 KiB"}, ["few", "bare", "size"], [None, None, "4 KiB"]),
        (["a", {"b": {"n": 1}}], ["a", "b"], ["a", None]),
    ],
)
def test_a_level_is_a_value_or_a_name_with_fields(raw: Any, names: list[str], values: list[Any]) -> None:
    factor, mistakes = read_factor("f", raw)
    assert mistakes == []
    assert [level.name for level in factor.levels] == names
    assert [level.value for level in factor.levels] == values


def test_expect_is_no_field(load: Callable[..., Lock]) -> None:
    (_, way, _) = load().factors
    assert [level.expect for level in way.levels] == [("front.requests == 0",), ("front.hit_ratio >= 99 %",)]
    assert all("expect" not in level.fields for level in way.levels)


def test_the_first_reason_that_matches_is_told() -> None:
    factor, _ = read_factor("f", ["x", "y"])
    assert factor is not None
    rules = [{"when": {"f": "x"}, "because": "one"}, {"when": {"f": ["x", "y"]}, "because": "two"}]
    assert [case.excluded for case in make_cases([factor], rules, {})] == ["one", "two"]


def test_groups_steps_and_thresholds_belong_to_the_cases_they_match(load: Callable[..., Lock]) -> None:
    lock = load()
    alone, crowded, through = (resolve(lock, lock.cases[number]) for number in (0, 1, 2))
    assert [group.name for group in alone.groups] == ["guest"]
    assert alone.groups[0].start_when is None
    assert alone.ramp_ns == 0
    assert [(group.name, group.start_when) for group in crowded.groups] == [
        ("crowd", None),
        ("guest", "crowd"),
    ]
    assert crowded.ramp_ns == 1_000_000_000
    assert [step.warm for step in through.before_trial] == [None, "thing"]
    assert alone.thresholds == ("guest.success_rate >= 99 %",)
    https = resolve(lock, lock.cases[4])
    assert https.thresholds == ("guest.success_rate >= 99 %", "guest.response.p95 < 1 s")
    assert alone.groups[0].executor.vus == 1


def test_the_lock_is_enough(load: Callable[..., Lock], folder: Path) -> None:
    """A resumed run has the lock only: it resolves alike after being written, read, and the study's file being gone."""
    lock = load(profile="tiny")
    (folder / "lock.json").write_text(lock.to_json())
    (folder / "study.yaml").unlink()
    again = Lock.read(folder / "lock.json")
    assert again == lock
    assert [resolve(again, case) for case in again.valid_cases] == [
        resolve(lock, case) for case in lock.valid_cases
    ]
    assert "profiles" not in again.source


def test_the_digest_notices_an_edit_of_study_or_table(load: Callable[..., Lock], folder: Path) -> None:
    (folder / "names.csv").write_text("case,scheme,way,users\nB,https,direct,8\n")
    text = SMALL.replace("feeders:", "case_names: names.csv\nfeeders:", 1)
    digests = [load(text).study_sha256]
    assert study_digest(folder) == digests[0]
    (folder / "names.csv").write_text("case,scheme,way,users\nC,https,direct,8\n")
    digests.append(load_study(folder).study_sha256)
    digests.append(load(text + "# a remark\n").study_sha256)
    assert len(set(digests)) == 3


def test_comparisons_have_names(load: Callable[..., Lock]) -> None:
    lock = load(SMALL.replace("name: the front, factor", "factor"))
    assert [comparison.name for comparison in lock.comparisons] == ["way: through against direct"]


def test_the_name_of_a_comparison_of_many_levels_lists_none(load: Callable[..., Lock]) -> None:
    """Each of its claims adds its own."""
    more = SMALL.replace("name: the front, factor", "factor").replace(
        "    through: {", "    aside: {host: front}\n    through: {", 1
    )
    assert [comparison.name for comparison in load(more).comparisons] == ["way against direct"]


def test_seeds(load: Callable[..., Lock]) -> None:
    assert load().seed == 1
    assert load(SMALL.replace("name: small", "name: small\nseed: 9")).seed == 9
    assert load(SMALL.replace("name: small", "name: small\nseed: 9"), seed=4).seed == 4


def test_a_level_may_name_a_groups_request(load: Callable[..., Lock]) -> None:
    text = """\
name: pages
lab: {web: {kit: stone}}
factors: {page: [small, large]}
requests: {small: {get: http://web/s}, large: {get: http://web/l}}
traffic: {users: {executor: constant-vus, vus: 2, request: "${page}"}}
measure: {duration: 1s}
"""
    lock = load(text)
    asked = {case.levels["page"]: resolve(lock, case).groups[0].request for case in lock.cases}
    assert {level: request.name for level, request in asked.items()} == {"small": "small", "large": "large"}
    with pytest.raises(SvloadError, match=r"no such request: “huge”") as told:
        load(text.replace("[small, large]", "[small, huge]"))
    assert told.value.problems[0].code == "study-unknown-name"
