"""Commands that run studies: demo, init, plan, run, resume."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any

import typer

from svload.cli.output import choices, leave, live, print_json, show_result
from svload.model.errors import ExitCode

PROFILE = typer.Option(None, "--profile", "-p", help="Which of the study's profiles to use.")
SEED = typer.Option(None, "--seed", help="Seed of the order and all random choices; default: the study's.")
OUT = typer.Option(None, "--out", help="Folder for runs; default ./runs.")
TRUST = typer.Option(
    False, "--trust", help="Allow the study to run its own commands and change what is outside its lab."
)
AUTHORISE = typer.Option(
    None, "--authorise", help="Another host that you have permission to load; repeatable."
)
HOST_SETTINGS = typer.Option(
    False,
    "--host-settings",
    help="Allow changes to settings of the whole machine (fs.file-max); they are restored afterwards.",
)
ONLY = typer.Option(None, "--only", help="Run only these cases, separated by commas.")
REPLICATES = typer.Option(None, "--replicates", min=1, help="Number of replicates, instead of the study's.")
DURATION = typer.Option(
    None, "--duration", help="Measured time per trial, such as 5s, instead of the study's."
)
NO_WAIT = typer.Option(
    False, "--no-wait", help="Fail at once if another load runs on this machine; don't wait for it."
)
WAIT_QUIET = typer.Option(
    None,
    "--wait-quiet",
    help="First wait until nothing else disturbs this machine, at most this long, such as 10m.",
)
FLEET = typer.Option(
    None,
    "--inventory",
    "-i",
    help="An Ansible inventory; its group generators generates the load (docs/fleet.md).",
)
CLUSTER = typer.Option(
    None,
    "--scheduler",
    help="A Dask scheduler, tls://HOST:PORT; its workers generate the load (docs/fleet.md).",
)
JSON = typer.Option(False, "--json", help="Print the result as JSON on stdout.")


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    for command in (demo, init, plan, run, resume):
        app.command()(command)


def measure_overrides(replicates: int | None, duration: str | None) -> dict[str, Any]:
    """Return the values that replace the study's own measure."""
    measure = {"measure.replicates": replicates, "measure.duration": duration}
    return {key: value for key, value in measure.items() if value is not None}


def demo(
    plant: str = typer.Option(
        None, "--plant", help="Plant a fault that svload must detect: no-hits, generator-limited, too-short."
    ),
    only: str = ONLY,
    seed: int = SEED,
    replicates: int = REPLICATES,
    out: Path = OUT,
    no_wait: bool = NO_WAIT,
    wait_quiet: str = WAIT_QUIET,
    json: bool = JSON,
) -> None:
    """Run the svLoad study on the built-in lab: 20 cases, no root, nothing to install. Exits with 0 when all
    trials completed."""
    from svload import api

    chosen = choices(
        profile="demo",
        seed=seed,
        out=out,
        only=only,
        plant=plant,
        wait=not no_wait,
        wait_quiet=wait_quiet,
        overrides=measure_overrides(replicates, None),
    )
    with live() as emit:
        result = api.demo(chosen, emit)
    show_result(result, json)


def init(
    target: str = typer.Argument(
        help="A URL, or the command that starts your server, such as './server --port {port}'."
    ),
    folder: Path = typer.Argument(Path(), help="The folder to write study.yaml to."),
    authorise: list[str] = AUTHORISE,
    json: bool = JSON,
) -> None:
    """Write a ten-line study for your own server. A command is started once to see that the server answers."""
    from svload import api

    path, summary = api.init(target, folder, tuple(authorise or ()), lambda text: typer.echo(text, err=True))
    if json:
        print_json({"study": str(path), "summary": summary})
        return
    where = quote(str(path.parent))
    hosts = "".join(f" --authorise {quote(host)}" for host in authorise or ())
    typer.echo(f"{summary}\nwrote {path}\nnext: svload plan {where} && svload run {where}{hosts}")


def plan(
    study: str = typer.Argument(help="The study's folder or file."),
    profile: str = PROFILE,
    seed: int = SEED,
    out: Path = OUT,
    only: str = ONLY,
    replicates: int = REPLICATES,
    duration: str = DURATION,
    authorise: list[str] = AUTHORISE,
    json: bool = JSON,
) -> None:
    """Show what a run would do: cases, duration, disk space, what each comparison can decide. Starts nothing."""
    from svload import api

    chosen = choices(
        profile=profile,
        seed=seed,
        out=out,
        only=only,
        authorise=authorise,
        overrides=measure_overrides(replicates, duration),
    )
    planned = api.plan(study, chosen)
    if json:
        print_json(planned)
    else:
        from svload.report.terminal.tables import show_plan

        show_plan(planned)
    gated = [entry for entry in planned["comparisons"] if entry["gated"] and entry["state"] != "decidable"]
    leave(ExitCode.USAGE if gated else ExitCode.DONE)


def run(
    study: str = typer.Argument(help="The study's folder or file."),
    profile: str = PROFILE,
    seed: int = SEED,
    out: Path = OUT,
    trust: bool = TRUST,
    authorise: list[str] = AUTHORISE,
    host_settings: bool = HOST_SETTINGS,
    only: str = ONLY,
    replicates: int = REPLICATES,
    duration: str = DURATION,
    within: str = typer.Option(
        None,
        "--for",
        help="With a gate or measure.until: add no block that would end after this time, such as 10m.",
    ),
    no_wait: bool = NO_WAIT,
    wait_quiet: str = WAIT_QUIET,
    inventory: Path = FLEET,
    scheduler: str = CLUSTER,
    json: bool = JSON,
) -> None:
    """Run a study: every case in randomised, replicated trials, judged and reported."""
    from svload import api

    chosen = choices(
        profile=profile, seed=seed, out=out, trust=trust, authorise=authorise, only=only, wait=not no_wait, wait_quiet=wait_quiet,
        host_settings=host_settings, overrides=measure_overrides(replicates, duration), within=within, inventory=inventory,
        scheduler=scheduler,
    )  # fmt: skip
    with live() as emit:
        result = api.run_study(study, chosen, emit)
    show_result(result, json)


def resume(
    run: str = typer.Argument(None, help="The run's folder or name; default: the newest unfinished run."),
    out: Path = OUT,
    trust: bool = typer.Option(
        False, "--trust", help="Allow a run that was made elsewhere to run commands and read files here."
    ),
    changed_build: bool = typer.Option(
        False,
        "--changed-build",
        help="Continue although programs of the study changed; leave out the trials measured before.",
    ),
    authorise: list[str] = AUTHORISE,
    host_settings: bool = HOST_SETTINGS,
    no_wait: bool = NO_WAIT,
    wait_quiet: str = WAIT_QUIET,
    inventory: Path = FLEET,
    scheduler: str = CLUSTER,
    json: bool = JSON,
) -> None:
    """Continue a run where it stopped. Sealed trials are kept as they are."""
    from svload import api

    chosen = choices(
        out=out,
        trust=trust,
        changed_build=changed_build,
        authorise=authorise,
        host_settings=host_settings,
        wait=not no_wait,
        wait_quiet=wait_quiet,
        inventory=inventory,
        scheduler=scheduler,
    )
    with live() as emit:
        result = api.resume(run, chosen, emit)
    show_result(result, json)
