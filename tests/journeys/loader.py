"""`python loader.py DOOR`: load svload once, then run every command requested over the socket DOOR in a fork.

It ends when the socket's other end is closed, for whatever reason.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

sys.path.append(os.path.dirname(__file__))
import killer

from svload.cli.warm_keeper import LOADED, carry_out, take_over
from svload.host.process.algebra import stay_single_threaded

REQUEST_BYTES = 1 << 20
ALSO_LOADED = (
    "svload.api", "svload.api.studies", "svload.api.runs", "svload.analysis", "svload.report.files.write", "svload.report.page.view",
    "svload.report.sheets.workbook", "svload.store.sql", "svload.study",
)  # fmt: skip
"""Modules that a whole run needs in addition to a load's own."""


def main(door: socket.socket) -> NoReturn:
    """Answer a request (a message with the descriptors 0, 1, 2, the folder and where to report) with two
    lines: the pid, the exit code."""
    stay_single_threaded()
    for module in (*LOADED, *ALSO_LOADED):
        import_module(module)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        text, descriptors, _, _ = socket.recv_fds(door, REQUEST_BYTES, 5)
        if not text:
            os._exit(0)
        if os.fork() == 0:
            door.close()
            _stand_by(json.loads(text), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _stand_by(words: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Fork the command, and report its pid and how it ended as its parent sees it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *taken, found = descriptors
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(found)
        take_over(words, taken)
        if killer.AT in os.environ:
            killer.install()
        os._exit(carry_out())
    for descriptor in taken:
        os.close(descriptor)
    os.write(found, b"%d\n" % pid)
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):  # the caller has given up waiting
        os.write(found, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
