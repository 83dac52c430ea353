"""Decisions of the lab that need neither sockets nor processes, and mistakes about a study's servers."""

from __future__ import annotations

import datetime
import os
import pwd
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from tests.evolve import evolve

from svload.fleet.actions import _staged
from svload.lab import Lab, files, find_mistakes, installs, kit_options, setup
from svload.lab.authority import MARGIN, Authority
from svload.lab.catalogue import all_kits, check_specs
from svload.lab.elsewhere import Hosted, packed_folder, unpack
from svload.lab.faults import FaultHands, LabFaults
from svload.lab.graph import costs_of
from svload.lab.groups import ServiceGroups
from svload.lab.kit import KitContext
from svload.lab.kits import swift, varnish
from svload.lab.kits.swift import Swift, SwiftOptions
from svload.lab.kits.truth import Truth, TruthOptions, canonical, native_distribution
from svload.lab.kits.varnish import VarnishOptions, discovered
from svload.lab.links import ServiceLinks, needs_own_network
from svload.lab.objects import content, fill_key, planned_accounts, planned_containers, planned_objects
from svload.lab.place import Place
from svload.lab.standing import Starter
from svload.lab.tuning import retune
from svload.model.costs import Costs
from svload.model.errors import Problem, SvloadError, fail
from svload.model.facts import Endpoint
from svload.model.messages import DropGroup, DropLink, Limits, MakeGroup
from svload.model.parameters import Parameter, kernel_change, may_be_set
from svload.model.study import ObjectSet, ServiceSpec
from svload.study import load_study
from svload.study.tree import Node

from .conftest import spec


def test_an_option_without_effect_is_refused() -> None:
    at = {"at": "http://127.0.0.1:1"}
    specs = [
        spec("a", "external", **at, nofile=5),
        spec("b", "command", run="true", tuning={"x": 1}),
        spec("c", "external", **at, link={"rate": "10 Mbit/s"}),
        spec("d", "truth", role="store", nofile=5, tuning={"log_limit": 5}, link=None),
    ]
    _, mistakes = check_specs(specs)
    assert [one.path[1:] for one in mistakes] == [("a", "nofile"), ("b", "tuning"), ("c", "link")]
    assert all("Leave it out" in str(one.problem(Node(None, "study.yaml:1"))) for one in mistakes)
    one, other = (spec(name, "memcached", port=11211, on=f"servers[{name}]") for name in "01")
    assert setup.find_mistakes([one, other]) == [], "the same port on two machines"
    assert setup.find_mistakes([one, evolve(other, options=one.options)]) != []


def test_options_are_read_with_their_units() -> None:
    time, stall = {"lognormal": {"median": "2 ms", "p99": "9 ms"}}, {"every": "1 s", "for": "50 ms"}
    written = {"service_time": time, "stall": stall, "memory": "1 GiB", "rate_limit": "10 MiB/s"}
    options, mistakes = check_specs([spec("s", "truth", role="store", **written)])
    assert mistakes == []
    read = options["s"].model_dump()
    assert read["service_time"] == {"lognormal_ns": {"median": 2_000_000, "p99": 9_000_000}}
    assert read["stall"] == {"every_ns": 10**9, "for_ns": 5 * 10**7}
    assert (read["memory"], read["rate_limit"]) == (1 << 30, 10 << 20)
    for odd in ({"normal": "2 ms"}, {"uniform": ["1 ms"]}, {}, {"lognormal": {"median": "1 ms"}}, 5):
        with pytest.raises(ValueError, match=r"."):
            native_distribution(odd)


SIZE = {"lognormal": {"median": 40960, "p99": 409600}}
OBJECTS = ObjectSet(name="objects", service="backend", accounts=2, containers=3, count=10, size=SIZE)


def test_objects_are_drawn_from_the_seed_alone() -> None:
    planned = planned_objects(OBJECTS, seed=1)
    assert planned == planned_objects(OBJECTS, seed=1) != planned_objects(OBJECTS, seed=2)
    renamed = evolve(OBJECTS, service="renamed")
    assert planned == planned_objects(renamed, seed=1)
    assert len({one.path for one in planned}) == 10
    assert [one.path for one in planned] == sorted(one.path for one in planned)
    assert {(one.account, one.container) for one in planned} == set(planned_containers(OBJECTS))
    assert {one.account for one in planned} == set(planned_accounts(OBJECTS))
    assert content(planned[0].path, 100, 1) != content(planned[1].path, 100, 1)
    assert len(content(planned[0].path, planned[0].size_bytes, 1)) == planned[0].size_bytes
    # filled data is kept under what decides it
    key = fill_key([OBJECTS], 1)
    assert key == fill_key([renamed], 1)
    assert key not in (fill_key([OBJECTS], 2), fill_key([evolve(OBJECTS, count=11)], 1))


def test_sizes_follow_the_asked_distribution() -> None:
    many = evolve(OBJECTS, count=4000)
    sizes = sorted(one.size_bytes for one in planned_objects(many, seed=3))
    assert 0.93 < sizes[2000] / 40960 < 1.07
    assert 0.75 < sizes[3960] / 409600 < 1.35
    uniform = evolve(OBJECTS, size={"uniform": ["1 KiB", 2048]})
    assert all(1024 <= one.size_bytes <= 2048 for one in planned_objects(uniform, seed=3))
    constant = evolve(OBJECTS, size={"constant": "4 KiB"})
    assert {one.size_bytes for one in planned_objects(constant, seed=3)} == {4096}


def test_the_authority_is_throw_away_and_its_keys_private(tmp_path: Path) -> None:
    life = datetime.timedelta(hours=2)
    authority = Authority(life)
    issued = authority.issue("cache", tmp_path / "tls")
    ca = x509.load_pem_x509_certificate(authority.ca_pem.encode())
    leaf = x509.load_pem_x509_certificate(issued.cert_file.read_bytes())
    now = datetime.datetime.now(datetime.UTC)
    for cert in (ca, leaf):
        assert cert.not_valid_after_utc <= now + life + MARGIN
        assert cert.not_valid_before_utc < now
    leaf.verify_directly_issued_by(ca)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["cache", "localhost"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert isinstance(leaf.public_key(), ec.EllipticCurvePublicKey)
    assert issued.both_file.read_text() == issued.key_file.read_text() + issued.cert_file.read_text()
    assert {path.stat().st_mode & 0o777 for path in (issued.key_file, issued.both_file)} == {0o600}
    assert Authority(life).ca_pem != authority.ca_pem


def context(folder: Path, **more: Any) -> KitContext:
    own = (Refusing(most=0), Limits(), None, lambda part, fixed: 1)
    return KitContext("a", *[folder] * 4, *own, **more)


@pytest.mark.parametrize(
    ("address", "upstream", "via", "leaves"),
    [
        ("127.0.0.1", "127.0.0.1", None, False),
        ("192.0.2.1", "127.0.0.1", None, True),
        ("::1", "2001:db8::1", None, True),
        ("127.0.0.1", "192.0.2.2", "external", False),
    ],
)
def test_a_truth_server_leaves_loopback_where_its_lab_does(
    tmp_path: Path, address: str, upstream: str, via: str | None, leaves: bool
) -> None:
    cache = Truth(TruthOptions(role="cache", of="b"), context(tmp_path, address=address))
    cache._http, cache._https, cache._admin = 1, None, 2
    behind = Endpoint(scheme="http", address=upstream, port=3, via=via)
    assert cache._config(behind)["allow_any_address"] is leaves


def test_the_truth_servers_counters_become_canonical() -> None:
    own = {"requests": 9, "tls_resumed": 3}
    hits = {"hits": 5, "misses": 1}
    raw = {"connections_accepted": 4, "tls_handshakes": 4, "status": {"200": 8}} | own | hits
    expected = {"connections": 4, "tls_handshakes": 1, "status.200": 8} | own
    assert canonical(raw, cache=True) == expected | hits
    assert canonical(raw, cache=False) == expected


def test_what_passes_requests_on_answers_no_faster_than_what_it_needs() -> None:
    kits = all_kits()
    specs = [
        spec("front", "nginx", of="cache"),
        spec("cache", "varnish", of="backend"),
        spec("backend", "swift"),
        spec("alone", "nginx"),
        spec("odd", "no-such-kit"),
        spec("lost", "varnish", of="nobody"),
    ]
    found = costs_of(specs)
    assert list(found) == [one.name for one in specs]
    slowest = kits["swift"].costs.answers_per_s
    assert {found[name].answers_per_s for name in ("front", "cache", "backend")} == {slowest}
    assert found["cache"].hits_per_s == kits["varnish"].costs.answers_per_s, "what hits needs nobody"
    assert found["backend"].hits_per_s is None
    assert found["alone"] == kits["nginx"].costs
    assert found["cache"].up_s == kits["varnish"].costs.up_s
    assert found["odd"] == Costs()
    assert found["lost"] == kits["varnish"].costs


@pytest.mark.parametrize(("woken", "requests"), [(45.0, 50.0), (0.0, 95.0)])
def test_a_request_that_waited_for_anothers_fetch_is_one_request(woken: float, requests: float) -> None:
    """Ten users request five cold objects at once, as Varnish 7.1.1 counted them: 45 of 50 were woken."""
    main = {"client_req": 95.0, "cache_hit": 45.0, "cache_miss": 5.0, "busy_wakeup": woken}
    assert varnish.canonical(main, at_ns=1).values["requests"] == requests
    assert varnish.canonical({"client_req": 7.0}, at_ns=1).values["requests"] == 7.0


class Refusing:
    """An agent that makes `most` groups, and whose processes all end at once; it records what it is asked."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.asked: list[Any] = []

    def prepare(self, actions: Sequence[Any], timeout_s: float = 60.0) -> list[dict[str, Any]]:
        self.asked += actions
        if sum(isinstance(one, MakeGroup) for one in self.asked) > self.most:
            raise fail("agent-refused", reason="no more groups", hint="")
        names = dict.fromkeys(("address", "inside", "outside", "fabric", "network"), "x")
        return [{"paths": {}, "pid": 5, "rate_bytes_per_s": None, **names}] * len(actions)

    def stop(self, children: Sequence[str], grace_s: float = 5.0, now: bool = False) -> dict[str, int]:
        self.asked += children
        return {}

    def exited(self, child: str) -> int | None:
        return 1


def test_the_groups_that_were_made_are_removed_after_a_failed_start() -> None:
    host = Refusing(most=2)
    groups = ServiceGroups(host, {"a": ["cpus"], "a.one": ["cpus"], "a.two": ["cpus"]})
    with pytest.raises(SvloadError):
        groups.make("a", TruthOptions(role="store"))
    host.most = 9
    groups.drop("a")
    assert [one.name for one in host.asked if isinstance(one, DropGroup)] == ["a.one", "a"]


def test_a_group_that_is_not_removed_keeps_no_other() -> None:
    host = Refusing(most=9)
    groups = ServiceGroups(host, {"a": ["cpus"], "a.one": ["cpus"]})
    groups.make("a", TruthOptions(role="store"))
    host.most = 0
    with pytest.raises(SvloadError) as caught:
        groups.drop("a")
    assert [one.name for one in host.asked if isinstance(one, DropGroup)] == ["a.one", "a.rest", "a"]
    assert len(caught.value.problems) == 3


class Hands(FaultHands):
    """Applies faults to servers with one process, `p`. Those in `stuck` can be paused, but not continued."""

    def __init__(self, stuck: Collection[str]) -> None:
        super().__init__({}, ServiceGroups(Refusing(0)), ServiceLinks(Refusing(0), Path(), None))
        self.stuck, self.signalled = stuck, list[tuple[str, str]]()

    def _servers(self, server: str, part: str) -> list[Any]:
        def signal(parts: Sequence[str], name: str) -> None:
            if name == "CONT" and server in self.stuck:
                raise fail("fault-failed", target=server, reason="it is stuck")
            self.signalled.append((server, name))

        return [SimpleNamespace(parts=lambda part: ["p"], signal=signal)]


def test_one_fault_that_is_not_undone_leaves_no_other() -> None:
    """Two servers are paused at each of four places, and at two of them the first one stays paused."""
    places = {"a": Hands({"a1"}), "b": Hands(()), "c": Hands({"c1"}), "d": Hands(())}
    faults = LabFaults(lambda server: cast("Any", places[server[0]]), lambda server: None)
    for name in ("a1", "a2", "b1", "b2", "c1", "c2", "d1", "d2"):
        faults.act("pause", name, "", {})
    with pytest.raises(SvloadError) as caught:
        faults.heal()
    assert {problem.details["target"] for problem in caught.value.problems} == {"a1", "c1"}
    resumed = {server for place in places.values() for server, sent in place.signalled if sent == "CONT"}
    assert resumed == {"a2", "b1", "b2", "c2", "d1", "d2"}


def test_a_delay_line_that_did_not_start_is_stopped(tmp_path: Path) -> None:
    host = Refusing(most=0)
    links = ServiceLinks(host, tmp_path / "links", None)
    with pytest.raises(SvloadError, match="did not start"):
        links.make("a", TruthOptions.model_validate({"role": "store", "link": {"latency": "2 ms"}}))
    links.drop("a")
    assert [one for one in host.asked if isinstance(one, str)] == ["a.delay-line"]


def test_the_link_of_a_server_whose_group_is_refused_is_removed(tmp_path: Path) -> None:
    host, life = Refusing(most=0), datetime.timedelta(days=1)
    folders = (tmp_path / "work", tmp_path, tmp_path, tmp_path)
    how = (None, {}, lambda: False, 1.0, life, lambda event: None)
    starter = Starter(host, ServiceGroups(host), ServiceLinks(host, tmp_path, None), *folders, *how)
    options = {"role": "store", "link": {"rate": "1 MB/s"}, "cpus": 1.0}
    with pytest.raises(SvloadError, match="no more groups"):
        Place(starter).start(spec("a", "truth", **options), TruthOptions.model_validate(options), {}, False)
    assert DropLink(name="a") in host.asked


class Meeting:
    """Two calls at the same time: each waits a moment for the other, and all are noted."""

    def __init__(self) -> None:
        self._both, self.noted = threading.Barrier(2), list[Any]()

    def wait(self, noted: object) -> None:
        self.noted.append(noted)
        with suppress(threading.BrokenBarrierError):
            self._both.wait(0.2)

    def twice(self, act: Callable[[], Any]) -> list[Any]:
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda _: act(), range(2)))


def test_files_that_two_need_at_once_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meeting, write = Meeting(), files._write
    monkeypatch.setattr(files, "_write", lambda path, size: (meeting.wait(path.name), write(path, size)))
    [folder, other] = meeting.twice(lambda: files.made_files({"a": 5, "b": 6}, tmp_path))
    assert folder == other
    assert meeting.noted == ["a", "b"]
    assert {path.name: path.stat().st_size for path in folder.iterdir()} == {"a": 5, "b": 6}


def test_two_installs_at_once_install_a_kit_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = Meeting()

    def slowly(argv: Sequence[str], within_s: float) -> None:
        swift.environment(tmp_path).mkdir(exist_ok=True)
        meeting.wait(argv)

    monkeypatch.setattr(swift, "run_installer", slowly)
    monkeypatch.setattr(setup, "check", lambda specs, cache: [])
    done = meeting.twice(lambda: setup.install([spec("a", "swift")], tmp_path, False))
    assert sorted(map(len, done)) == [0, 1]
    assert len(meeting.noted) == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, None), ("#!/bin/sh\nexit 0\n", "#!/bin/sh\nexit 0\n"), (installs._POLICY, None)],
)
def test_only_svloads_own_policy_of_daemons_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None, after: str | None
) -> None:
    guard = tmp_path / "policy-rc.d"
    if before is not None:
        guard.write_text(before)
    monkeypatch.setattr(installs, "_GUARD", guard)
    with installs._no_daemons():
        assert guard.exists()
    assert (guard.read_text() if guard.exists() else None) == after


def test_swift_runs_as_the_user_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`su` without a dash keeps the names in the environment."""
    for name in ("LOGNAME", "USER"):
        monkeypatch.setenv(name, "somebody-else")
    kit = Swift(SwiftOptions(), context(tmp_path, address="fd00::1"))
    kit._ports = {"proxy": 1, "syslog": 2}
    assert f"\nuser = {pwd.getpwuid(os.geteuid()).pw_name}\n" in kit._common("proxy", 1, {})
    assert kit.url(80, "/a") == "http://[fd00::1]:80/a", "an address of IPv6 is in brackets"


def test_two_labs_that_are_up_store_in_separate_folders(tmp_path: Path) -> None:
    one, other = (Swift(SwiftOptions(), context(tmp_path)) for _ in range(2))
    kept = tmp_path / "data" / "key"
    one._holding = one._own_folder(kept)
    assert (one._holding, other._own_folder(kept).name) == (kept, "key-2")
    assert one._own_folder(kept) == kept
    other.down()
    one.down()
    assert other._own_folder(kept) == kept


def unpacked(study: Path, there: Path) -> None:
    there.mkdir()
    unpack(packed_folder(study), there)


def test_a_server_that_cannot_be_stopped_keeps_no_other_up(tmp_path: Path) -> None:
    """One on another machine does not answer, nor does the kernel there."""
    ended: list[str] = []

    class Elsewhere:
        def stop(self, name: str) -> None:
            if name == "web[2]":
                raise OSError("no answer")
            ended.append(name)

        def free_ports(self) -> int:
            raise OSError("too many open files")

        def wipe(self) -> None:
            ended.append("wiped")

    place, host = cast(Any, Elsewhere()), cast(Any, None)
    web = ServiceSpec(name="web", kit="truth", options={"role": "store", "replicas": 2, "on": "db1"})
    lab: Any = Lab((web,), host, tmp_path / "work", tmp_path / "cache", elsewhere={"db1": place})
    lab._up = {name: SimpleNamespace(place=place) for name in web.servers}
    lab.down()
    assert ended == ["web[1]", "wiped"]
    assert not lab._up


def test_servers_elsewhere_report_in_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one wave start at once: each event is handed over once."""
    monkeypatch.setenv("SVLOAD_CACHE", str(tmp_path / "cache"))
    agent: Any = SimpleNamespace(dir=tmp_path / "agent", cores=(0, 1))
    there: Any = Hosted(agent, packed_folder(tmp_path / "none"), "127.0.0.1", 1.0, datetime.timedelta(1), {})
    report = there._here._starter.tell
    there._here = SimpleNamespace(stop=lambda: [report(number) for number in range(3000)] and None)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: there.do("stop", ()), range(20)))
    finally:
        sys.setswitchinterval(before)
    counts = Counter(event for answer in answers for event in answer["events"])
    assert counts == dict.fromkeys(range(3000), 20)


@pytest.mark.parametrize("copy", [unpacked, _staged], ids=["run", "install"])
def test_links_of_a_study_arrive_as_files(tmp_path: Path, copy: Callable[[Path, Path], object]) -> None:
    study, there = tmp_path / "study", tmp_path / "there"
    study.mkdir()
    (study / "study.yaml").write_text("")
    (study / "data.csv").write_text("a")
    (study / "same.csv").symlink_to(study / "data.csv")
    (tmp_path / "other.csv").write_text("b")
    for name, target in {"other.csv": tmp_path / "other.csv", "gone": study / "no", "up": study}.items():
        (study / name).symlink_to(target)
    copy(study, there)
    found = {path.name: path.read_text() for path in there.iterdir()}
    assert found == {"study.yaml": "", "data.csv": "a", "same.csv": "a"}


class Server:
    """A server with two limits that bound each other, and one that breaks it."""

    def __init__(self) -> None:
        self.values = {"low": "5", "high": "10", "poison": "off"}
        self.writes: list[str] = []

    def parameters(self) -> dict[str, Parameter]:
        return {name: Parameter(name, value=value) for name, value in self.values.items()}

    def set_parameter(self, name: str, value: str) -> None:
        if name not in self.values:
            raise fail("lab-failed", reason=f"Unknown parameter {name}")
        if name == "low" and int(value) > int(self.values["high"]):
            raise fail("lab-failed", reason="Must be no more than high")
        if name == "high" and int(value) < int(self.values["low"]):
            raise fail("lab-failed", reason="Must be at least low")
        self.values[name] = value
        self.writes.append(f"{name}={value}")

    def is_well(self) -> bool:
        return self.values["poison"] == "off"


@pytest.mark.parametrize("wanted", [{"low": 400, "high": 5000}, {"high": 3, "low": 2}])
def test_dependent_limits_are_set_in_the_servers_order(wanted: dict[str, int]) -> None:
    server = Server()
    assert retune(server, wanted, server.is_well) == {}
    assert {name: int(server.values[name]) for name in wanted} == wanted


def test_what_is_refused_is_reported_and_the_rest_is_set() -> None:
    server = Server()
    refused = retune(server, {"low": 50, "nothing": 1, "high": 20}, server.is_well)
    assert refused == {"low": "Must be no more than high", "nothing": "Unknown parameter nothing"}
    assert server.values == {"low": "5", "high": "20", "poison": "off"}


def test_a_server_that_is_not_well_gets_its_old_values_back_newest_first() -> None:
    server = Server()
    with pytest.raises(SvloadError, match="failed with high = 500, poison = on, low = 400"):
        retune(server, {"low": 400, "high": 500, "poison": True}, server.is_well)
    assert server.values == Server().values
    assert server.writes[-3:] == ["low=5", "poison=off", "high=10"]


def test_whoever_stops_in_the_middle_leaves_nothing_half() -> None:
    server = Server()

    def stopped() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        retune(server, {"high": 500}, stopped)
    assert server.values["high"] == "10"


def test_varnish_reports_its_parameters() -> None:
    text = """[2, ["param.show", "-j"], 1.5,
     {"name": "thread_queue_limit", "implemented": true, "value": 20, "default": "20", "minimum": "0", "description": "x"},
     {"name": "workspace_session", "value": "0.75k", "default": "0.75k", "minimum": "384b", "maximum": "1m", "units": "bytes"},
     {"name": "not_here", "implemented": false}]"""
    found = discovered(text, VarnishOptions.parameters)
    assert set(found) == {"thread_queue_limit", "workspace_session"}
    queue, workspace = found["thread_queue_limit"], found["workspace_session"]
    assert [queue.value, queue.default, queue.low, queue.high] == ["20", "20", "0", None]
    assert queue.change == "live"
    assert (workspace.unit, workspace.high, workspace.change) == ("bytes", "1m", "restart")


@pytest.mark.parametrize(
    ("option", "parameter", "change"),
    [("tuning", "thread_queue_limit", "live"), ("tuning", "thread_pool_min", "restart"), ("tuning", "new_one", "restart"),
     ("storage", None, "restart"), ("nothing", None, "")],
)  # fmt: skip
def test_what_a_change_takes_is_declared(option: str, parameter: str | None, change: str) -> None:
    assert VarnishOptions.change_of(option, parameter) == change


HOW_MUCH = (
    "net.core.somaxconn",
    "net.ipv4.tcp_rmem",
    "net.ipv4.conf.all.rp_filter",
    "fs.file-max",
    "vm.swappiness",
)
OPENS_THE_MACHINE = ("kernel.core_pattern", "kernel.modprobe", "fs.binfmt_misc.register", "vm.mmap_min_addr")
NO_SETTING = ("net", "net.core", "net.core/../../kernel.core_pattern")


def test_only_settings_that_say_how_much_may_be_named() -> None:
    named = [name for name in (*HOW_MUCH, *OPENS_THE_MACHINE, *NO_SETTING) if may_be_set(name)]
    assert named == [*HOW_MUCH]
    changes = ("restart", "live", "restart")  # what a listener takes when it begins needs a restart
    asked = ("net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog", "net.ipv4.never_heard_of")
    assert tuple(map(kernel_change, asked)) == changes


# mistakes about servers, reported together with a study's other mistakes by file and line


STUDY = """\
name: servers
lab:
  backend: {kit: truth, role: store, workers: 4}
  cache: {kit: truth, role: cache, of: backend, workers: "${workers}"}
  mine: {run: "./server --port ${port}", ready: GET /health}
factors:
  workers: [2, 4]
requests:
  fetch: {get: http://cache/x, timeout: 5s}
traffic:
  crowd: {executor: constant-vus, vus: 4, request: fetch}
measure: {duration: 2s, replicates: 3}
profiles:
  elsewhere:
    lab: {backend: {kit: of-elsewhere, speed: 9}}
"""


def told(folder: Path, text: str, profile: str | None = None) -> list[tuple[int, Problem]]:
    (folder / "study.yaml").write_text(text, encoding="utf-8")
    try:
        load_study(folder, profile=profile, kits=kit_options(), check_lab=find_mistakes)
    except SvloadError as error:
        return [(int(problem.place.rpartition(":")[2]), problem) for problem in error.problems]
    return []


def test_the_study_is_sound_and_another_machines_kit_is_no_mistake_of_this_one(tmp_path: Path) -> None:
    assert told(tmp_path, STUDY) == []
    ((line, problem),) = told(tmp_path, STUDY, "elsewhere")
    assert (line, problem.code) == (15, "study-unknown-name")
    assert "of-elsewhere" in str(problem)


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("workers: 4}", "wrokers: 4}", 3, "“workers”"),
        ("workers: 4}", "workers: many}", 3, "lab.backend.workers"),
        ("role: store, ", "", 3, "role"),
        ("role: store", "role: stor", 3, "“store”"),
        ("of: backend", "of: backnd", 4, "“backend”"),
        ("role: cache, of: backend", "role: cache", 4, "`of`"),
        ("workers: 4}", "workers: 4, tls: stunnel}", 3, "no such TLS front"),
        ("workers: 4}", "workers: 4, tls: 5}", 3, "terminate TLS"),
        ("workers: 4}", "workers: 4, service_time: 2}", 3, "unit is missing"),
        ("workers: 4}", "workers: 4, memory: 1 GB/s}", 3, "does not fit"),
        ("workers: 4}", "workers: 4, memory: 1 gb}", 3, "Write “1 GB” or “1 GiB”."),
        ("kit: truth, role: store", "kit: truht, role: store", 3, "“truth”"),
        ('run: "./server --port ${port}", ready: GET /health', "kit: external", 5, "needs “at”"),
        ("workers: 4}", "workers: 4, link: 10 Mbit/s}", 3, "lab.backend.link"),
        ("workers: 4}", "workers: 4, link: {latency: 20 s}}", 3, "lab.backend.link"),
        ("workers: 4}", "workers: 4, link: {speed: 10 Mbit/s}}", 3, "lab.backend.link"),
        ("workers: 4}", "workers: 4, disk_rate: 10 MB/s}", 3, "disk_rate"),
        ("workers: 4}", "workers: 4, disk_rate: {reads: 10 MB/s}}", 3, "disk_rate"),
        ("workers: 4}", "workers: 4, disk_rate: {read: 10 MB}}", 3, "disk_rate"),
        ("workers: 4}", "workers: 4, disk_rate: {}}", 3, "disk_rate"),
        ("[2, 4]", "[2, -4]", 4, "-4"),
        ("GET /health", "POST /health", 5, "GET and a path"),
    ],
)
def test_one_mistake_among_the_servers(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    assert STUDY.count(old) == 1
    ((found, problem),) = told(tmp_path, STUDY.replace(old, new))
    assert found == line
    assert says in str(problem)


def test_they_are_reported_beside_mistakes_that_keep_cases_from_being_made(tmp_path: Path) -> None:
    """Each of the other mistakes prevents resolving any case; options used to be checked after that."""
    text = STUDY
    for old, new in (
        ("workers: 4}", "wrokers: 4}"),
        ("of: backend", "of: backnd"),
        ("timeout: 5s", "timeout: 5"),
        ("vus: 4", 'vus: "${worker}"'),
        ("duration: 2s", "duration: soon"),
        ("[2, 4]", "[]"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    assert [line for line, _ in told(tmp_path, text)] == [3, 4, 7, 9, 11, 12]


@pytest.mark.parametrize(
    ("sysctl", "link", "own"),
    [({}, False, False), ({"vm.swappiness": "1"}, False, False), ({"net.core.somaxconn": "77"}, False, True), ({}, True, True)],
)  # fmt: skip
def test_a_setting_of_the_network_or_a_link_needs_an_own_network(sysctl: Any, link: bool, own: bool) -> None:
    options = {"link": {"rate": "5 MB/s"}} if link else {}
    case: Any = SimpleNamespace(sysctl=sysctl, services=[SimpleNamespace(options=options)])
    assert needs_own_network(case) == own
