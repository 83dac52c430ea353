"""The command line. Each command parses, calls one function of `svload.api`, and prints.

What a warm process would have loaded already is imported only if there is none.
"""

from __future__ import annotations

import sys

try:
    import errno
    import gc
    import os
    import signal
    from collections.abc import Sequence
    from typing import Any, NoReturn

    from svload.cli import streams, warm_client
    from svload.host.process.algebra import stay_single_threaded
    from svload.host.process.limits import Short, short
    from svload.host.process.signals import end_on_second, hear
except KeyboardInterrupt:
    print("svload: interrupted", file=sys.stderr)
    sys.exit(130)

_REFUSALS = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP,
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN,
)  # fmt: skip
"""Errors by which a file system or a limit of this machine refuses. Libraries that write for us report them
only in words."""


COLLECT_AFTER = 50_000
"""Threshold of Python's garbage collector: svload makes hardly any reference cycles, and with the default of
700 each command spends a tenth of its CPU before the first request on scanning what it has just imported."""


def main() -> None:
    """Run the command line, in the warm process if there is one."""
    try:
        gc.set_threshold(COLLECT_AFTER)
        streams.open_descriptors()
        code = warm_client.forward(sys.argv)
        if code is None:
            end_on_second()
            run()
    except KeyboardInterrupt:
        _say_interrupted()
    sys.exit(code)


def run() -> NoReturn:
    """Run the command line here; every failure is one clear message and its exit code, never a traceback."""
    streams.sound_streams()
    os.umask(os.umask(0o077) | 0o022)  # others must not be able to change a run
    stay_single_threaded()
    if lacking := tuple(short()):
        sys.exit(_limited(lacking))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            hear(number, signal.default_int_handler)
    try:
        import typer

        from svload.cli.app import app
        from svload.model.errors import SvloadError
    except KeyboardInterrupt:
        _say_interrupted()
    try:
        sys.exit(int(app(prog_name="svload", standalone_mode=False) or 0))
    except SvloadError as error:
        for problem in error.problems:
            print(f"svload: {problem}", file=sys.stderr)
        sys.exit(int(error.exit_code))
    except (KeyboardInterrupt, typer.Abort):
        _say_interrupted()
    except OSError as error:
        expected = error.errno in _REFUSALS or (type(error) is OSError and error.errno is None)
        sys.exit(_refused(error) if expected else _internal(error))
    except MemoryError:
        sys.exit(_out_of_memory())
    except ImportError as error:
        # The loader's message when the address space is full.
        full = any(words in str(error) for words in ("failed to map segment", "cannot allocate memory"))
        sys.exit(_out_of_memory() if full else _internal(error))
    except Exception as error:
        sys.exit(_usage(error) if hasattr(error, "format_message") else _internal(error))


def _say_interrupted() -> NoReturn:
    print("svload: interrupted", file=sys.stderr)
    sys.exit(130)


def _usage(error: Any) -> int:
    """Report typer's error about a mistyped command in one line like any other mistake (or its help, if that
    was meant)."""
    from svload.model.errors import ExitCode, fail

    text = str(error.format_message()).replace("Value error, ", "")  # pydantic's words
    if "\n" in text:
        print(text, file=sys.stderr)
    else:
        context = getattr(error, "ctx", None)
        asked = context.command_path if context else "svload"
        ours = _option_for(error, context)
        text = str(error.message) if ours else text
        hint = ours or f"Run “{asked} -h” for its options."
        print(f"svload: {fail('usage', reason=text.rstrip('.'), hint=hint)}", file=sys.stderr)
    return int(ExitCode.USAGE)


def _option_for(error: Any, context: Any) -> str:
    """Return a hint on this command's option for another load tester's name of it; empty if none is known."""
    from svload.model.other_words import OTHER_WORDS

    typed = str(getattr(error, "option_name", ""))
    word = typed.lstrip("-").replace("-", "_").lower()
    option = f"--{OTHER_WORDS.get(word, '')}".replace("_", "-")
    known = {flag for one in context.command.params for flag in one.opts} if context else set()
    return f"Write {option}." if option in known and typed not in known else ""


def _refused(error: OSError) -> int:
    """Report what the system refused for a file, a folder or a full disk: the user must fix it, and it is no
    defect."""
    from svload.model.errors import ExitCode, fail

    path = "a file" if error.filename is None else error.filename
    if os.environ.get("SVLOAD_DEBUG"):
        _print_traceback()
    problem = fail("file-refused", path=os.fsdecode(path), reason=error.strerror or error)
    print(f"svload: {problem}", file=sys.stderr)
    return int(ExitCode.LAB_FAILED)


def _limited(lacking: Sequence[Short]) -> int:
    """Report limits under which libraries would loop, crash or blame a file; nothing is started."""
    from svload.model.errors import ExitCode, fail

    for one in lacking:
        print(f"svload: {fail('limit-low', **one._asdict())}", file=sys.stderr)
    return int(ExitCode.LAB_FAILED)


def _out_of_memory() -> int:
    """Report that a memory limit of the machine or user was reached; what was sealed is on disk."""
    from svload.model.errors import ExitCode, fail

    print(f"svload: {fail('memory-short')}", file=sys.stderr)
    return int(ExitCode.LAB_FAILED)


def _internal(error: Exception) -> int:
    """Report a defect of svload: one line for the user, the traceback in a file."""
    import tempfile
    import traceback

    from svload.model.errors import ExitCode, fail

    if os.environ.get("SVLOAD_DEBUG"):
        _print_traceback()
    try:
        with tempfile.NamedTemporaryFile("w", prefix="svload-defect-", suffix=".txt", delete=False) as file:
            file.write(traceback.format_exc())
        log = file.name
    except OSError as why:
        log = f"no file, since none could be written ({why.strerror}); SVLOAD_DEBUG=1 prints them"
    problem = fail("internal", reason=f"{type(error).__name__}: {error}", log=log)
    print(f"svload: {problem}", file=sys.stderr)
    return int(ExitCode.LAB_FAILED)


def _print_traceback() -> None:
    import traceback

    traceback.print_exc()


if __name__ == "__main__":
    main()
