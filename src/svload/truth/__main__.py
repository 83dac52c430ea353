"""Read the configuration, serve until SIGTERM or SIGINT, and report errors in one line."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType

BAD_CONFIG = 2


def main(arguments: list[str] | None = None) -> int:
    """Serve until ended by a signal. Return 0, or 2 if it could not start, with the reason in one line on
    stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m svload.truth", description="A server whose behaviour is exactly known."
    )
    parser.add_argument("--config", type=Path, required=True, help="JSON file that says what to be")
    parser.add_argument(
        "--ready-fd", type=int, default=1, help="descriptor for the JSON line that tells the ports (stdout)"
    )
    parser.add_argument("--verbose", action="store_true", help="print the final counters to stderr")
    asked = parser.parse_args(arguments)
    try:
        counters = serve(asked.config, asked.ready_fd)
    except (ImportError, OSError, ValueError) as why:
        print(f"svload.truth: {one_line(asked.config, why)}", file=sys.stderr)
        return BAD_CONFIG
    if asked.verbose:
        print(counters, file=sys.stderr)
    return 0


def serve(config: Path, ready_fd: int) -> str:
    """Run the server in this thread, which must be the main one; return its final counters as JSON.

    Raises OSError (file not readable, port taken), ValueError (invalid field), ImportError (engine not
    built).
    """
    text = config.read_text(encoding="utf-8")
    from svload._native import truth_serve  # as late as an error can still be reported in one line

    stop_fd = stop_on_signals()
    return str(truth_serve(text, ready_fd, stop_fd))


def stop_on_signals() -> int:
    """Return a descriptor that becomes readable when SIGTERM or SIGINT arrives.

    Python runs its handlers between bytecodes, so never during the one long native call; the interpreter's C
    handler writes to the wake-up descriptor immediately.
    """
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _nothing)
    return readable


def _nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing, since the byte in the pipe is the signal."""


def one_line(config: Path, why: Exception) -> str:
    """Return what went wrong, and where."""
    if isinstance(why, ImportError):
        return f"the native engine is not there ({why}). Build it: make setup."
    text = " ".join(str(why).split())
    return text if str(config) in text else f"{config}: {text}"


if __name__ == "__main__":
    sys.exit(main())
