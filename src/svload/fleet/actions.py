"""`check`, `install`, `status` and `clean`: each a play on all machines of an inventory, and its results."""

from __future__ import annotations

import hashlib
import secrets
import shutil
import tarfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from svload.fleet import ansible
from svload.fleet.inventory import DEFAULT_PORT, Fleet, Member, read_inventory
from svload.fleet.machines import FleetResult, MachineReport, against
from svload.fleet.on_host import machine as machine_program
from svload.fleet.played import Played, understand
from svload.host.clock import answerer, exchange
from svload.host.clock.offset import estimate
from svload.host.process.passing import passing_folder
from svload.model.errors import Problem, fail

LIMITS: Mapping[str, str] = {"net.core.somaxconn": "65535", "net.ipv4.ip_local_port_range": "16384 60999"}
"""Settings of every machine of a fleet. Servers listen below the ports that connections use."""
_ANSWERS_FOR_S, _CLOSED_PORT_S = 300, 10
"""How long a machine answers: longer for each other whose firewall drops packets, since they are measured in turn."""
_LEFT_OUT = ("runs", "__pycache__", ".git")
Step = Callable[[str, str], None]
"""Called with a machine and a step when Ansible begins it."""


@dataclass(frozen=True)
class Package:
    """What is installed: a wheel, its pinned requirements (None: pip resolves), packages without an index."""

    wheel: Path
    requirements: Path | None = None
    wheelhouse: Path | None = None

    @staticmethod
    def find(wheel: Path | None, wheelhouse: Path | None) -> Package:
        """Return the wheel named, else the newest one in dist/; its requirements.txt is beside it. Raises
        SvloadError fleet-no-wheel."""
        named = wheel or Path("dist")
        found = sorted(named.glob("svload-*.whl"), key=_age) if named.is_dir() else [named]
        if not found or not found[-1].is_file() or found[-1].suffix != ".whl":
            raise fail("fleet-no-wheel", path=named)
        if wheelhouse is not None and not (wheelhouse.is_dir() and any(wheelhouse.iterdir())):
            raise fail(
                "usage",
                reason=f"--wheelhouse {wheelhouse} holds no packages",
                hint="Name a folder filled by pip download.",
            )
        beside = found[-1].with_name("requirements.txt")
        return Package(found[-1].absolute(), beside.absolute() if beside.is_file() else None, wheelhouse)

    @property
    def digest(self) -> str:
        """Return a digest of all that determines what is installed."""
        held = hashlib.sha256(self.wheel.read_bytes())
        if self.requirements is not None:
            held.update(self.requirements.read_bytes())
        return held.hexdigest()


def check(inventory: Path, step: Step) -> FleetResult:
    """Read every machine, measure its clock and link, one after another; changes nothing."""
    fleet, word = _fleet(inventory), secrets.token_hex(16)
    seconds = _ANSWERS_FOR_S + _CLOSED_PORT_S * len(fleet.members)
    try:
        played = _play("check", fleet, inventory, step, svload_word=word, svload_seconds=seconds)
        return FleetResult(tuple(_measured(member, played[member.name], word) for member in fleet.members))
    except BaseException:  # after Ctrl-C, the next check needs the ports
        with ThreadPoolExecutor(ansible.FORKS) as pool:
            pool.map(lambda one: exchange.tell_to_end(one.address, one.port, word), fleet.members)
        raise


def install(
    inventory: Path, package: Package, step: Step, study: Path | None = None, profile: str | None = None
) -> FleetResult:
    """Install svload on every machine and servers on those that serve; again, it changes nothing."""
    fleet = _fleet(inventory)
    with passing_folder("fleet") as folder:
        files = [package.wheel, *([package.requirements] if package.requirements else [])]
        if package.wheelhouse is not None:
            files.append(_archive(package.wheelhouse, folder / "wheelhouse.tar"))
        played = _play(
            "install", fleet, inventory, step,
            svload_files=[str(path) for path in files],
            svload_wheel=package.wheel.name,
            svload_requirements=package.requirements.name if package.requirements else "-",
            svload_wheelhouse="wheelhouse.tar" if package.wheelhouse is not None else "-",
            svload_digest=package.digest,
            svload_limits=dict(LIMITS),
            svload_study=str(_staged(study, folder / "study")) if study else "",
            svload_profile=["--profile", profile] if profile else [],
        )  # fmt: skip
    return FleetResult(tuple(_report(member, played[member.name], "set limits") for member in fleet.members))


def status(inventory: Path, step: Step) -> FleetResult:
    """Return what is installed and set on every machine."""
    return _plain_play("status", inventory, step, "look at svload")


def clean(inventory: Path, step: Step) -> FleetResult:
    """End labs, restore settings and remove svload's folder on every machine."""
    return _plain_play("clean", inventory, step, "clean")


def _plain_play(name: str, inventory: Path, step: Step, last: str) -> FleetResult:
    fleet = _fleet(inventory)
    played = _play(name, fleet, inventory, step)
    return FleetResult(tuple(_report(member, played[member.name], last) for member in fleet.members))


def _fleet(inventory: Path) -> Fleet:
    return read_inventory(ansible.list_inventory(inventory), str(inventory))


def _play(name: str, fleet: Fleet, inventory: Path, step: Step, **variables: Any) -> dict[str, Played]:
    events: list[ansible.Event] = []

    def on_event(event: ansible.Event) -> None:
        data = event.get("event_data") or {}
        if event.get("event") == "runner_on_start":
            step(str(data.get("host")), str(data.get("task")))
        events.append(event)

    programs = {
        "svload_machine": str(Path(machine_program.__file__)),
        "svload_answerer": str(Path(answerer.__file__)),
        "svload_starter": answerer.STARTER,
        "svload_default_port": DEFAULT_PORT,
    }
    ansible.play(name, inventory, fleet.names, {**programs, **variables}, on_event)
    return understand(events, fleet.names)


def _report(member: Member, played: Played, last: str) -> MachineReport:
    return MachineReport(
        member,
        facts=played.answers.get("read the machine"),
        answer=played.answers.get(last, {}),
        changed=played.changed,
        problems=tuple(played.problems),
    )


def _measured(member: Member, played: Played, word: str) -> MachineReport:
    """Return the machine with its clock and its link, as far as they can be measured from here."""
    answer = _report(member, played, "answer")
    facts = answer.facts
    if facts is None or "answer" not in played.answers:
        return answer
    try:
        with exchange.connect(member.address, member.port, word) as connection:
            stamps = exchange.ping_pong(connection)
        link = exchange.measure_link(member.address, member.port, word)
        answer = replace(answer, clock=estimate(stamps.monotonic), wall=estimate(stamps.wall), link=link)
    except OSError as why:
        details = {
            "host": member.name,
            "address": member.address,
            "port": member.port,
            "reason": why.strerror or why,
        }
        return replace(answer, problems=(*answer.problems, Problem("fleet-port-closed", details)))
    except ValueError as why:
        problem = Problem("fleet-step", {"host": member.name, "step": "clock", "reason": str(why)})
        return replace(answer, problems=(*answer.problems, problem))
    finally:
        exchange.tell_to_end(member.address, member.port, word)
    return replace(answer, problems=(*answer.problems, *against(member, facts, answer.wall)))


def _archive(folder: Path, to: Path) -> Path:
    """Return the folder's files as one archive, always with the same bytes."""
    with tarfile.open(to, "w") as archive:
        for path in sorted(folder.iterdir()):
            if path.is_file():
                archive.add(path, path.name, filter=_plain)
    return to


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o644
    return entry


def _staged(study: Path, to: Path) -> Path:
    """Copy the study's folder to `to`, without leftovers of runs. Raises SvloadError study-not-found.

    A link to one of its files becomes a file; one that leads elsewhere is left out, as no kit opens it.
    """
    source = study if study.is_dir() else study.parent
    if not (source / "study.yaml").is_file():
        raise fail("study-not-found", path=study)
    root = source.resolve()

    def left_out(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if name in _LEFT_OUT or not _is_inside(Path(folder, name), root)]

    shutil.copytree(source, to, ignore=left_out)
    return to


def _is_inside(path: Path, root: Path) -> bool:
    """Return whether it is a folder, or a file (or a link to one) below `root`."""
    if path.is_dir():
        return not path.is_symlink()
    return path.is_file() and root in path.resolve().parents


def _age(path: Path) -> float:
    return path.stat().st_mtime
