"""How commands print: results to stdout (JSON or text), progress to stderr."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from svload.model.errors import ExitCode, SvloadError, fail
from svload.model.visible import visible, visible_json

if TYPE_CHECKING:
    from svload.api import Choices, Emit, RunResult
    from svload.model.events import Event
    from svload.model.results import Findings


def print_json(value: Any) -> None:
    """Print one JSON document on stdout."""
    typer.echo(visible_json(json.dumps(value, ensure_ascii=False, indent=1, default=str)))


def leave(code: ExitCode) -> None:
    """End the command with `code`."""
    if code is not ExitCode.DONE:
        raise typer.Exit(int(code))


def choices(
    *,
    profile: str | None = None,
    seed: int | None = None,
    out: Path | None = None,
    trust: bool = False,
    changed_build: bool = False,
    authorise: Sequence[str] | None = None,
    host_settings: bool = False,
    only: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    within: str | None = None,
    plant: str | None = None,
    wait: bool = True,
    wait_quiet: str | None = None,
    inventory: Path | None = None,
    scheduler: str | None = None,
) -> Choices:
    """Return what was typed in the API's form."""
    from svload.api import RUNS, Choices
    from svload.api.typed import seconds

    if out is None and RUNS.is_symlink():
        reason = f"{RUNS} is a symbolic link to {RUNS.readlink()}"
        raise fail("usage", reason=reason, hint="Name the folder for runs with --out FOLDER.")

    cases = tuple(part.strip() for part in (only or "").split(",") if part.strip())
    if only is not None and not cases:
        raise fail("usage", reason=f"--only {only} names no case", hint="Write --only TC1,TC2.")
    if inventory is not None and scheduler is not None:
        raise fail("usage", reason="--inventory and --scheduler can't be combined", hint="Use one of them.")
    return Choices(
        profile=profile,
        seed=seed,
        out=out or RUNS,
        trusted=trust,
        changed_build=changed_build,
        authorised=tuple(authorise or ()),
        host_settings=host_settings,
        only=cases,
        overrides=overrides or {},
        within_s=None if within is None else seconds(within, "--for"),
        plant=plant,
        wait_s=None if wait else 0.0,
        wait_quiet_s=quiet_seconds(wait_quiet),
        inventory=inventory,
        scheduler=scheduler or "",
    )


def quiet_seconds(text: str | None) -> float:
    """Return --wait-quiet in seconds; 0 if it was not given."""
    from svload.api.typed import seconds

    return seconds(text, "--wait-quiet") if text is not None else 0.0


@contextmanager
def live() -> Iterator[Emit]:
    """Show a live view on stderr: a screen on a terminal, plain lines elsewhere."""
    from svload.report.terminal.live import live_view

    with live_view() as view:
        yield telling(view.on_event)


@contextmanager
def load_live(lasts_s: float, quiet: bool) -> Iterator[Emit]:
    """Show the live view of one load of `lasts_s` seconds on stderr; `quiet` shows nothing."""
    if quiet:
        yield telling(lambda event: None)
        return
    from svload.report.terminal.load_live import load_view

    with load_view(lasts_s) as view:
        yield telling(view.on_event)


def telling(on_event: Emit) -> Emit:
    """Wrap `on_event` to print a line on stderr for the remains of a killed svload, whatever the view and
    even with --quiet."""

    def emit(event: Event) -> None:
        report_leftover(event)
        on_event(event)

    return emit


def report_leftover(event: Event) -> None:
    """Print a line on stderr for the remains of a killed svload; ignore all other events."""
    if event.kind == "leftover":
        typer.echo(f"svload: {event.data['text']}", err=True)


def report_problems(error: SvloadError | None) -> None:
    """Print each problem of `error`, if there is one, as a line on stderr."""
    for problem in error.problems if error is not None else ():
        typer.echo(f"svload: {problem}", err=True)


def report_damage(run: str, out: Path, trial: str | None = None) -> None:
    """Print the damage that the following output may be based on, on stderr."""
    from svload import api

    for line in api.damaged(run, out, trial):
        typer.echo(f"svload: {line}", err=True)


def show_result(result: RunResult, as_json: bool, answer: Callable[[Findings], str] | None = None) -> None:
    """Print the final table and paths (or JSON), and a line on what a quiet machine would improve; end with
    the exit code. `answer` makes the sentence that comes first."""
    from svload.report.terminal.tables import show_findings
    from svload.report.wording.ending import quieter_line

    report_problems(result.outcome.error)
    for target in result.outcome.unauthorised:
        host = target.split("://", 1)[-1].rsplit(":", 1)[0]
        typer.echo(f"svload: {fail('unauthorised-target', target=target, host=host)}", err=True)
    text = answer(result.findings) if answer is not None and result.findings is not None else ""
    if as_json:
        print_json(
            ({"answer": text} if text else {})
            | {
                "run": str(result.run.path),
                "exit_code": int(result.exit_code),
                "sealed": result.outcome.sealed,
                "planned": result.outcome.planned,
                "complete": result.outcome.complete,
                "files": {name: str(path) for name, path in result.files.items()},
                "findings": result.findings.model_dump(mode="json") if result.findings else None,
            }
        )
    elif result.findings is not None:
        if text:
            typer.echo(visible(text))
        show_findings(result.findings, result.files, code=result.exit_code)
        if line := quieter_line(result.findings):
            typer.echo(line)
    # Without a sealed trial, a resumed run would fail in the same way.
    wrong = result.exit_code is ExitCode.USAGE and not result.outcome.sealed
    if not result.outcome.complete and not wrong and result.run.lock_path.exists():
        typer.echo(
            f"{result.outcome.sealed} of {result.outcome.planned} trials are sealed. Continue with: svload "
            f"resume {result.run.path}",
            err=True,
        )
    leave(result.exit_code)
