"""Command lines of `load`, `compare URL URL` and `init` are turned into the intended study."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from svload import lab
from svload.lab import asks_trust
from svload.model.errors import SvloadError
from svload.model.executors import (
    ConstantArrivalRate,
    ConstantVus,
    RampingArrivalRate,
    RampingVus,
    SharedIterations,
)
from svload.model.stages import Stage
from svload.model.study import CaseConfig, Lock
from svload.model.traffic import Body, Text
from svload.study import first_batch, init_study, moved, needs_trust, resolve
from svload.study.compared_urls import ComparedUrls, compare_study
from svload.study.first import url_of
from svload.study.quick_load import QuickLoad, quick_study, study_text
from svload.study.values import RESERVED

from .conftest import load_text

URL = "http://127.0.0.1:8080/a?b=${c}"
S = 1_000_000_000
ONE = "http://127.0.0.1:8080/v1"
GATE = "worse by more than 5 %"


def of(duration_ns: int, target: float) -> Stage:
    return Stage(duration_ns=duration_ns, target=target)


def case_of(folder: Path, url: str = URL, **asked: Any) -> CaseConfig:
    for name in ("ca.pem", "body"):
        (folder / name).write_text("x")
    lock = load_text(folder, quick_study(QuickLoad(url, **asked)))
    return resolve(lock, lock.cases[0])


def test_nothing_but_a_url_is_sixty_four_users_for_ten_seconds(tmp_path: Path) -> None:
    config = case_of(tmp_path)
    (group,) = config.groups
    assert (group.executor, group.connection) == (ConstantVus(vus=64), "keep-alive")
    request = group.request
    assert (request.method, request.path) == ("GET", (Text(text="/a?b=${c}"),)), "the user's own ${ is text"
    assert [service.options for service in config.services] == [{"at": "http://127.0.0.1:8080"}]
    config = case_of(tmp_path, has_data_file=True, has_ca_file=True, url="https://x.example/")
    request = config.groups[0].request
    assert (request.method, request.body) == ("POST", Body(file=str(tmp_path / "body")))


@pytest.mark.parametrize(
    ("asked", "executor"),
    [
        ({"rate_rps": 512.25, "max_vus": 9, "on_full": "drop", "arrivals": "poisson"},
         ConstantArrivalRate(rate_rps=512.25, max_vus=9, on_full="drop", arrivals="poisson")),
        ({"requests": 40, "vus": 8}, SharedIterations(vus=8, iterations=40)),
        ({"requests": 3}, SharedIterations(vus=3, iterations=3)),
        ({"vus": 5, "ramp_up": "2s"}, ConstantVus(vus=5, ramp_up_ns=2 * S)),
        ({"stages": ("1s:10,2s:0",), "vus": 4}, RampingVus(start_vus=4, stages=(of(S, 10), of(2 * S, 0)))),
        ({"stages": ("500ms:250.5/s", "1s:10/s"), "rate_rps": 20.0},
         RampingArrivalRate(start_rate_rps=20, stages=(of(S // 2, 250.5), of(S, 10)))),
    ],
)  # fmt: skip
def test_the_load_is_the_executor_of_that_name(tmp_path: Path, asked: dict[str, Any], executor: Any) -> None:
    assert case_of(tmp_path, **asked).groups[0].executor == executor


def test_the_group_is_as_typed(tmp_path: Path) -> None:
    config = case_of(tmp_path, timeout="250ms", keep_alive=False, generators=2, vus=4, think_time="10ms")
    (group,) = config.groups
    assert (group.request.timeout_ns, group.connection, group.generators) == (250_000_000, "new", 2)
    assert group.executor.think_time.constant_ns == 10_000_000


CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"rate_rps": 0.0}, "above 0"),
    ({"rate_rps": 5.0, "vus": 2}, "--max-vus 2"),
    ({"requests": 5, "stages": ("1s:1",)}, "when to stop"),
    ({"stages": ("1s:1", "1s:1/s")}, "mix users and rates"),
    ({"stages": ("soon",)}, "is not a stage"),
    ({"stages": ("0s:5",)}, "--stage 0s:5 is too short"),
    ({"stages": ("5s:0",)}, "no stage has any load"),
    ({"stages": ("5s:0.4",)}, "a whole number"),
    ({"stages": ("5s:5",), "rate_rps": 4.0}, "these are of users"),
    ({"stages": ("5s:5/s",), "vus": 4}, "these are of a rate"),
    ({"think_time": "1s", "rate_rps": 4.0}, "--think-time"),
    ({"think_time": "soon"}, "--think-time soon"),
    ({"ramp_up": "1s", "requests": 5}, "--ramp-up"),
    ({"max_vus": 5}, "--max-vus"),
    ({"on_full": "drop"}, "--on-full"),
    ({"arrivals": "poisson"}, "--arrivals"),
    ({"generators": 3, "max_vus": 2, "rate_rps": 5.0}, "--generators"),
    ({"duration": "0s"}, "--duration 0s"),
    ({"duration": "7us"}, "--duration 7us is too short to measure"),
    ({"stages": ("2us:5", "900ns:6")}, "--stage 2us:5,900ns:6 is too short to measure"),
    ({"duration": "10"}, "a unit is missing"),
    ({"duration": '{"a": 1}'}, "--data"),
    ({"timeout": "0s"}, "--timeout 0s"),
    ({"pacing_quantum": "1ms"}, "Add --think-time"),
    ({"method": "FETCH"}, "FETCH"),
    ({"method": "GET", "data": "x"}, "GET can't have a body"),
    ({"data": "x", "has_data_file": True}, "can't be combined"),
    ({"data": "@file"}, "--data-file file"),
    ({"headers": ("A: b\r\nC: d",)}, "is not a header"),
    ({"headers": ("A: b", "a: c")}, "the header A is given twice"),
    ({"insecure": True}, "--insecure"),
    ({"has_ca_file": True}, "--cacert"),
    ({"streams": 4}, "--streams 4"),
    ({"streams": 4, "http2": True, "keep_alive": False}, "--no-keepalive"),
    ({"url": "https://x/", "has_ca_file": True, "insecure": True}, "verifies nothing"),
    ({"thresholds": ("p(99)<soon",)}, "--threshold p(99)<soon"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "words"), CONTRADICTIONS, ids=lambda value: str(value)[:40])
def test_a_contradiction_is_one_sentence(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(SvloadError) as caught:
        quick_study(QuickLoad(**{"url": URL} | asked))
    (problem,) = caught.value.problems
    assert problem.code == "usage"
    assert words in str(problem)
    assert "\n" not in str(problem).replace("\r\n", "")


@pytest.mark.parametrize(
    ("insecure", "gate", "words"),
    [(False, f"p99 {GATE}", "p99 is not compared"), (True, "", "applies to HTTPS")],
)
def test_a_contradiction_of_a_comparison_is_refused(insecure: bool, gate: str, words: str) -> None:
    with pytest.raises(SvloadError, match=words):
        compare_study(ComparedUrls(QuickLoad(ONE, insecure=insecure), ONE, fail_if=gate))


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        ("Accept: a/b", True), ("content-type: a/b", True), ("If-None-Match: x", True), ("User-Agent: x", True), ("Range: bytes=0-1", True),
        ("X-JWT: hush", False), ("Signature: hush", False), ("X-CSRF: hush", False), ("X-Otp: hush", False), ("Anything: hush", False),
        ("Proxy-Authorization: hush", False), ("Anything:", True),
    ],
)  # fmt: skip
def test_only_harmless_header_values_are_kept(header: str, kept: bool) -> None:
    ask = QuickLoad(url="http://127.0.0.1/", headers=(header,))
    assert (ask.secrets == {}) is kept
    assert "hush" not in quick_study(ask)


def test_headers_of_like_names_keep_their_own_values() -> None:
    ask = QuickLoad(url="http://127.0.0.1/", headers=("X-A: 1", "X_A: 2", "X.A: 3", "1: 4", "Port: 5"))
    assert [value for _, value in ask.secrets.values()] == ["1", "2", "3", "4", "5"]
    assert len({variable for variable, _ in ask.secrets.values()}) == 5
    assert set(json.loads(quick_study(ask))["secrets"]).isdisjoint(RESERVED)


def lock_of(folder: Path, first: str, second: str, **asked: Any) -> Lock:
    own = {key: asked.pop(key) for key in ("blocks", "fail_if", "within_s", "control") if key in asked}
    (folder / "ca.pem").write_text("x")
    study = study_text(compare_study(ComparedUrls(QuickLoad(first, **asked), second, **own)))
    return load_text(folder, study, kits=lab.kit_options())


def requests_of(lock: Lock) -> list[tuple[str, str, str]]:
    """Return (server, scheme, path) of each case."""
    found = []
    for case in lock.cases:
        config = resolve(lock, case)
        request = config.groups[0].request
        (text,) = request.path
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
    assert [factor.change for factor in lock.factors] == ["request"]
    assert "/${v}?a=$${b}" in lock.question, "as it was typed"
    assert (lock.measure.replicates, lock.measure.duration_ns) == (6, 10_000_000_000)
    compared = {one.metric: one.baseline for one in lock.comparisons}
    assert compared == {"response.p50": "a", "response.p95": "a"}
    again = lock_of(tmp_path, ONE, "http://127.0.0.1:8080/v2", control=True)
    assert again.measure.control
    assert [path for _, _, path in requests_of(again)] == ["/v1", "/v2", "/v1"]
    assert [case.levels["target"] for case in again.cases] == ["/v1", "/v2", "/v1-again"]


@pytest.mark.parametrize(
    ("fail_if", "gates"),
    [("", [None, None]), (GATE, [GATE, GATE]), (f"p95 {GATE}", [None, GATE]), (f"response.p50 {GATE}", [GATE, None])],
)  # fmt: skip
def test_a_gate_is_about_both_or_one(tmp_path: Path, fail_if: str, gates: list[str | None]) -> None:
    lock = lock_of(tmp_path, ONE, ONE, fail_if=fail_if, blocks=4, within_s=60.0)
    assert [one.fail_if for one in lock.comparisons] == gates
    assert lock.measure.replicates == 4
    assert (lock.measure.until is None) == bool(fail_if), "a time alone buys a narrower interval"


@pytest.mark.parametrize("schemes", [("http", "https"), ("https", "http")])
def test_options_of_tls_hold_for_the_side_that_speaks_it(tmp_path: Path, schemes: tuple[str, str]) -> None:
    first, second = (f"{scheme}://x.example/" for scheme in schemes)
    lock = lock_of(tmp_path, first, second, has_ca_file=True)
    services = [resolve(lock, case).services[0].options for case in lock.cases]
    secure = {str(options["at"]): options.get("ca_file") for options in services}
    assert secure["https://x.example"] == "ca.pem"


@pytest.mark.parametrize(
    ("target", "kit", "options", "path"),
    [
        ("http://127.0.0.1:8080", "external", {"at": "http://127.0.0.1:8080"}, "/"),
        ("https://api.test/v1/a?page=2#top", "external", {"at": "https://api.test"}, "/v1/a?page=2"),
        ("http://[::1]:8080/x", "external", {"at": "http://[::1]:8080"}, "/x"),
        ("http://localhost:1/${a}", "external", {"at": "http://localhost:1"}, "/${a}"),
        ("./server --port {port}", "command", {"run": "./server --port ${port}"}, "/"),
        ("False", "command", {"run": "False"}, "/"),
        ('python3 -m "my server" ${port}', "command", {"run": 'python3 -m "my server" ${port}'}, "/"),
    ],
)
def test_the_first_study(folder: Path, target: str, kit: str, options: dict[str, str], path: str) -> None:
    text = init_study(target)
    assert len(text.splitlines()) <= 10
    lock = load_text(folder, text)
    config = resolve(lock, lock.cases[0])
    assert [(service.kit, service.options) for service in config.services] == [(kit, options)]
    request = config.groups[0].request
    scheme = "https" if target.startswith("https") else "http"
    assert (request.path[0].text, request.scheme) == (path, scheme)
    assert len(first_batch(lock).trials) == 6
    asks = [f"lab.server.run: {options['run']}"] if kit == "command" else []
    assert needs_trust(lock, asks_trust) == asks
    (folder / "kits").mkdir()
    (folder / "kits" / "mine.py").write_text("")
    assert needs_trust(lock, asks_trust) == [*asks, str(folder / "kits" / "mine.py")]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1, max_size=30).filter(lambda text: text.strip() and "${" not in text))
def test_any_command_is_kept_to_the_letter(folder: Path, command: str) -> None:
    assume(url_of(command) is None)
    lock = load_text(folder, init_study(command))
    wanted = command.strip().replace("{port}", "${port}")
    if "://" not in command:
        assert resolve(lock, lock.cases[0]).services[0].options == {"run": wanted}


@pytest.mark.parametrize(
    "target", ["", "  ", "ftp://x", "http://", "http://u:pw@h/", "http://[::1", "http://h:port/"]
)
def test_what_is_neither(target: str) -> None:
    with pytest.raises(SvloadError):
        init_study(target)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    for folder in ("bin", "conf", "test", "studies", "venv", "s2"):
        (tmp_path / folder).mkdir()
    for file in ("server", "server.py", "my server", "conf/a.yaml", "bin/tool", "s2/own"):
        (tmp_path / file).write_text("")
    (tmp_path / "venv" / "python").symlink_to("/usr/bin/env")
    (tmp_path / "far").symlink_to(tmp_path / "studies")
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("bin/tool run", "../bin/tool run"),
        ("./bin/../server", "../server"),
        ("python3 -m server", "python3 -m server"),
        ("python3 -u ./server.py -c conf/a.yaml", "python3 -u ../server.py -c ../conf/a.yaml"),
        ("./server --conf=conf/a.yaml --dir conf " "--root=conf", "../server --conf=../conf/a.yaml --dir " "../conf " "--root=../conf"),
        ("./server test", "../server test"),
        ("./server ./test .", "../server ../test .."),
        ("./server --name=none --empty= -x 8080 no/such", "../server --name=none --empty= -x 8080 no/such"),
        ("'./my server' --say 'two words'", "'../my server' --say 'two words'"),
        ("python3 -c 'print(1)'", "python3 -c 'print(1)'"),
        ("/usr/bin/env  python3   -V", "/usr/bin/env  python3   -V"),
        # A virtual environment's python finds its packages by the location of the link.
        ("venv/python server.py", "../venv/python ../server.py"),
    ],
)  # fmt: skip
def test_paths_are_relative_to_the_studys_folder(here: Path, typed: str, meant: str) -> None:
    assert moved(typed, here, here / "s1") == meant


def test_the_studys_folder_may_be_a_link_or_hold_the_program(here: Path) -> None:
    assert moved("./server", here, here / "far" / "s1") == "../../server", "it is where its link leads"
    assert moved("./own", here, here / "s2") == "./own"
