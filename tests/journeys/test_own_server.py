"""A user's own server in two minutes: init, plan, run, load, probe."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.servers import Answering, certified, program, serving

from .world import World, assert_valid

pytestmark = pytest.mark.truth
GREETER = program(
    "self.answer(greeting)",
    before="""
    import argparse
    from pathlib import Path
    options = argparse.ArgumentParser()
    options.add_argument("--port", required=True)
    options.add_argument("--greeting", type=Path)
    asked = options.parse_args()
    greeting = asked.greeting.read_bytes() if asked.greeting else b""
    sys.argv[1:] = [asked.port]
    """,
)
LOAD_FIELDS = {
    "due", "begun", "waiting", "dropped", "requests", "ok", "failed", "in_flight", "errors", "duration_s",
    "throughput_rps", "bytes_received", "response_ms", "ok_response_ms", "service_ms", "generator_lag_ms", "cpu_s",
    "server",
}  # fmt: skip
TIMES = ("mean", "p50", "p90", "p95", "p99", "p99.9", "max")
QUICK = ("--replicates", "2", "--duration", "0.2s")


@pytest.mark.smoke
def test_a_url_becomes_a_ten_line_study_that_runs(world: World, truth: dict[str, int]):
    url = f"http://127.0.0.1:{truth['http_port']}"
    made = world.succeed("init", url, "mine")
    assert "answered" in made.stdout
    text = (world.root / "mine" / "study.yaml").read_text()
    assert len([line for line in text.splitlines() if not line.startswith("#")]) <= 10
    planned = world.succeed("plan", "mine")
    assert "6 trials" in planned.stdout
    assert list(world.runs.iterdir()) == []
    trials = world.run("mine", *QUICK)["trials"]
    assert len(trials) == 2
    assert_valid(trials[0], "accounting")
    again = world.svload("init", url, "mine")
    assert again.returncode == 2
    assert "already exists" in again.stderr


def own_server(world: World) -> None:
    """Write a user's server to their current folder, which greets with the content of its --greeting file."""
    server = world.root / "server"
    server.write_text(GREETER)
    server.chmod(0o755)
    (world.root / "conf").mkdir()
    (world.root / "conf" / "greeting.txt").write_text("hello")


COMMANDS = [
    ("./server --port {port} --greeting conf/greeting.txt", "../server --port ${port} --greeting ../conf/greeting.txt", 5),
    ("./server --port {port} --greeting=conf/greeting.txt", "../server --port ${port} --greeting=../conf/greeting.txt", 5),
    ("HERE/server --port {port}", "HERE/server --port ${port}", 0),
    ("server --port {port}", "../server --port ${port}", 0),
    ("python3 server --port {port} --greeting conf/greeting.txt", "python3 ../server --port ${port} --greeting ../conf/greeting.txt", 5),
    ("python3 -m http.server {port} --directory conf", "python3 -m http.server ${port} --directory ../conf", None),
]  # fmt: skip


@pytest.mark.parametrize("how", [("--vus", "4"), ("--rate", "200")])
def test_load_prints_a_balanced_account(world: World, truth: dict[str, int], how: tuple[str, str]):
    url = f"http://127.0.0.1:{truth['http_port']}/v1/a/c/o"
    reply: dict[str, Any] = world.json("load", url, *how, "--duration", "1s")
    assert set(reply) >= LOAD_FIELDS
    assert reply["due"] == reply["begun"] + reply["waiting"] + reply["dropped"]
    assert reply["begun"] == reply["requests"] + reply["in_flight"]
    assert reply["requests"] == reply["ok"] + reply["failed"]
    assert reply["failed"] == sum(reply["errors"].values()) == reply["requests"], (
        "there is no such object: 404"
    )
    assert tuple(reply["response_ms"]) == TIMES
    assert reply["cpu_s"] > 0
    assert reply["instrument"]["grade"] in ("VALID", "WEAK", "REFUSED")
    if how[0] == "--rate":
        assert reply["due"] in range(199, 202)


@pytest.mark.parametrize(("typed", "written", "size"), COMMANDS)
def test_a_command_runs_as_typed_here(world: World, typed: str, written: str, size: int | None):
    """README's five minutes. Whatever the study's folder, init runs the command once and shows its answer."""
    own_server(world)
    typed, written = (text.replace("HERE", str(world.root)) for text in (typed, written))
    made = world.succeed("init", typed, "s1")
    assert f'run: "{written}"' in (world.root / "s1" / "study.yaml").read_text()
    assert "GET / was answered with 200" in made.stdout
    assert size is None or f"({size} bytes)" in made.stdout
    planned = world.succeed("plan", "s1")
    assert "--trust" not in planned.stdout
    assert world.left() == []


def test_a_study_that_init_wrote_runs_from_any_folder_without_trust(world: World):
    own_server(world)
    world.succeed("init", "./server --port {port} --greeting conf/greeting.txt", "studies/s1")
    elsewhere = world.root / "elsewhere"
    elsewhere.mkdir()
    for where, study in ((world.root, "studies/s1"), (elsewhere, "../studies/s1")):
        ended = world.svload("run", study, *QUICK, "--out", str(world.runs), "--json", cwd=where)
        found = json.loads(ended.stdout)
        assert found["complete"], ended.stderr[-1500:]
        metrics = found["findings"]["trials"][0]["metrics"]
        assert metrics["users.success_rate"]["value"] == 1.0


@pytest.mark.parametrize(
    ("typed", "code", "words"),
    [
        ("./no-such-server --port {port}", 2, "There is no file ./no-such-server, neither here nor in s1"),
        ("no-such-server --port {port}", 3, "which is not installed on this machine"),
        ("./server --colour {port}", 3, "required: --port"),
        ("./server 'x", 2, "cannot be split into words"),
    ],
)
def test_a_failed_start_is_reported_and_leaves_nothing(world: World, typed: str, code: int, words: str):
    own_server(world)
    ended = world.svload("init", typed, "s1")
    assert (ended.returncode, ended.stdout) == (code, "")
    assert words in ended.stderr.splitlines()[-1]
    assert "{port" not in ended.stderr.splitlines()[-1].replace(typed, "").replace("${port}", "")
    assert not (world.root / "s1").exists()


def test_load_over_tls_is_verified(world: World, serve_truth: Callable[..., dict[str, int]], tmp_path: Path):
    authority = str(tmp_path / "ours.pem")
    ports = serve_truth(https_port=0, tls=certified(Path(authority), "localhost", "127.0.0.1"))
    for host in ("localhost", "127.0.0.1"):
        url = f"https://{host}:{ports['https_port']}/info"
        assert world.json("load", url, "--vus", "2", "-n", "10", "--ca", authority)["ok"] == 10
    unknown = world.svload("load", url, "--vus", "2", "-n", "10", "--json")
    assert (unknown.returncode, unknown.stdout) == (3, "")
    assert "answered no request: tls_untrusted" in unknown.stderr.splitlines()[-1]
    assert world.json("load", url, "-c", "2", "-n", "10", "--insecure")["ok"] == 10
    assert world.json("probe", url)[0]["error"] == "tls_untrusted"
    [row] = world.json("probe", url, "--cacert", authority)
    assert row["error"] == ""
    assert row["time_appconnect"] > row["time_connect"] > 0
    [row] = world.json("probe", url, "-k")
    assert (row["error"], row["http_code"]) == ("", 200)


NOBODY = "http://127.0.0.1:9/"


def test_an_address_without_a_server_is_reported(world: World):
    ended = world.svload("load", NOBODY, "--duration", "1s")
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "nothing answers at http://127.0.0.1:9" in ended.stderr.splitlines()[-1]
    probed = world.svload("probe", NOBODY, "--json")
    assert probed.returncode == 3
    assert json.loads(probed.stdout)[0]["error"] == "connect_refused"


class Elsewhere(Answering):
    def do_GET(self) -> None:
        moved = {"Location": f"http://localhost:{self.server.server_port}/there"}
        self.answer(b"", 302, **moved) if self.path == "/" else self.answer()


def test_a_redirect_to_localhost_is_followed_as_one_to_its_address(world: World):
    with serving(Elsewhere) as port:
        url = f"http://127.0.0.1:{port}/"
        found = world.json("load", url, "-c", "2", "-n", "10", "--follow-redirects", "3")
    assert (found["ok"], found["failed"], found["errors"]) == (10, 0, {})
