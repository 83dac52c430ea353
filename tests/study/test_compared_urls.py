"""What is typed after `svload compare URL URL` is a study of two levels, which differ in what the URLs differ in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from svload import lab
from svload.model.errors import SvloadError
from svload.model.study import Lock
from svload.model.traffic import Text
from svload.study import load_study, resolve
from svload.study.compared_urls import ComparedUrls, compare_study
from svload.study.quick_load import QuickLoad, study_text

ONE = "http://127.0.0.1:8080/v1"
GATE = "worse by more than 5 %"


def lock_of(folder: Path, first: str, second: str, **asked: Any) -> Lock:
    own = {key: asked.pop(key) for key in ("blocks", "fail_if", "within_s", "control") if key in asked}
    path = folder / "study.json"
    path.write_text(study_text(compare_study(ComparedUrls(QuickLoad(first, **asked), second, **own))))
    (folder / "ca.pem").write_text("x")
    return load_study(path, kits=lab.kit_options())


def requests_of(lock: Lock) -> list[tuple[str, str, str]]:
    """(server, scheme, path) of each case."""
    found = []
    for case in lock.cases:
        config = resolve(lock, case)
        request = config.groups[0].request
        (text,) = request.path
        assert isinstance(text, Text)
        found.append((str(config.services[0].options["at"]), request.scheme, text.text))
    return found


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        (ONE, "http://127.0.0.1:8080/v2", ("/v1", "/v2")),
        ("http://old.example/x", "https://new.example:8443/y", ("old.example", "new.example")),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8081/", ("127.0.0.1:8080", "127.0.0.1:8081")),
        ("http://x.example/", "https://x.example/", ("http", "https")),
        ("http://x.example/?a=1", "http://x.example?a=2", ("?a=1", "?a=2")),
        (ONE, ONE, ("a", "b")),
        (ONE, f"http://127.0.0.1:8080/{'long' * 20}", ("a", "b")),
        ("http://x.example/", "http://x.example/?a=1", ("/", "?a=1")),
        (ONE, f"{ONE}-again", ("a", "b")),
    ],
)
def test_sides_are_called_by_what_differs(first: str, second: str, names: tuple[str, str]) -> None:
    assert ComparedUrls(QuickLoad(first), second).names == names


def test_paths_of_one_server_are_levels_that_restart_nothing(tmp_path: Path) -> None:
    lock = lock_of(tmp_path, ONE, "http://127.0.0.1:8080/${v}?a=$${b}")
    server = "http://127.0.0.1:8080"
    assert requests_of(lock) == [(server, "http", "/v1"), (server, "http", "/${v}?a=$${b}")]
    (factor,) = lock.factors
    assert factor.change == "request"
    assert "/${v}?a=$${b}" in lock.question, "as it was typed"
    assert (lock.measure.replicates, lock.measure.duration_ns) == (6, 10_000_000_000)
    assert [(one.metric, one.baseline) for one in lock.comparisons] == [("response.p50", "a"), ("response.p95", "a")]  # fmt: skip


def test_servers_are_levels_that_restart_nothing(tmp_path: Path) -> None:
    lock = lock_of(tmp_path, "https://old.example/", "http://new.example/x", insecure=True, vus=3)
    assert requests_of(lock) == [("https://old.example", "https", "/"), ("http://new.example", "http", "/x")]
    assert [factor.change for factor in lock.factors] == ["request"]


def test_an_address_beside_a_server_that_svload_starts_may_restart_that_one(tmp_path: Path) -> None:
    study = compare_study(ComparedUrls(QuickLoad("http://127.0.0.1:1/"), "http://127.0.0.1:2/"))
    study["lab"]["front"] = {"run": "./front --to ${server.port} --port ${port}"}
    path = tmp_path / "study.json"
    path.write_text(study_text(study))
    assert [factor.change for factor in load_study(path, kits=lab.kit_options(), trusted=True).factors] == ["restart"]  # fmt: skip


@pytest.mark.parametrize(
    ("fail_if", "gates"),
    [("", [None, None]), (GATE, [GATE, GATE]), (f"p95 {GATE}", [None, GATE]), (f"response.p50 {GATE}", [GATE, None])],
)  # fmt: skip
def test_a_gate_is_about_both_or_the_one_it_names(
    tmp_path: Path, fail_if: str, gates: list[str | None]
) -> None:
    lock = lock_of(tmp_path, ONE, ONE, fail_if=fail_if, blocks=4, within_s=60.0)
    assert [one.fail_if for one in lock.comparisons] == gates
    assert lock.measure.replicates == 4
    assert (lock.measure.until is None) == bool(fail_if), "a time alone buys a narrower interval"


def test_a_control_is_the_first_url_once_more(tmp_path: Path) -> None:
    lock = lock_of(tmp_path, ONE, "http://127.0.0.1:8080/v2", control=True)
    assert [path for _, _, path in requests_of(lock)] == ["/v1", "/v2", "/v1"]
    assert [case.levels["target"] for case in lock.cases] == ["/v1", "/v2", "/v1-again"]
    assert lock.measure.control


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"fail_if": f"p99 {GATE}"}, "p99 is not compared"),
        ({"rate_rps": 5.0, "vus": 2}, "--vus"),
        ({"insecure": True}, "--insecure is about HTTPS"),
    ],
)
def test_contradictions_are_refused_in_one_sentence(asked: dict[str, Any], said: str) -> None:
    fail_if = asked.pop("fail_if", "")
    with pytest.raises(SvloadError) as caught:
        compare_study(ComparedUrls(QuickLoad(ONE, **asked), ONE, fail_if=fail_if))
    assert said in str(caught.value)


def test_options_of_tls_hold_for_the_side_that_speaks_it(tmp_path: Path) -> None:
    for pair in (("http://x.example/", "https://x.example/"), ("https://x.example/", "http://x.example/")):
        lock = lock_of(tmp_path, *pair, has_ca_file=True)
        tls = {config.services[0].options["at"]: config.services[0].options for config in (resolve(lock, case) for case in lock.cases)}  # fmt: skip
        assert tls["https://x.example"]["ca_file"] == "ca.pem"
