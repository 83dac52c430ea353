"""`profile: SERVICE` from study to report: the flame graph names the hot function of a small server of the
user's; without perf the run continues, and reports what is missing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest

from svload.model.stacks import Stacks
from svload.store import RunDir

from .world import World, only_run

pytestmark = pytest.mark.real
SERVER = r"""
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

__attribute__((noinline)) static unsigned long render_page(void) {
    volatile unsigned long sum = 0;
    for (unsigned long turn = 0; turn < 600000; turn++) sum += turn * turn;
    return sum;
}

int main(int count, char **words) {
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(words[count - 1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int yes = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    char asked[4096];
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 128)) return 1;
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (read(fd, asked, sizeof asked) > 0) {
            render_page();
            if (write(fd, answer, strlen(answer)) < 0) abort();
        }
        shutdown(fd, SHUT_WR);
        while (read(fd, asked, sizeof asked) > 0) {}
        close(fd);
    }
}
"""
STUDY = """\
name: pages
lab: {site: {build: {make: source}, run: "${build}/server ${port}", ready: GET /}}
profile: site
traffic: {users: {executor: constant-vus, vus: 4, connection: new, close: reset, request: GET http://site/}}
measure: {duration: 2s, replicates: 2}
"""


def test_flame_graph_names_the_hot_function(world: World, needs: Callable[..., None]) -> None:
    needs("root", "perf", "gcc")
    source = world.root / "source"
    source.mkdir()
    (source / "server.c").write_text(SERVER)
    (source / "Makefile").write_text("server: server.c\n\t$(CC) -O2 -o $@ server.c\n")
    world.run(world.study(STUDY), "--trust")
    run = RunDir(only_run(world))
    stacks = [run.trial(name).stacks for name in sorted(run.sealed_trials())]
    assert [path.exists() for path in stacks] == [True, False]
    found = Stacks.read(stacks[0])
    by_itself: Counter[str] = Counter()
    for stack, samples in found.folded.items():
        by_itself[stack.rpartition(";")[2]] += samples
    assert by_itself.most_common(1)[0][0] == "render_page"
    assert any(stack.startswith("server;") and stack.endswith(";render_page") for stack in found.folded)
    assert any(";main;render_page" in stack for stack in found.folded)
    page = (run.derived / "report.html").read_text()
    assert re.search(r"Most CPU by itself: render_page \d+ %", page)
    assert re.search(r"<title>render_page: [\d.]+ % of the samples", page)
    drawing = page.partition('id="flame-graph"')[2][:200_000]
    assert "https://" not in re.sub(r"<title>[^<]*</title>", "", drawing)
    world.succeed("verify", str(run.path))
