"""Services that know each other, are built from source, have replicas, or more than one port."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.bounds import HANG_S
from tests.servers import program, wait_until

from svload.host.machine.page_cache import in_page_cache
from svload.lab import Lab, find_mistakes
from svload.lab.builds import TOOLS, source_files
from svload.lab.names import endpoints
from svload.model.errors import SvloadError
from svload.model.facts import ServiceFacts
from svload.model.study import ServiceSpec

from .conftest import spec

pytestmark = pytest.mark.truth

TELLER = program(
    """
    told = {"args": sys.argv[1:], "env": dict(os.environ), "pid": os.getpid(), "prefix": sys.prefix}
    self.answer(json.dumps(told).encode())
    """
)
Make = Callable[..., Lab]


@pytest.fixture
def lab(lab_of: Callable[..., Lab], tmp_path: Path) -> Make:
    """Return lab(**services) → a lab of commands, in a study's folder with a server."""
    (tmp_path / "teller.py").write_text(TELLER)
    return lambda **services: lab_of(*specs(**services))


def specs(**services: dict[str, Any]) -> list[ServiceSpec]:
    return [spec(name, **{"kit": "command"} | options) for name, options in services.items()]


def teller(words: str = "${port}", **options: Any) -> dict[str, Any]:
    return {"run": f"{sys.executable} teller.py {words}", **options}


def told(at: ServiceFacts | int) -> dict[str, Any]:
    """Return what a server (by its facts, or its port) was started with."""
    port = at if isinstance(at, int) else at.endpoints[0].port
    with urlopen(f"http://127.0.0.1:{port}/", timeout=HANG_S) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def refused(**services: dict[str, Any]) -> list[str]:
    return [str(one.details) for one in find_mistakes(specs(**services))]


def test_a_service_gets_the_address_of_another_and_starts_after_it(lab: Make) -> None:
    app = teller("${port} ${db.port} ${db.host}", environment={"DB": "${db.url}"})
    facts = lab(app=app, db=teller(needs=[])).up()
    port, db = facts["app"].endpoints[0].port, facts["db"].endpoints[0].port
    found = told(port)
    assert found["args"] == [str(port), str(db), "127.0.0.1"]
    assert found["env"]["DB"] == f"http://127.0.0.1:{db}"


def test_what_another_does_not_offer_is_reported_with_what_it_does(lab: Make) -> None:
    with pytest.raises(SvloadError, match=r"names \$\{db.socket\}, and db offers addresses, host, port, url"):
        lab(app=teller("${port} ${db.socket}"), db=teller()).up()


CIRCLES = [(teller(needs=["db"]), teller(needs="app")), (teller("${port} ${db.port}"), teller(needs="app"))]


@pytest.mark.parametrize(
    ("says", "services"),
    [
        ("data", {"app": teller(needs=["data"]), "db": teller()}),
        *(("circle", {"app": app, "db": db}) for app, db in CIRCLES),
        ("", {"app": teller(needs=["db"]), "db": teller()}),
        ("2 replicas, each with a port", {"app": teller("${port} ${web.port}"), "web": teller(replicas=2)}),
        ("listen on one port", {"web": teller(replicas=2, port=9000)}),
        ("forwards to one server", {"cache": {"kit": "varnish", "of": "web"}, "web": teller(replicas=2)}),
        ("", {"front": {"kit": "nginx", "of": "web"}, "web": teller(replicas=2)}),
        ("", {"cache": {"kit": "varnish", "of": "web"}, "web": teller(replicas=1)}),
    ],
)
def test_what_a_service_may_name(says: str, services: dict[str, dict[str, Any]]) -> None:
    """No other than services, no circle, and of several servers no single address."""
    found = refused(**services)
    assert any(says in one for one in found) if says else not found


def test_a_change_or_a_restart_of_a_service_restarts_those_that_name_it(lab: Make) -> None:
    app, other = teller("${port} ${db.port}"), teller()
    up = lab(app=app, db=teller(), other=other)
    up.up()
    assert up.apply(specs(app=app, db=teller("${port} anew"), other=other)) == ["app", "db"]
    before = up.facts()
    assert up.restart(["db"]) == ["app", "db"]
    changed = {name for name, facts in up.facts().items() if facts.processes != before[name].processes}
    assert changed == {"app", "db"}
    wait_until(lambda: not up.alive())


def test_further_ports_and_dialogues_have_endpoints_of_their_own(lab: Make) -> None:
    app = teller("${port},${port.admin}", ports=["admin"], ready="GET admin/health")
    known = endpoints(lab(app=app, talk=teller(tcp=True, ready="tcp")).up())
    assert set(known) == {"http://app", "http://app.admin", "tcp://talk"}
    ports = f"{known['http://app'].port},{known['http://app.admin'].port}"
    assert told(known["http://app.admin"].port)["args"] == [ports]


def test_replicas_are_servers_of_their_own_and_one_service(lab: Make) -> None:
    up = lab(web=teller("${port} ${replica}", replicas=3))
    facts = up.up()
    assert list(facts) == ["web"]
    ports = [one.port for one in facts["web"].endpoints]
    assert len(set(ports)) == 3
    assert [told(port)["args"][1] for port in ports] == ["1", "2", "3"]
    assert [one.name for one in facts["web"].processes] == ["server[1]", "server[2]", "server[3]"]
    assert endpoints(facts) == {}, "no one of them is meant by the service's name"


def test_the_number_of_replicas_may_change_and_the_others_stay(lab: Make) -> None:
    behind = teller("${port} ${web.addresses}")
    up = lab(front=behind, web=teller(replicas=1))
    first = up.up()
    assert set(endpoints(first)) == {"http://front", "http://web"}
    assert up.apply(specs(front=behind, web=teller(replicas=2))) == ["front", "web[2]"]
    facts = up.facts()
    assert facts["web"].processes[0].pid == first["web"].processes[0].pid
    addresses = ",".join(one.connects_to for one in facts["web"].endpoints)
    assert told(facts["front"])["args"][1] == addresses
    assert up.apply(specs(front=behind, web=teller(replicas=1))) == ["front"]
    assert len(up.facts()["web"].endpoints) == 1


MAKEFILE = """\
build/server: server.sh
\tmkdir -p build
\tcp server.sh build/server
\techo built >> {log}
"""
SERVER = "#!/bin/sh\nexec {python} teller.py $1\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a source that leaves a line wherever it is built."""
    target = tmp_path / "target"
    (target / "build").mkdir(parents=True)
    (target / "Makefile").write_text(MAKEFILE.format(log=tmp_path / "builds.txt"))
    (target / "server.sh").write_text(SERVER.format(python=sys.executable))
    (target / "server.sh").chmod(0o755)
    return target


def built(**options: Any) -> dict[str, Any]:
    return {"run": "${build}/server ${port}", "build": {"make": "target"}, **options}


def builds(tmp_path: Path) -> int:
    log = tmp_path / "builds.txt"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_a_source_is_built_once_and_again_when_it_changes(lab: Make, source: Path, tmp_path: Path) -> None:
    up = lab(app=built(replicas=2))
    up.up()
    assert builds(tmp_path) == 1, "two servers, one build"
    left = (source / "build" / "left", "what a build left behind is no source")
    changed = (source / "server.sh", SERVER.format(python=sys.executable) + "# another\n")
    for count, change in ((1, None), (1, left), (2, changed)):
        if change:
            change[0].write_text(change[1])
        up.restart(["app"])
        assert builds(tmp_path) == count
    up.down()
    lab(app=built(), other=built(build={"make": "target", "args": "CFLAGS=-O2"})).up()
    assert builds(tmp_path) == 3, "words for the tool are part of what is built"


def test_what_maven_leaves_in_each_module_is_no_source(tmp_path: Path) -> None:
    kept = ["pom.xml", "server/pom.xml", "server/src/target/Main.java"]
    for name in (*kept, "target/cloud/a.jar", "server/target/classes/Main.class"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    found = [path.relative_to(tmp_path).as_posix() for path in source_files(tmp_path, TOOLS["maven"])]
    assert sorted(found) == sorted(kept)


def test_the_compilers_error_is_reported(lab: Make, source: Path) -> None:
    failing = "all:\n\t@echo compiling\n\t@echo 'a.c:7: error: no such thing'; exit 1\n"
    (source / "Makefile").write_text(failing)
    with pytest.raises(SvloadError) as failed:
        lab(app=built()).up()
    (problem,) = failed.value.problems
    assert problem.code == "build-failed"
    assert "a.c:7: error: no such thing" in str(problem)
    assert "compiling" not in str(problem)
    (source / "Makefile").write_text(MAKEFILE.format(log="/dev/null"))
    lab(app=built()).up()


def test_a_build_that_does_not_end_is_ended(lab: Make, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twice = dataclasses.replace(TOOLS["make"], commands=lambda *_: [["sleep", "0.3"], ["sleep", "0.3"]])
    monkeypatch.setitem(TOOLS, "make", twice)
    with pytest.raises(SvloadError, match=r"longer than 0\.5 s"):
        lab(app=built(build_within="0.5 s")).up()


def test_what_a_build_leaves_running_is_ended(lab: Make, source: Path) -> None:
    daemon = f"sleep 600.{os.getpid()}"
    (source / "Makefile").write_text(MAKEFILE.format(log="/dev/null") + f"\tsetsid {daemon} &\n")
    lab(app=built()).up()
    found = b""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            found += file.read_bytes()
    assert daemon.encode().replace(b" ", b"\0") not in found


@pytest.mark.parametrize("where", ["nowhere", "../target", "/etc"])
def test_only_what_lies_beside_the_study_is_built(lab: Make, source: Path, where: str) -> None:
    with pytest.raises(SvloadError, match="next to the study"):
        lab(app=built(build={"make": where})).up()


def test_an_environment_for_python_is_built_of_a_requirements_file(lab: Make, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("# none\n")
    up = lab(app={"run": "${build}/bin/python teller.py ${port}", "build": {"pip": "requirements.txt"}})
    prefix = told(up.up()["app"])["prefix"]
    assert prefix != sys.prefix, "the interpreter of its own environment"
    assert (Path(prefix) / "pyvenv.cfg").exists()


def test_files_are_made_once_and_named_to_the_command(lab: Make) -> None:
    up = lab(app=teller("${port} ${files}", files={"1KB": "1 kB", "1MB": "1 MB"}))
    facts = up.up()
    folder = Path(told(facts["app"])["args"][1])
    assert {path.name: path.stat().st_size for path in folder.iterdir()} == {"1KB": 1000, "1MB": 1_000_000}
    inode = (folder / "1MB").stat().st_ino
    up.restart(["app"])
    assert (folder / "1MB").stat().st_ino == inode
    counted = up.counters()["app"].values
    assert counted["file_bytes"] == 1_001_000
    assert 0 <= counted["file_resident_bytes"] <= 1_001_000


@pytest.mark.parametrize(
    "options",
    [
        *({"ready": ready} for ready in ("GET admin/health", "tcp admin", "POST /", "GET health", "udp")),
        *({"build": one} for one in ("a", {"ninja": "a"}, {"make": "a", "pip": "b"}, {"make": 3}, {})),
        *({"files": files} for files in ({}, {"../a": "1 kB"}, {"a": "1 TB"}, {"a/b": 1}, "/etc", "../x", 3)),
        *({"files": files} for files in ("${build}/../x", "${build}", "${build}//etc")),
    ],
    ids=str,
)
def test_options_that_cannot_be_followed_are_refused(options: dict[str, Any]) -> None:
    assert refused(app=(built if "build" in str(options) else teller)(**options))


def test_a_folder_beside_the_study_may_be_its_files(lab: Make, tmp_path: Path) -> None:
    """Dropped files are in the page cache no more."""
    file = tmp_path / "data" / "a"
    file.parent.mkdir()
    file.write_bytes(bytes(3_000_000))
    up = lab(app=teller("${port}", files="data"), bare=teller())
    up.up()
    assert up.counters()["app"].values["file_bytes"] == 3_000_000
    with pytest.raises(SvloadError, match="names no files"):
        up.drop_cache(["bare"])
    file.read_bytes()
    before = in_page_cache(file.parent)
    proof = up.drop_cache(["app"])["app"]
    assert proof["files_bytes"] == 3_000_000
    assert proof["resident_before_bytes"] == before.resident_bytes > 2_900_000
    assert file.read_bytes() == bytes(3_000_000)
    with pytest.raises(SvloadError, match="no folder “other”"):
        up.apply(specs(app=teller("${port}", files="other"), bare=teller()))
    if proof["resident_after_bytes"] > 30_000:
        pytest.skip("this file system has no disk below it")


def test_files_that_its_build_made_may_be_its_files(lab: Make, source: Path) -> None:
    (source / "Makefile").write_text("all:\n\tmkdir -p made && head -c 7000 /dev/zero > made/a\n")
    text = {"run": f"{sys.executable} teller.py ${{port}} ${{files}}", "build": {"make": "target"}}
    up = lab(app={**text, "files": "${build}/made"})
    up.up()
    assert up.counters()["app"].values["file_bytes"] == 7000
    assert up.drop_cache(["app"])["app"]["files_bytes"] == 7000
    with pytest.raises(SvloadError, match="no folder “none”"):
        up.apply(specs(app={**text, "files": "${build}/none"}))
