"""The guard against growth sees what it counts, and passes what is within its budget."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.studies.scripts import script

ROOT = Path(__file__).resolve().parents[2]


BUDGET = script(ROOT / "tools" / "budget.py")
USED = '"""One."""\n\n\ndef used() -> int:\n    """Return one."""\n    return 1\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A room with a module that two others import, and a command that calls it."""
    room = tmp_path / "src" / "svload" / "room"
    (room / "kits").mkdir(parents=True)
    (room / "shared.py").write_text(USED)
    for name in ("one", "two"):
        lines = [
            f"from svload.room.shared import used\n\n_{name} = used()\n",
            *(f"_V{at} = {at}\n" for at in range(60)),
        ]
        (room / f"{name}.py").write_text("".join(lines))
    return tmp_path


def test_what_is_clean_is_within_its_own_table(project: Path, tmp_path: Path) -> None:
    found, names = BUDGET.measure(project)
    assert names == []
    assert found["room"] == Counter(statements=2 + 2 * (2 + 60), lines=len(USED.splitlines()) + 2 * 63)
    BUDGET.write(found, tmp_path / "table.csv")
    assert BUDGET.excesses(found, BUDGET.read(tmp_path / "table.csv")) == []


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("three.py", "".join(f"_V{at} = {at}\n" for at in range(61)), "room: 187 statements, budget 150"),
        ("three.py", f"_V = '{'x' * 120}'\n", "room: 1 lines over 110 columns, budget 0"),
        ("three.py", "_V = 1  # fmt: " + "skip\n", "room: 1 `fmt: skip`, budget 0"),
        ("three.py", "def lonely() -> None: ...\n", "room: 1 public functions that only tests call, budget 0"),
        ("one.py", "from svload.room.two import _two\n", "room: 1 modules of at most 60 lines with one importer, budget 0"),
    ],
)  # fmt: skip
def test_what_grows_is_named(project: Path, tmp_path: Path, name: str, text: str, told: str) -> None:
    BUDGET.write(BUDGET.measure(project)[0], tmp_path / "table.csv")
    room = project / "src" / "svload" / "room"
    (room / name).write_text(text)
    assert told in BUDGET.excesses(BUDGET.measure(project)[0], BUDGET.read(tmp_path / "table.csv"))


def test_the_committed_table_has_every_room() -> None:
    rooms = {path.name for path in (ROOT / "src" / "svload").iterdir() if list(path.glob("*.py"))}
    assert rooms <= set(BUDGET.read()), "tools/budget.py --write"
