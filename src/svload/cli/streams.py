"""Standard streams and variables: in whatever state a command finds them, it keeps its result and exit
code."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress

from svload.model.visible import PlainStream

_NAMES = ("stdin", "stdout", "stderr")
_LEAST_WIDTH = 20


def open_descriptors() -> None:
    """Open descriptors 0, 1 and 2 if they are closed: otherwise the next file would get the number, and
    receive what is printed."""
    for number, name in enumerate(_NAMES):
        with suppress(OSError):
            os.fstat(number)
            continue
        opened = os.open(os.devnull, os.O_RDWR)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        os.set_inheritable(number, True)
        setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def sound_streams() -> None:
    """Make stdout and stderr survive the loss of their reader, write `?` for characters that their encoding
    lacks, and spell out control characters; drop an invalid COLUMNS."""
    sys.stdout, sys.stderr = _outliving(sys.stdout), _outliving(sys.stderr)
    width = os.environ.get("COLUMNS", "")
    if not width.isdecimal() or int(width) < _LEAST_WIDTH:
        os.environ.pop("COLUMNS", None)


class _Outliving(io.FileIO):
    """A descriptor that becomes /dev/null when nobody reads it any more: its reader has gone, or its terminal
    has hung up."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "wb", closefd=False)
        self._terminal = os.isatty(number)

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except BrokenPipeError:
            let_go(self.fileno())
            return len(memoryview(data))  # type: ignore[arg-type]
        except OSError as why:
            let_go(self.fileno())
            if self._terminal and why.errno == errno.EIO:
                return len(memoryview(data))  # type: ignore[arg-type]
            raise OSError(why.errno, why.strerror, _NAMES[self.fileno()]) from why


def let_go(number: int) -> None:
    """Redirect a descriptor to /dev/null."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


def _outliving(stream: object) -> io.TextIOWrapper:
    """Return a new stream over the same descriptor; the same stream if it isn't the process's own (a
    test's)."""
    if not isinstance(stream, io.TextIOWrapper) or isinstance(
        getattr(stream.buffer, "raw", None), _Outliving
    ):
        return stream  # type: ignore[return-value]
    try:
        number = stream.fileno()
    except (OSError, ValueError):
        return stream
    stream.flush()
    return PlainStream(
        io.BufferedWriter(_Outliving(number)),
        encoding=stream.encoding,
        errors="replace",
        line_buffering=stream.line_buffering or stream.write_through,
    )
