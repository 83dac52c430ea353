"""Installation of what kits need: system packages by apt if root is available, without starting daemons."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from svload.model.errors import fail
from svload.model.outputs import write_output

_GUARD = Path("/usr/sbin/policy-rc.d")
_POLICY = "#!/bin/sh\n# written by svload lab install\nexit 101\n"
_APT = ("apt-get", "-o", "DPkg::Lock::Timeout=120", "-qq")
APT_WITHIN_S = 900.0


def apt_install(packages: Sequence[str], root: bool) -> list[str]:
    """Install `packages` alone; return what was done. Raises SvloadError tool-missing or lab-failed."""
    if not root:
        raise fail(
            "tool-missing",
            kit="the lab",
            what=", ".join(packages),
            hint=f"As root: apt-get install {' '.join(packages)}.",
        )
    with _no_daemons():
        run_installer([*_APT, "update"])
        run_installer([*_APT, "install", "-y", "--no-install-recommends", *packages])
    return [f"apt-get install {' '.join(packages)}"]


@contextmanager
def _no_daemons() -> Iterator[None]:
    """Forbid that Debian starts a daemon once it is installed, unless there is a policy-rc.d of others. One
    that a killed svload left is removed at the end too."""
    mine = not _GUARD.exists() or _GUARD.read_bytes() == _POLICY.encode()
    if mine:
        write_output(_GUARD, _POLICY, 0o755)
    try:
        yield
    finally:
        if mine:
            _GUARD.unlink(missing_ok=True)


def run_installer(argv: Sequence[str], within_s: float = APT_WITHIN_S) -> str:
    """Run an installer to its end and return its output. Raises SvloadError lab-failed with its last output."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within_s,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as why:
        raise fail(
            "lab-failed", reason=f"“{' '.join(argv)}” could not be run ({why})", hint="Install it by hand."
        ) from why
    if done.returncode != 0:
        words = " ".join((done.stderr or done.stdout).split())[-500:]
        raise fail(
            "lab-failed",
            reason=f"“{' '.join(argv)}” failed ({done.returncode}): {words}",
            hint="Fix it, then repeat.",
        )
    return done.stdout
