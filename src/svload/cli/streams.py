"""The streams and variables that a command finds: whatever they are, no command loses its
result or its exit code by them."""

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
    """Let 0, 1 and 2 be open: in place of a closed one the next file would be it, and
    what is printed would go there."""
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
    """Let stdout and stderr outlive their reader, write `?` for a sign that their encoding lacks, and spell
    out what a terminal would obey; drop a width that is none."""
    sys.stdout, sys.stderr = _outliving(sys.stdout), _outliving(sys.stderr)
    width = os.environ.get("COLUMNS", "")
    if not width.isdecimal() or int(width) < _LEAST_WIDTH:
        os.environ.pop("COLUMNS", None)


class _Outliving(io.FileIO):
    """A descriptor that is /dev/null as soon as nobody reads it any more: its reader has
    gone, or its terminal has hung up."""

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
    """Let what is written to a descriptor go nowhere from now on."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


def _outliving(stream: object) -> io.TextIOWrapper:
    """The stream anew over the same descriptor; itself where it is none of a process's own (a test's)."""
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
