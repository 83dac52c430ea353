"""The first paper's study on ten machines after a real `svload fleet install`: `python -m benches.ten [--machines 10]`.

Machines are namespaces with a sshd, a home, a clock and a /tmp of their own at three sites; nothing of svload is on them but what is installed: the wheel
that `make wheel` made, with its packages from a wheelhouse, since no index is reached from there. Then
`svload run studies/001-svload --profile machines --inventory`, `fleet status`, `fleet clean`, each one command and each timed. Held: every
trial is sealed, every machine made load, no request failed, nothing is left on any machine. Root, some 8 GB of disk.
The table is written beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.fleet.fabric import Fabric, Host, fabric

from benches.command import KEPT
from svload.store import RunDir, read_trial

ROOT = Path(__file__).resolve().parents[1]
STUDY = ROOT / "studies/001-svload"
SITES = {"brno": range(1, 5), "praha": range(5, 8), "ostrava": range(8, 11)}
TABLE = Path(__file__).with_suffix(".md")
_BOUND_S = 3600


def wheelhouse() -> Path:
    """Every package of dist/requirements.txt, fetched once."""
    folder = (KEPT / "wheelhouse").resolve()
    if not (folder / "complete").exists():
        words = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "-r",
            str(ROOT / "dist/requirements.txt"),
            "-d",
            str(folder),
        ]
        subprocess.run(words, check=True, timeout=_BOUND_S)
        (folder / "complete").touch()
    return folder


def inventory(made: Fabric) -> str:
    """All of them make load, at their sites."""
    hosts = {host.number: host for host in made.hosts}
    lines = ["generators:", "  hosts:"]
    lines += [f"    {host.name}: {{ansible_host: {host.address}}}" for host in made.hosts]
    lines += ["sites:", "  children:"]
    for site, numbers in SITES.items():
        own = [hosts[number].name for number in numbers if number in hosts]
        lines += [f"    {site}: {{hosts: {{{', '.join(f'{name}: ' for name in own)}}}}}"] if own else []
    return made.inventory("\n".join(lines) + "\n")


def said(made: Fabric, *words: str) -> tuple[subprocess.CompletedProcess[str], float]:
    """A command of svload's in the middle, and the seconds that it took."""
    begun = time.monotonic()
    done = subprocess.run(
        ["nsenter", f"--net=/run/netns/{made.middle}", sys.executable, "-m", "svload", *words],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_BOUND_S, check=False, cwd=made.folder,
        env={**os.environ, **made.own, "ANSIBLE_SSH_CONTROL_PATH_DIR": str(made.folder / "cp")},
    )  # fmt: skip
    took_s = time.monotonic() - begun
    print(f"svload {' '.join(words[:2])}: exit {done.returncode}, {took_s:.0f} s", flush=True)
    if done.returncode not in (0, 4):
        raise SystemExit(done.stdout[-2000:] + done.stderr[-3000:])
    return done, took_s


def measured(run: RunDir) -> dict[str, Any]:
    """What its trials tell."""
    machines: set[str] = set()
    failed = ok = 0
    for name in run.sealed_trials():
        summary = read_trial(run.trial(name).path).summary
        machines |= {part.place for part in summary.places if part.kind == "machine"}
        for group in summary.groups:
            ok, failed = ok + group.ok, failed + group.failed
    return {"machines": sorted(machines), "ok": ok, "failed": failed, "trials": len(run.sealed_trials())}


def main() -> int:
    """Print and write the table; 1 where something is not kept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machines", type=int, default=10)
    told = parser.parse_args()
    house, wheel = str(wheelhouse()), next((ROOT / "dist").glob("svload-*.whl"))
    hosts = [
        Host(f"h{number}", number, 1_000 * number, own_tmp=True) for number in range(1, told.machines + 1)
    ]
    steps: list[tuple[str, float]] = []
    with fabric(hosts) as made:
        where = inventory(made)
        for words in (
            ("fleet", "check", "-i", where),
            ("fleet", "install", "-i", where, "--wheel", str(wheel), "--wheelhouse", house),
            ("run", str(STUDY), "--profile", "machines", "-i", where, "--json"),
            ("fleet", "status", "-i", where),
            ("fleet", "clean", "-i", where),
        ):
            done, took_s = said(made, *words)
            steps.append(
                (
                    f"`svload {' '.join(words[:2]) if words[0] == 'fleet' else 'run studies/001-svload --profile machines'}`",
                    took_s,
                )
            )
            if words[0] == "run":
                found = measured(RunDir(made.folder / json.loads(done.stdout)["run"]))
                verdicts = json.loads(done.stdout)
        left = [host.name for host in hosts if (made.home(host) / ".svload-fleet").exists()]
    planned = int(verdicts["planned"])
    kept = (
        not left
        and found["trials"] == planned
        and len(found["machines"]) == told.machines
        and not found["failed"]
    )
    lines = [
        "# The first paper's study on ten machines\n",
        f"`python -m benches.ten`: {told.machines} machines (namespaces of one guest) at three sites, each with what `svload fleet install` put there from a wheelhouse.\n",
        "| step | seconds |",
        "|---|---|",
        *(f"| {name} | {took_s:.0f} |" for name, took_s in steps),
        f"\n{found['trials']} of {planned} trials sealed; load by {len(found['machines'])} machines; {found['ok']:,} requests ok, {found['failed']} failed; "
        f"left on the machines after clean: {', '.join(left) or 'nothing'}. {'All kept.' if kept else '**Not all kept.**'}\n",
    ]
    print("\n".join(lines))
    TABLE.write_text("\n".join(lines), encoding="utf-8")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
