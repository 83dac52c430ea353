"""Keeps the Rust lock file free of registry addresses.

``engine/Cargo.lock.in`` is ``Cargo.lock`` with a token in place of every source line; ``engine/Cargo.lock``
is made from it with the line that this machine's cargo writes.

    cargo_lock.py write    Cargo.lock.in -> Cargo.lock (before a build)
    cargo_lock.py relock   resolve again, Cargo.lock -> Cargo.lock.in (after a change of a Cargo.toml;
                           UPGRADE=1 in the environment takes newer versions)
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ENGINE = Path(__file__).resolve().parent.parent / "engine"
LOCK = ENGINE / "Cargo.lock"
TEMPLATE = ENGINE / "Cargo.lock.in"
TOKEN = "source = @REGISTRY@"
SOURCE = re.compile(r'^source = ".*"$', re.MULTILINE)


def learn_source_line() -> str:
    """Return the source line of this machine's registry, from the lock of a throw-away crate with one
    dependency."""
    with tempfile.TemporaryDirectory() as folder:
        crate = Path(folder)
        (crate / "src").mkdir()
        (crate / "src" / "lib.rs").touch()
        (crate / "Cargo.toml").write_text(
            '[package]\nname = "learn"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\ncfg-if = '
            '"1"\n[workspace]\n'
        )
        cargo("generate-lockfile", cwd=crate)
        lines = set(SOURCE.findall((crate / "Cargo.lock").read_text()))
    if len(lines) != 1:
        raise SystemExit(f"cargo_lock: cargo wrote {len(lines)} kinds of source line, expected one")
    return lines.pop()


def cargo(*words: str, cwd: Path) -> None:
    """Run cargo; its output goes to stderr, and its failure ends the script."""
    done = subprocess.run(
        ["cargo", *words],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        timeout=600,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise SystemExit(f"cargo {words[0]} failed:\n{done.stderr}")


def template_of(lock: str) -> str:
    """Return the lock with every source replaced by the token; refuse a source that the token cannot
    represent."""
    lines = set(SOURCE.findall(lock))
    if len(lines) > 1:
        raise SystemExit(
            f"cargo_lock: {len(lines)} kinds of source in one lock; crates may come from the registry alone"
        )
    return SOURCE.sub(TOKEN, lock)


def write() -> None:
    """Write Cargo.lock; do not touch it if its content would be the same, so that nothing is rebuilt."""
    template = TEMPLATE.read_text()
    now = LOCK.read_text() if LOCK.exists() else ""
    if SOURCE.search(now) and template_of(now) == template:
        return
    LOCK.write_text(template.replace(TOKEN, learn_source_line()) if TOKEN in template else template)


def relock() -> None:
    """Resolve the dependencies of the Cargo.toml files (keeping pins that still fit) and write the
    template."""
    if TEMPLATE.exists():
        write()
    if LOCK.exists():
        cargo("update", *([] if os.environ.get("UPGRADE") else ["--workspace"]), cwd=ENGINE)
    else:
        cargo("generate-lockfile", cwd=ENGINE)
    TEMPLATE.write_text(template_of(LOCK.read_text()))


if __name__ == "__main__":
    verbs = {"write": write, "relock": relock}
    if len(sys.argv) != 2 or sys.argv[1] not in verbs:
        raise SystemExit(__doc__)
    verbs[sys.argv[1]]()
