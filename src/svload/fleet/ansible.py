"""Call Ansible: read an inventory, run a play on its machines. `played` interprets its output."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from svload.host.process.interpreter import EXECUTABLE
from svload.host.process.passing import passing_folder
from svload.model.errors import fail

PLAYS = Path(__file__).parent / "plays"
FORKS = 20
_LIST_WITHIN_S = 60
PLAY_WITHIN_S = 3600
Event = Mapping[str, Any]


def list_inventory(path: Path) -> dict[str, Any]:
    """Return `ansible-inventory --list`. Raises SvloadError fleet-inventory, tool-missing."""
    if not path.exists():
        raise fail("fleet-inventory", str(path), reason="there is no such file")
    variables = {**os.environ, **_settings()}
    strange = "ANSIBLE_CONFIG" not in variables and Path("ansible.cfg").exists()
    try:
        done = subprocess.run(
            [_program("ansible-inventory"), "-i", str(path.absolute()), "--list"],
            env=variables,
            cwd=PLAYS if strange else None,  # Ansible reads an ansible.cfg of the current folder
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIST_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        reason = f"ansible-inventory did not read it within {_LIST_WITHIN_S:g} s"
        raise fail("fleet-inventory", str(path), reason=reason) from None
    try:
        found = json.loads(done.stdout) if done.returncode == 0 else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise fail("fleet-inventory", str(path), reason=_why(done.stderr))
    return found


def play(
    name: str,
    inventory: Path,
    machines: Sequence[str],
    variables: Mapping[str, Any],
    on_event: Callable[[Event], None],
) -> None:
    """Run plays/NAME.yaml on `machines`; every event goes to `on_event`. A machine's failure is an event and
    raises nothing.

    Raises SvloadError fleet-ansible if Ansible itself failed, tool-missing without it; KeyboardInterrupt.
    """
    _program("ansible-playbook")
    import ansible_runner

    seen: set[str] = set()

    def handle(event: dict[str, Any]) -> bool:
        seen.add(str(event.get("event")))
        on_event(event)
        return False

    with passing_folder("fleet") as folder:
        run = ansible_runner.run(
            private_data_dir=str(folder),
            playbook=str(PLAYS / f"{name}.yaml"),
            inventory=str(inventory.absolute()),
            limit=",".join(machines),
            extravars=dict(variables),
            envvars={"PATH": _path(), **_settings()},
            forks=FORKS,
            quiet=True,
            timeout=PLAY_WITHIN_S,
            event_handler=handle,
        )
        if run.status == "canceled":
            raise KeyboardInterrupt
        if run.status == "timeout":
            raise fail("fleet-ansible", reason="it did not end in an hour")
        if run.status in ("failed", "error") and not seen & {"runner_on_failed", "runner_on_unreachable"}:
            output = run.stdout.read() if run.stdout is not None else ""
            raise fail("fleet-ansible", reason=_why(output))


def _settings() -> dict[str, str]:
    """Return variables for Ansible besides the user's own; the user's ansible.cfg is used wherever Ansible is
    started.

    A file that another user could have put there is not: it names plug-ins, which Ansible runs.
    """
    found = {
        "ANSIBLE_INVENTORY_UNPARSED_FAILED": "true",
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",
        "ANSIBLE_RETRY_FILES_ENABLED": "false",
        "ANSIBLE_DEPRECATION_WARNINGS": "false",
        "ANSIBLE_NOCOLOR": "true",
    }
    own = Path("ansible.cfg").absolute()
    if "ANSIBLE_CONFIG" not in os.environ and own.is_file() and _is_the_users(own):
        found["ANSIBLE_CONFIG"] = str(own)
    return found


def _is_the_users(file: Path) -> bool:
    """Return whether only this user and root may write the file and its folder."""
    facts = (file.stat(), file.parent.stat())
    return all(one.st_uid in (0, os.geteuid()) and not one.st_mode & 0o022 for one in facts)


def _path() -> str:
    return f"{Path(EXECUTABLE).parent}:{os.environ.get('PATH', os.defpath)}"


def _program(name: str) -> str:
    found = shutil.which(name, path=_path())
    if found is None:
        raise fail("tool-missing", kit="svload fleet", what=name, hint="pip install 'svload[fleet]'.")
    return found


def _why(output: str) -> str:
    """Return Ansible's description of the failure, in one line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    chosen = (
        [line for line in lines if "ERROR" in line]
        or [line for line in lines if "WARNING" not in line]
        or lines
    )
    words = chosen[0] if chosen else "Ansible did not say why"
    return words.removeprefix("[ERROR]: ").removeprefix("ERROR! ").rstrip(".")[:400]
