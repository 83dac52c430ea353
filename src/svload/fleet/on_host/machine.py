"""What `svload fleet` does on a machine, completely and idempotently. Only imports the standard
library, since Ansible passes it as text.

python - facts HOME               describe the machine
python - claim HOME               mark the folder as ours
python - install HOME WHEEL DIGEST REQUIREMENTS WHEELHOUSE    (file names in HOME; "-": none)
python - limits HOME JSON         set kernel settings, recording the old values first
python - status HOME              report what is installed and set
python - clean HOME               end labs, restore settings, remove the folder

Each prints one JSON object; `changed` is whether anything changed. A failure is {"problem": code, …} and exit 1.
"""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

MARK, INSTALLED, LIMITS = "svload-fleet", "installed.json", "limits.json"
PIP_WITHIN_S = 1200
_SETTINGS = Path("/proc/sys")
_NAME = re.compile(r"net(\.[a-z0-9_]+)+")
_CAP_SYS_RESOURCE = 24


class Refused(Exception):
    """A failure with its code in the catalogue."""

    def __init__(self, problem: str, **details: Any) -> None:
        super().__init__(problem)
        self.details = {"problem": problem, **details}


def facts(home: Path) -> dict[str, Any]:
    """Return what determines how much load the machine can make."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    low, high = _read("/proc/sys/net/ipv4/ip_local_port_range", "32768 60999").split()
    place = home
    while not place.exists():
        place = place.parent
    return {
        "home": str(home),
        "python": platform.python_version(),
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "open_files_soft": soft,
        "open_files": _most_open_files(hard),
        "local_ports": int(high) - int(low) + 1,
        "listen_backlog": int(_read("/proc/sys/net/core/somaxconn", "0")),
        "clock_source": _read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "root": os.geteuid() == 0,
        "free_bytes": shutil.disk_usage(place).free,
        "writable": os.access(place, os.W_OK),
        "installed": (_kept(home / INSTALLED) or {}).get("digest"),
    }


def claim(home: Path) -> dict[str, Any]:
    """Make the folder and mark it as ours; a folder that contains anything else is never taken."""
    if (home / MARK).exists():
        return {"changed": False}
    if home.exists() and any(home.iterdir()):
        raise Refused("fleet-folder", path=str(home))
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    (home / MARK).write_text("svload fleet clean removes this folder\n")
    return {"changed": True}


def install(home: Path, wheel: str, digest: str, requirements: str, wheelhouse: str) -> dict[str, Any]:
    """Install the wheel in an environment; do nothing if that very wheel is installed already."""
    if (_kept(home / INSTALLED) or {}).get("digest") == digest and _runs(home / "venv/bin/svload"):
        return {"changed": False}
    (home / INSTALLED).unlink(missing_ok=True)
    if not _runs(home / "venv/bin/pip"):
        shutil.rmtree(home / "venv", ignore_errors=True)
        _run([sys.executable, "-I", "-m", "venv", str(home / "venv")])
    with tempfile.TemporaryDirectory(dir=home) as unpacked:
        source = []
        if wheelhouse != "-":
            with tarfile.open(home / wheelhouse) as archive:
                _unpack(archive, Path(unpacked))
            source = ["--no-index", "--find-links", unpacked]
        pip = [str(home / "venv/bin/pip"), "install", "--quiet", "--no-input", "--disable-pip-version-check"]
        if requirements != "-":
            _run([*pip, *source, "--require-hashes", "-r", str(home / requirements)])
            _run([*pip, "--no-deps", "--force-reinstall", str(home / wheel)])
        else:
            _run([*pip, *source, "--force-reinstall", f"{home / wheel}[machine]"])
    version = _run([str(home / "venv/bin/svload"), "--version"]).split()[-1]
    _write(home / INSTALLED, {"digest": digest, "wheel": wheel, "version": version})
    return {"changed": True, "version": version}


def limits(home: Path, wanted: dict[str, str]) -> dict[str, Any]:
    """Set kernel settings of the network; the folder keeps the old values, written before anything is set."""
    if os.geteuid() != 0:
        return {"changed": False, "refused": sorted(wanted)}
    kept = _kept(home / LIMITS) or {}
    old, ours = (kept["old"], kept["set"]) if kept.get("where") == _where() else ({}, {})
    to_set = {name: value for name, value in wanted.items() if _normal(_setting(name)) != _normal(value)}
    if not to_set:
        return {"changed": False, "refused": []}
    for name in to_set:
        if name not in old or _normal(_setting(name)) != _normal(ours[name]):  # somebody's value since
            old[name] = _setting(name)
    _write(home / LIMITS, {"where": _where(), "old": old, "set": {**ours, **to_set}})
    refused = []
    for name, value in to_set.items():
        try:
            _path(name).write_text(value)
        except OSError:
            refused.append(name)
    return {"changed": len(refused) < len(to_set), "refused": refused}


def put_back(home: Path) -> list[str]:
    """Restore settings that still have the values we set; return their names."""
    kept = _kept(home / LIMITS)
    if kept is None or kept.get("where") != _where():
        return []
    back = []
    for name, value in kept["old"].items():
        if _normal(_setting(name)) == _normal(kept["set"][name]) != _normal(value):
            _path(name).write_text(value)
            back.append(name)
    (home / LIMITS).unlink()
    return back


def status(home: Path) -> dict[str, Any]:
    """Return what is installed, whether it runs, and which settings are ours."""
    kept, settings = _kept(home / INSTALLED), _kept(home / LIMITS)
    version = ""
    if kept is not None:
        try:
            version = _run([str(home / "venv/bin/svload"), "--version"], within_s=60).split()[-1]
        except Refused as why:
            version = f"broken: {why.details['reason']}"
    here = settings is not None and settings.get("where") == _where()
    return {
        "version": version,
        "digest": (kept or {}).get("digest"),
        "settings": {name: _setting(name) for name in settings["set"]} if here and settings else {},
    }


def clean(home: Path) -> dict[str, Any]:
    """Undo everything done here; a folder without our mark is not touched."""
    if not home.exists():
        return {"changed": False, "back": []}
    if not (home / MARK).exists():
        raise Refused("fleet-folder", path=str(home))
    if (home / INSTALLED).exists() and _runs(home / "venv/bin/svload"):
        _run([str(home / "venv/bin/svload"), "lab", "down"], within_s=120)
    back = put_back(home)
    shutil.rmtree(home)
    return {"changed": True, "back": back}


def _run(words: list[str], within_s: float = PIP_WITHIN_S) -> str:
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=within_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise Refused(
            "fleet-step", reason=f"{Path(words[0]).name} did not end within {within_s:g} s"
        ) from None
    except OSError as why:
        raise Refused("fleet-step", reason=f"{words[0]}: {why.strerror}") from None
    if done.returncode == 0:
        return done.stdout
    output = (done.stderr or done.stdout).strip()
    if "No space left" in output or "Errno 28" in output:
        raise Refused("fleet-disk-full", path=words[0])
    if (
        "No matching distribution" in output
        or "Could not find a version" in output
        or "NewConnectionError" in output
    ):
        raise Refused("fleet-no-index", reason=_last(output))
    raise Refused("fleet-step", reason=f"{Path(words[0]).name}: {_last(output)}")


def _runs(program: Path) -> bool:
    """Return whether it starts: an upgrade of the machine's Python breaks the programs of an environment."""
    try:
        _run([str(program), "--version"], within_s=60)
    except Refused:
        return False
    return True


def _unpack(archive: tarfile.TarFile, to: Path) -> None:
    """Extract its plain files into one folder (extraction filters only exist from Python 3.11.4 on)."""
    for entry in archive:
        held = archive.extractfile(entry) if entry.isfile() else None
        if held is not None:
            with held, open(to / Path(entry.name).name, "wb") as file:
                shutil.copyfileobj(held, file)


def _last(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["it printed nothing"])[-1][:300]


def _path(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise Refused("fleet-step", reason=f"{name} is not a setting of the network")
    return _SETTINGS / name.replace(".", "/")


def _setting(name: str) -> str:
    return _read(str(_path(name)))


def _normal(value: str) -> str:
    return " ".join(value.split())


def _where() -> str:
    """Return names of this boot and this network: settings belong to both."""
    return f"{_read('/proc/sys/kernel/random/boot_id')} {os.readlink('/proc/self/ns/net')}"


def _most_open_files(hard: int) -> int:
    """Return the descriptors a process may have: its hard limit, or fs.nr_open with CAP_SYS_RESOURCE."""
    most = int(_read("/proc/sys/fs/nr_open", str(hard)))
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", _read("/proc/self/status"), re.MULTILINE)
    may_raise = found is not None and bool(int(found[1], 16) >> _CAP_SYS_RESOURCE & 1)
    return most if hard == resource.RLIM_INFINITY or may_raise else hard


def _read(path: str, otherwise: str = "") -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return otherwise


def _kept(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _write(path: Path, value: dict[str, Any]) -> None:
    """Write the whole file or nothing."""
    fresh = path.with_name(f".{path.name}.new")
    with open(fresh, "w") as file:
        file.write(json.dumps(value) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


VERBS: dict[str, Callable[..., dict[str, Any]]] = {
    "facts": facts,
    "claim": claim,
    "install": install,
    "status": status,
    "clean": clean,
}


def main(words: list[str]) -> int:
    """Run one verb; its answer goes to stdout."""
    verb, home, rest = words[0], Path(words[1]).expanduser().absolute(), words[2:]
    try:
        answer = limits(home, json.loads(rest[0])) if verb == "limits" else VERBS[verb](home, *rest)
    except Refused as why:
        print(json.dumps(why.details))
        return 1
    except OSError as why:
        code = "fleet-disk-full" if why.errno == 28 else "fleet-step"
        path = str(why.filename or home)  # a failed write names no file
        print(json.dumps({"problem": code, "path": path, "reason": f"{path}: {why.strerror}"}))
        return 1
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
