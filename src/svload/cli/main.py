"""The command line: a door. Each command parses, calls one function of `svload.api`, and prints.

What a warm process would have loaded already is imported only when there is none.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

from svload.cli import warm_client


def main() -> None:
    """Run the command line, in the process that is kept warm for it if there is one."""
    code = warm_client.forward(sys.argv)
    if code is None:
        run()
    sys.exit(code)


def run() -> NoReturn:
    """Run the command line here; every failure is one clear message and its exit code, never a traceback."""
    import typer

    from svload.cli.app import app
    from svload.model.errors import ExitCode, SvloadError

    try:
        sys.exit(int(app(prog_name="svload", standalone_mode=False) or 0))
    except SvloadError as error:
        for problem in error.problems:
            print(f"svload: {problem}", file=sys.stderr)
        sys.exit(int(error.exit_code))
    except (KeyboardInterrupt, typer.Abort):
        print("svload: interrupted", file=sys.stderr)
        sys.exit(int(ExitCode.INTERRUPTED))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        sys.exit(_usage(error) if hasattr(error, "format_message") else _internal(error))


def _usage(error: Any) -> int:
    """What typer says of a mistyped command: one line like any other mistake (or the help, where that was meant)."""
    from svload.model.errors import ExitCode, fail

    said = str(error.format_message())
    if "\n" in said:
        print(said, file=sys.stderr)
    else:
        asked = error.ctx.command_path if getattr(error, "ctx", None) else "svload"
        hint = f"“{asked} -h” says what it takes."
        print(f"svload: {fail('usage', reason=said.rstrip('.'), hint=hint)}", file=sys.stderr)
    return int(ExitCode.USAGE)


def _internal(error: Exception) -> int:
    """A defect of svload: one line for the user, the traceback in a file beside it."""
    import tempfile
    import traceback

    from svload.model.errors import ExitCode, fail

    if os.environ.get("SVLOAD_DEBUG"):
        traceback.print_exc()
    with tempfile.NamedTemporaryFile("w", prefix="svload-defect-", suffix=".txt", delete=False) as file:
        file.write(traceback.format_exc())
    print(
        f"svload: {fail('internal', reason=f'{type(error).__name__}: {error}', log=file.name)}",
        file=sys.stderr,
    )
    return int(ExitCode.LAB_FAILED)


if __name__ == "__main__":
    main()
