"""A server that still works for users who gave up must come to rest before the next trial begins."""

from __future__ import annotations

import sys

import pytest

from svload.store import RunDir, read_events, read_trial

from .world import World, only_run

pytestmark = pytest.mark.truth
SERVER = """\
#!{python}
import http.server, sys, time


class Slow(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        ends = time.process_time() + {cpu_s}
        while time.process_time() < ends:
            pass
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


http.server.HTTPServer.request_queue_size = 64
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Slow).serve_forever()
"""
STUDY = """\
name: drain
lab:
  web: {{run: "{server} ${{port}}"}}
traffic:
  people: {{executor: constant-vus, vus: 4, request: {{get: "http://web/", timeout: {timeout}}}}}
measure: {{duration: 0.5s, replicates: 2}}
"""


@pytest.mark.parametrize(("cpu_s", "waits"), [(0.2, True), (0.0, False)])
def test_what_timed_out_is_waited_for(world: World, cpu_s: float, waits: bool) -> None:
    server = world.root / "server"
    server.write_text(SERVER.replace("{python}", sys.executable).replace("{cpu_s}", str(cpu_s)))
    server.chmod(0o755)
    world.run(world.study(STUDY.format(server=server, timeout="300 ms" if waits else "60 s")), "--trust")
    run = RunDir(only_run(world))
    assert len(run.sealed_trials()) == 2
    for name in run.sealed_trials():
        (people,) = read_trial(run.trial(name).path).summary.groups
        assert ("timeout_first_byte" in people.errors) is waits
        found = read_events(run.trial(name).events).events
        phases = {
            one.data["name"]: one.data.get("seconds", 0.0) for one in found if one.kind == "trial-phase"
        }
        assert ("drain" in phases) is waits
        notices = [one.data["text"] for one in found if one.kind == "notice"]
        # How long they work on, and so whether a notice appears, depends on the machine.
        assert waits or not any("the servers worked on for" in text for text in notices), notices
