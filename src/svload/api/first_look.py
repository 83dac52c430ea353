"""First steps without a study: write one, make one transfer, inspect the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from svload.api.load import LoadFiles, place_files
from svload.api.studies import Choices, Emit, load_lock
from svload.api.typed import writing
from svload.model.errors import SvloadError, fail
from svload.model.events import Event
from svload.study.quick_load import BODY_FILE, CA_FILE, QuickLoad, header_of

Tell = Callable[[str], None]
_NO_PORT = (
    "Nothing tells it on which port svload expects it: write {{port}} where it takes the port to listen on, "
    "such as “./server --port {{port}}”, then init again."
)


def init(
    target: str, folder: Path, authorised: tuple[str, ...] = (), tell: Tell = lambda text: None
) -> tuple[Path, str]:
    """Write study.yaml for a URL or a command to `folder` (created if missing); return its path and the
    result of one request to the server.

    Paths in a command, as typed in this folder, become relative to the study's folder, where the command
    runs. The command is started once: if it does not come up, that error is raised and nothing is written.
    `tell` receives progress messages.
    """
    from svload import study

    path = folder / "study.yaml"
    if path.exists():
        raise fail("usage", reason=f"{path} already exists", hint="Name another folder.")
    study.init_study(target)  # report mistakes before anything is created
    if (url := study.url_of(target)) is None:
        return path, _init_command(study.moved(target.strip(), Path.cwd(), folder), folder, path, tell)
    row = probe(QuickLoad(target, keep_alive=False), 1, LoadFiles(), authorised)[0]
    lacks = _lacks(row, study.path_of(url))
    text = study.init_study(target, lacks)
    _write_study(path, text)
    return path, _summary(target, row, path, text, lacks)


def _init_command(command: str, folder: Path, path: Path, tell: Tell) -> str:
    from svload import run, study
    from svload.model.study import ServiceSpec

    made = [part for part in (folder, *folder.parents) if not part.exists()]
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
    tell(f"starting it once: {command} (in {folder})")
    spec = ServiceSpec(name="server", kit="command", options={"run": study.with_port(command)})
    try:
        with run.started_once(spec, folder, lambda event: tell(str(event.data["text"]))) as url:
            row = probe(QuickLoad(f"{url}/", keep_alive=False), 1, LoadFiles(), ())[0]
    except SvloadError as error:
        for part in made:
            with suppress(OSError):
                part.rmdir()
        ran = command.replace("{", "{{").replace("}", "}}")
        advice = f"It was started as “{ran}” in {folder}. Fix the command, then run init again."
        deaf = any(one.code in ("service-not-ready", "service-died") for one in error.problems)
        if deaf and "${port}" not in study.with_port(command):
            advice = f"It was started as “{ran}” in {folder}. {_NO_PORT}"
        raise SvloadError(*(replace(one, details={"remedy": advice, **one.details}) for one in error.problems)) from error  # fmt: skip
    lacks = _lacks(row, "/")
    text = study.init_study(command, lacks)
    _write_study(path, text)
    return f"“{command}” starts. " + _summary("GET /", row, path, text, lacks)


def _write_study(path: Path, text: str) -> None:
    """Write the study and trust it as the user's own: plan and run need no --trust while it is unchanged."""
    from svload.run.trust import trust
    from svload.store import write_text

    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    trust(path)


def _lacks(row: Mapping[str, Any], path: str) -> str:
    """Return what a request of the study lacks, according to the server's first answer; empty: nothing."""
    status = int(row["http_code"])
    if row["error"] or status < 400:
        return ""
    wanted = {
        401: "it requires credentials: add the headers to the request",
        403: "it requires credentials: add the headers to the request",
        405: "it needs another method there, such as POST",
    }
    advice = wanted.get(status, "use a path that exists" if status < 500 else "check its log")
    return f"It answers {status} to GET {path}, so every request would fail: {advice}."


def _summary(what: str, row: Mapping[str, Any], path: Path, text: str, lacks: str) -> str:
    if row["error"]:
        return f"{what} failed ({row['error']}); the study was written anyway."
    answer = f"{row['http_code']} in {row['time_total'] * 1e3:.1f} ms ({row['size_download']} bytes)"
    if not lacks:
        return f"{what} was answered with {answer}."
    line = next(number for number, content in enumerate(text.splitlines(), 1) if "request: " in content)
    return f"{what} was answered with {answer}. {lacks} The request is in {path}:{line}."


def probe(
    ask: QuickLoad,
    count: int,
    files: LoadFiles,
    authorised: tuple[str, ...],
    timeout_s: float = 30.0,
    emit: Emit = lambda event: None,
) -> list[dict[str, Any]]:
    """Return curl's eleven variables for each of `count` transfers of the request in `ask`, made one after
    another; `emit` receives a notice about each second. Raises SvloadError."""
    from svload.drive import probe as transfers
    from svload.drive.share.request_spec import BodySpec, TextPart
    from svload.host import passing_folder

    ask = replace(ask, has_ca_file=files.ca is not None, has_data_file=files.body is not None)
    ask.check()
    body = BodySpec(text=(TextPart(ask.data),)) if ask.data is not None else None
    with passing_folder("probe") as folder:
        place_files(files, folder)
        return transfers.probe(
            ask.url,
            count,
            [header_of(header) for header in ask.headers],
            (folder / CA_FILE).read_text("ascii", "replace") if files.ca else None,
            authorised,
            "keep-alive" if ask.keep_alive else "new",
            timeout_s,
            method=ask.verb,
            body=BodySpec(file=str(folder / BODY_FILE)) if files.body else body,
            verify=not ask.insecure,
            connect_to=ask.connect_to,
            http2=ask.http2,
            on_progress=lambda ended: emit(
                Event("notice", {"text": f"{ended:,} of {count:,} transfers have ended"})
            ),
        )


def doctor(
    study_path: str | None,
    profile: str | None,
    *,
    measure_again: bool = False,
    emit: Emit = lambda event: None,
) -> dict[str, Any]:
    """Return this machine's properties and capacity, its instrument certificate, and what a study would lack
    here.

    Keys: `machine`, `instrument` (null: none), `problems` (sentences). Loopback and timers are measured once
    per boot, or again if `measure_again`.
    """
    from svload import host, lab, run
    from svload.host.machine import kept_certificates
    from svload.host.machine.conditions import machine
    from svload.host.machine.preflight import preflight
    from svload.host.process.warm import warm_state
    from svload.run.configs import case_configs, case_labs

    run.put_back(emit)
    problems: list[str] = []
    if study_path:
        lock = load_lock(study_path, Choices(profile=profile))
        configs = list(case_configs(lock).values())
        lacks = [str(one) for specs in case_labs(lock) for one in lab.check(specs, host.cache_dir())]
        problems = list(dict.fromkeys(lacks))
        problems += [str(problem) for problem in run.misfits(configs, machine())]
    figures = preflight(measure_again=measure_again)
    certificate = kept_certificates.instrument()
    warm = warm_state()
    kept = {"warm process": f"until {warm['until']}; “svload warm --end” ends it"} if warm else {}
    return {
        "machine": host.describe_machine(figures) | kept,
        "instrument": certificate.model_dump(mode="json") if certificate else None,
        "problems": problems,
    }
