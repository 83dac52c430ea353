"""What no committed file may contain, and size limits of modules, snapshots and folders."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from tests.bounds import HANG_S
from tests.studies.scripts import script

ROOT = Path(__file__).resolve().parents[2]
MODULE_LINES_MAX = 1000
SNAPSHOTS_MAX, SNAPSHOT_LINES_MAX = 60, 80

# Split, so that this file passes its own test.
REGISTRIES = [
    f"{name}.org" for name in ("pypi", "python" + "hosted", "npm" + "js", "golang", "maven", "debian")
]
REGISTRIES += ["crates" + ".io", "npm" + "js.com", "maven" + ".apache.org"]
MACHINE_PATH = re.compile(rb"(?<![\w.:/-])/(?:work|root|home)/[\w.-]+")


def git(*words: str) -> str:
    """Return the output of git in the project; its status 1 means that nothing was found."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, timeout=HANG_S, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.decode(errors="replace")


def searched(*asked: str) -> str:
    """Return the lines of committed files that git finds, binary ones too."""
    return git("grep", "--text", "--line-number", *asked)


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
    assert [path.name for path in locks if "://" in path.read_text()] == []


def test_every_requirement_is_pinned_and_hashed() -> None:
    for path in ROOT.glob("requirements/*.txt"):
        for entry in re.split(r"\n(?=\S)", path.read_text().strip()):
            pinned = re.match(r"[a-z0-9._-]+==\S+ ", entry) and "--hash=sha256:" in entry
            assert pinned, f"{path.name}: {entry.splitlines()[0]}"


def test_no_module_outgrows_a_reader() -> None:
    modules = {path: len(path.read_text().splitlines()) for path in (ROOT / "src").rglob("*.py")}
    assert modules
    assert [(str(path), lines) for path, lines in modules.items() if lines > MODULE_LINES_MAX] == []


def test_snapshots_are_few_and_small_enough_to_read() -> None:
    """Each begins with a line `# name:`; snapshots that repeat each other, or that nobody reads, prove
    nothing."""
    found = [
        one.splitlines()
        for name in git("ls-files", "*.ambr").splitlines()
        for one in (ROOT / name).read_text(encoding="utf-8").split("# name: ")[1:]
    ]
    assert 0 < len(found) <= SNAPSHOTS_MAX
    assert [(one[0], len(one)) for one in found if len(one) > SNAPSHOT_LINES_MAX] == []


def test_one_version() -> None:
    python = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    crates = tomllib.loads((ROOT / "engine" / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    from svload import __version__

    assert __version__ == python == crates


BUDGET = script(ROOT / "tools" / "budget.py")
USED = '"""One."""\n\n\ndef used() -> int:\n    """Return one."""\n    return 1\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a room with a module that two others import, and a command that calls it."""
    room = tmp_path / "src" / "svload" / "room"
    (room / "kits").mkdir(parents=True)
    (room / "shared.py").write_text(USED)
    for name in ("one", "two"):
        lines = "".join(f"_V{at} = {at}\n" for at in range(60))
        (room / f"{name}.py").write_text(f"from svload.room.shared import used\n\n_{name} = used()\n{lines}")
    return tmp_path


def test_what_is_clean_is_within_its_own_table(project: Path, tmp_path: Path) -> None:
    found, names = BUDGET.measure(project)
    assert names == []
    assert found["room"] == Counter(statements=2 + 2 * (2 + 60), lines=len(USED.splitlines()) + 2 * 63)
    BUDGET.write(found, tmp_path / "table.csv")
    assert BUDGET.excesses(found, BUDGET.read(tmp_path / "table.csv")) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("three.py", "".join(f"_V{at} = {at}\n" for at in range(61)), "room: 187 statements, budget 150"),
        ("three.py", f"_V = '{'x' * 120}'\n", "room: 1 lines over 110 columns, budget 0"),
        ("three.py", "_V = 1  # fmt: " + "skip\n", "room: 1 `fmt: skip`, budget 0"),
        ("three.py", "def lonely() -> None: ...\n", "room: 1 public functions that only tests call, budget 0"),
        ("one.py", "from svload.room.two import _two\n", "room: 1 modules of at most 60 lines with one importer, budget 0"),
    ],
)  # fmt: skip
def test_what_grows_is_named(project: Path, tmp_path: Path, name: str, text: str, expected: str) -> None:
    BUDGET.write(BUDGET.measure(project)[0], tmp_path / "table.csv")
    room = project / "src" / "svload" / "room"
    (room / name).write_text(text)
    assert expected in BUDGET.excesses(BUDGET.measure(project)[0], BUDGET.read(tmp_path / "table.csv"))


def test_the_committed_table_has_every_room() -> None:
    rooms = {path.name for path in (ROOT / "src" / "svload").iterdir() if list(path.glob("*.py"))}
    assert rooms <= set(BUDGET.read()), "tools/budget.py --write"
