"""What no committed file may hold, and how large a module may grow."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from tests.bounds import HANG_S

ROOT = Path(__file__).resolve().parents[2]
MODULE_LINES_MAX = 1000
SNAPSHOTS_MAX, SNAPSHOT_LINES_MAX = 60, 80

# Spelled in pieces, so that this file passes its own test.
REGISTRIES = (
    "pypi" + ".org",
    "python" + "hosted.org",
    "crates" + ".io",
    "npm" + "js.org",
    "npm" + "js.com",
    "golang" + ".org",
    "maven" + ".org",
    "maven" + ".apache.org",
    "debian" + ".org",
)
MACHINE_PATH = re.compile(rb"(?<![\w.:/-])/(?:work|root|home)/[\w.-]+")


def committed() -> list[Path]:
    """Every file that git tracks and that is there (a link counts as what it is: a name)."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, timeout=HANG_S
    ).stdout.decode()
    paths = [ROOT / name for name in listing.split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def offences(patterns: list[re.Pattern[bytes]], paths: list[Path]) -> list[str]:
    found = []
    for path in paths:
        content = path.read_bytes()
        for pattern in patterns:
            for match in pattern.finditer(content):
                line = content.count(b"\n", 0, match.start()) + 1
                found.append(f"{path.relative_to(ROOT)}:{line}: {match.group().decode(errors='replace')}")
    return found


def test_there_are_committed_files() -> None:
    names = {path.name for path in committed()}
    assert {"Makefile", "pyproject.toml", "LICENSE"} <= names


def searched(*asked: str) -> str:
    """The lines of committed files that git finds, binary ones too; 1 is its status for nothing."""
    done = subprocess.run(
        ["git", "grep", "--text", "--line-number", *asked],
        cwd=ROOT,
        capture_output=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.decode(errors="replace")


def test_no_file_names_a_registry() -> None:
    assert searched("--word-regexp", "--fixed-strings", *(f"-e{host}" for host in REGISTRIES)) == ""
    assert "Apache" in searched("--word-regexp", "--fixed-strings", "-eApache", "LICENSE")


def test_no_file_names_a_place_on_a_machine() -> None:
    lines = searched("--extended-regexp", "/(work|root|home)/[[:alnum:]_.-]").splitlines()
    assert [line for line in lines if MACHINE_PATH.search(line.split(":", 2)[2].encode())] == []


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (b"cd /ho" + b"me/ann/svload", True),
        (b'path = "/wo' + b'rk/main"', True),
        (b"see docs/home/page and http://cache/root/x", False),
        (b"/workers/3", False),
    ],
)
def test_what_counts_as_a_place_on_a_machine(text: bytes, is_one: bool) -> None:
    assert bool(MACHINE_PATH.search(text)) is is_one


def test_locks_hold_no_address() -> None:
    locks = [*ROOT.glob("requirements/*.txt"), ROOT / "engine" / "Cargo.lock.in"]
    assert len(locks) >= 4
    assert offences([re.compile(rb".*://.*")], locks) == []


def test_every_requirement_is_pinned_and_hashed() -> None:
    for path in ROOT.glob("requirements/*.txt"):
        entries = re.split(r"\n(?=\S)", path.read_text().strip())
        assert entries
        for entry in entries:
            assert re.match(r"[a-z0-9._-]+==\S+ ", entry), f"{path.name}: {entry.splitlines()[0]}"
            assert "--hash=sha256:" in entry, f"{path.name}: {entry.splitlines()[0]}"


def test_no_module_outgrows_a_reader() -> None:
    modules = {path: len(path.read_text().splitlines()) for path in (ROOT / "src").rglob("*.py")}
    assert modules
    assert {
        str(path.relative_to(ROOT)): lines for path, lines in modules.items() if lines > MODULE_LINES_MAX
    } == {}


def test_snapshots_are_few_and_small_enough_to_read() -> None:
    """Each begins with a line `# name:`; what many repeat, or nobody reads, proves nothing by being equal."""
    found = [
        one.splitlines()
        for path in committed()
        if path.suffix == ".ambr"
        for one in path.read_text(encoding="utf-8").split("# name: ")[1:]
    ]
    assert 0 < len(found) <= SNAPSHOTS_MAX
    assert [(one[0], len(one)) for one in found if len(one) > SNAPSHOT_LINES_MAX] == []


def test_one_version() -> None:
    python = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    crates = tomllib.loads((ROOT / "engine" / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    from svload import __version__

    assert __version__ == python == crates
