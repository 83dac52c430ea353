"""The client of a warm process: hands over everything that makes up a command, forwards signals, and ends as
the warm process ends.

If anything differs from this process, or fails before the warm process has accepted the command, the command
runs here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from svload.host.process.warm import SOCKET, is_own_folder, place, warm_dir

if TYPE_CHECKING:
    import socket

COMMANDS = ("load",)
"""Commands that a warm process can take over."""
TAKEN, GO = b"taken\n", b"go\n"
_ANSWER_BOUND_S = 0.5


def forward(arguments: Sequence[str]) -> int | None:
    """Return the exit code of the command (`sys.argv`) that the warm process ran; None if it did not start
    it."""
    if arguments[1:2] == [] or arguments[1] not in COMMANDS:
        return None
    if not is_own_folder() or not os.path.exists(warm_dir() / SOCKET):
        return None
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        try:
            return _wait(line) if _handed_over(line, arguments) else None
        except OSError:
            return None


def _handed_over(line: socket.socket, arguments: Sequence[str]) -> bool:
    import json
    import socket

    from svload.host.agent.unix_socket import is_own, short_path

    line.settimeout(_ANSWER_BOUND_S)
    with short_path(warm_dir(), SOCKET) as path:
        line.connect(path)
    if not is_own(line):
        return False
    message = {"place": place(), "arguments": list(arguments), "environment": dict(os.environ)}
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        text = json.dumps(message).encode() + b"\n"
        sent = socket.send_fds(line, [text], [0, 1, 2, here])
        line.sendall(text[sent:])
    finally:
        os.close(here)
    return bool(line.recv(len(TAKEN)) == TAKEN)


def _wait(line: socket.socket) -> int:
    """Start the handed-over command, forward signals, and return its exit code; if none arrives, end as a
    killed process would."""
    import signal
    import sys

    passed: list[int] = []

    def pass_on(number: int, frame: object) -> None:
        passed.append(number)
        try:
            line.send(bytes([number]))
        except OSError:
            return

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, pass_on)
    line.settimeout(None)
    line.sendall(GO)
    heard = b""
    while not heard.endswith(b"\n"):
        try:
            piece = line.recv(16)
        except OSError:
            break
        if not piece:
            break
        heard += piece
    if heard.endswith(b"\n"):
        return int(heard)
    if passed:
        signal.signal(passed[-1], signal.SIG_DFL)
        os.kill(os.getpid(), passed[-1])
    print(
        "svload: the warm process ended before the load; everything it had started was stopped",
        file=sys.stderr,
    )
    return 3
