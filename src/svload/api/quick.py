"""Without a study of one's own: a first look, one transfer, the machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from svload.api.studies import Choices, load_lock
from svload.api.words import authority, writing
from svload.model.errors import fail
from svload.study.quick import header_of


def init(target: str, folder: Path, authorised: tuple[str, ...] = ()) -> tuple[Path, str]:
    """Write study.yaml for a URL or a command into `folder` (made if absent); its path and what one look at the server said."""
    from svload import study
    from svload.run.trust import trust
    from svload.store import write_text

    path = folder / "study.yaml"
    if path.exists():
        raise fail("usage", reason=f"{path} is there already", hint="Name another folder.")
    text = study.init_study(target)
    said = f"a study that starts “{target}”"
    if "{at: " in text:
        row = probe(target, 1, (), None, authorised, False)[0]
        said = f"{target} answered {row['http_code']} in {row['time_total'] * 1e3:.1f} ms ({row['size_download']} bytes)"
        if row["error"]:
            said = f"{target} did not answer ({row['error']}); the study is written all the same"
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    trust(path)
    return path, said


def probe(
    url: str,
    count: int,
    headers: Sequence[str],
    ca_file: Path | None,
    authorised: tuple[str, ...],
    keep_alive: bool,
) -> list[dict[str, Any]]:
    """curl's eleven variables of `count` transfers, one after another. Raises SvloadError."""
    from svload.drive import quick

    if any(sign.isspace() for sign in url):
        raise fail("usage", reason=f"the URL “{url}” holds a space", hint="Write it as %20.")
    pairs = [header_of(header) for header in headers]
    ca_pem = authority(_read_text(ca_file), ca_file) if ca_file else None
    return quick.probe(url, count, pairs, ca_pem, authorised, "keep-alive" if keep_alive else "new")


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as why:
        raise fail("usage", reason=f"{path} cannot be read ({why.strerror})", hint="") from why


def doctor(study_path: str | None, profile: str | None, *, anew: bool = False) -> dict[str, Any]:
    """What this machine is and carries, its instrument certificate, and what a study would miss here.

    Keys: `machine`, `instrument` (null: none), `problems` (sentences). Loopback and timers are measured once a boot, or `anew`.
    """
    from svload import host, lab, run, study
    from svload.host import certificates
    from svload.host.conditions import machine
    from svload.host.preflight import preflight
    from svload.host.warm import warm_state

    problems: list[str] = []
    if study_path:
        lock = load_lock(study_path, Choices(profile=profile))
        config = study.resolve(lock, lock.valid_cases[0])
        problems = [str(problem) for problem in lab.check(config.services, host.cache_dir())]
        configs = [study.resolve(lock, case) for case in lock.valid_cases]
        problems += [str(problem) for problem in run.misfits(configs, machine())]
    figures = preflight(anew=anew)
    certificate = certificates.instrument()
    warm = warm_state()
    kept = {"warm process": f"until {warm['until']}; “svload warm --end” ends it"} if warm else {}
    return {
        "machine": host.describe_machine(figures) | kept,
        "instrument": certificate.model_dump(mode="json") if certificate else None,
        "problems": problems,
    }
