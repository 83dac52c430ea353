"""The tools for set-up work as documented."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.bounds import HANG_S
from tests.studies.scripts import script

ROOT = Path(__file__).resolve().parents[2]
VERBS = ["setup", "demo", "check", "test", "studies", "lint", "bench", "docs", "wheel", "clean"]


def run(
    *words: str, cwd: Path = ROOT, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    kept = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": HANG_S}
    return subprocess.run(words, cwd=cwd, env=environment, check=False, **kept)


def test_make_alone_lists_every_verb_in_a_line() -> None:
    done = run("make")
    listed = re.findall(r"^make (\w+) +\S", done.stdout, re.MULTILINE)
    assert set(VERBS) <= set(listed)


def test_preflight_names_what_is_missing_in_a_line_each(tmp_path: Path) -> None:
    for program in ("sh", "awk", "uname", "head"):
        found = shutil.which(program)
        assert found
        (tmp_path / program).symlink_to(found)
    done = run(str(ROOT / "tools" / "preflight.sh"), environment={"PATH": str(tmp_path)})
    assert done.returncode == 2
    assert done.stdout == ""
    result = done.stderr.splitlines()
    wanted = ("Python 3.11", "Rust", "C compiler", "make")
    assert len(result) == len(wanted)
    for line, what in zip(result, wanted, strict=True):
        assert what in line
        assert ": " in line, "says what to do"


def test_preflight_prints_the_python_it_chose() -> None:
    done = run(str(ROOT / "tools" / "preflight.sh"))
    assert (done.returncode, done.stderr) == (0, "")
    assert run(done.stdout.strip(), "-c", "import venv").returncode == 0


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    return Path(shutil.copy(ROOT / "tools" / "step.sh", tmp_path / "tools"))


def test_steps_print_their_time_and_keep_the_status(steps: Path) -> None:
    assert run(str(steps), "--begin").returncode == 0
    good = run(str(steps), "good", "true")
    bad = run(str(steps), "bad", "sh", "-c", "exit 7")
    total = run(str(steps), "--total")
    assert good.returncode == 0
    assert re.search(r"^step good: \d+\.\d s, \d+\.\d s of CPU$", good.stderr, re.MULTILINE)
    assert bad.returncode == 7
    assert re.search(r"^step bad: +\d+\.\d s +\d+\.\d s of CPU  FAILED$", total.stdout, re.MULTILINE)
    assert re.search(r"^step total: +\d+\.\d s +\d+\.\d s of CPU$", total.stdout, re.MULTILINE)
    assert total.returncode == 1


@pytest.mark.parametrize(
    ("apt", "ci", "code", "layers"),
    [
        (0, "", 0, "truth or look or (real and smoke)"),
        (3, "", 0, "truth or look"),
        (3, "true", 1, "truth or look or (real and smoke)"),
    ],
)
@pytest.mark.truth
def test_without_real_servers_tests_run(tmp_path: Path, apt: int, ci: str, code: int, layers: str) -> None:
    """Without root or apt their journeys are not tested, which is a failure only in CI."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("test.sh", "step.sh"):
        shutil.copy(ROOT / "tools" / name, tools)
    says = '#!/bin/sh\necho "$(basename "$0")" "$@"\n'
    stubs = {
        "env.sh": f'PATH="{tools}:$PATH"\n',
        "thrice.sh": '#!/bin/sh\n"$@"\n',
        "preflight.sh": f"#!/bin/sh\necho {sys.executable}\n",
        "cargo_lock.py": "",
        "apt-install.sh": f"#!/bin/sh\necho not here: varnishd >&2\nexit {apt}\n",
        **dict.fromkeys(("lint.sh", "beside.sh", "make", "cargo", "python"), says),
    }
    for name, text in stubs.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    done = subprocess.run(
        ["bash", tools / "test.sh"], cwd=tmp_path, env=os.environ | {"CI": ci},
        capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert f"-m (pure or {layers}) and not (timing or long)" in done.stdout
    assert ("!!! " in done.stderr) == (apt != 0)
    assert "not here: varnishd" in done.stderr


@pytest.mark.parametrize(
    ("asked", "ends", "code", "runs", "tables"),
    [
        ({}, 0, 0, ["001", "002", "004", "005"], ["002", "004", "005"]),
        ({"ONLY": "002"}, 4, 0, ["002"], ["002"]),
        ({"ONLY": "005,002"}, 1, 0, ["002", "005"], ["002", "005"]),
        ({"ONLY": "001", "PROFILE": "short"}, 0, 0, ["001"], ["001"]),
        ({}, 3, 3, ["001"], []),
        ({"ONLY": "002"}, 130, 130, ["002"], []),
        ({"ONLY": "003"}, 0, 2, [], []),
        ({"PROFILE": "long"}, 0, 2, [], []),
    ],
    ids=["all", "unbelieved", "two", "campaign", "lab", "interrupted", "no such study", "no such profile"],
)
@pytest.mark.truth
def test_studies_run_one_after_another_until_a_lab_fails(
    tmp_path: Path, asked: dict[str, str], ends: int, code: int, runs: list[str], tables: list[str]
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    shutil.copy(ROOT / "tools/studies.sh", tools)
    stubs = {
        "env.sh": f'cd "$(dirname "$0")/.."\nPATH="{tools}:$PATH"\n',
        "svload": f'#!/bin/sh\necho "SAID svload $*"\n[ "$1" != run ] || exit {ends}\n',
        "python": '#!/bin/sh\necho "SAID python $*"\n',
    }
    for name, text in stubs.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key not in ("ONLY", "PROFILE")} | asked
    done = run("bash", str(tools / "studies.sh"), cwd=tmp_path, environment=environment)
    assert done.returncode == code, done.stdout + done.stderr
    assert re.findall(r"^SAID svload run studies/(\d+)", done.stdout, re.MULTILINE) == runs
    assert re.findall(r"^SAID svload lab install studies/(\d+)", done.stdout, re.MULTILINE) == runs
    made = re.findall(
        r"^SAID python studies/(\d+)\S+/tables.py build/studies/\S+/latest --report",
        done.stdout,
        re.MULTILINE,
    )
    assert made == tables
    assert len(re.findall(rf"^exit {ends} after \d+ s: svload run ", done.stdout, re.MULTILINE)) == len(runs)
    if code == 2:
        assert len(done.stderr.splitlines()) == 1


@pytest.fixture(scope="module")
def cargo_lock() -> ModuleType:
    return script(ROOT / "tools" / "cargo_lock.py")


@pytest.fixture(scope="module")
def change_limits() -> ModuleType:
    return script(ROOT / "tools" / "change_limits.py")


def test_lock_template_refuses_a_second_source(cargo_lock: ModuleType) -> None:
    with pytest.raises(SystemExit, match="2 kinds of source"):
        cargo_lock.template_of('source = "registry+here"\nsource = "git+there"\n')


def test_lock_covers_every_crate(cargo_lock: ModuleType) -> None:
    done = run("cargo", "metadata", "--locked", "--format-version=1", "--manifest-path", "engine/Cargo.toml")
    assert done.returncode == 0, f"make relock: {done.stderr}"
    assert cargo_lock.template_of(cargo_lock.LOCK.read_text()) == cargo_lock.TEMPLATE.read_text()


SKIPPING = """
import pytest

@pytest.mark.real
def test_journey(needs):
    needs("a-server-that-no-machine-has")

def test_other():
    assert True
"""


SILENT = "import pytest\n\ndef test_it():\n    pytest.skip('not today')\n"
LOUD = ("!!! NOT TESTED: 1 test", "a-server-that-no-machine-has")


@pytest.mark.parametrize(
    ("text", "ci", "status", "says"),
    [
        (SKIPPING, "", 0, ("1 passed, 1 skipped", *LOUD)),
        (SKIPPING, "true", 1, ("1 failed, 1 passed", *LOUD)),
        (SILENT, "true", 1, ("in CI that is a failure",)),
    ],
)
@pytest.mark.truth
def test_a_skip_is_loud_and_in_ci_a_failure(
    tmp_path: Path, text: str, ci: str, status: int, says: tuple[str, ...]
) -> None:
    sample(tmp_path, text)
    environment = dict(os.environ, CI=ci)
    done = run(sys.executable, "-m", "pytest", "-q", str(tmp_path), cwd=tmp_path, environment=environment)
    assert done.returncode == status, done.stdout
    assert all(words in done.stdout for words in says)


@pytest.mark.parametrize(("good_at", "code", "times"), [(1, 0, 1), (3, 0, 3), (4, 7, 3)])
def test_a_download_is_tried_three_times(tmp_path: Path, good_at: int, code: int, times: int) -> None:
    tried = f"echo x >> tried; [ $(wc -l < tried) -ge {good_at} ] || exit 7"
    environment = os.environ | {"PAUSE_S": "0"}
    done = run(str(ROOT / "tools/thrice.sh"), "sh", "-c", tried, cwd=tmp_path, environment=environment)
    assert done.returncode == code
    assert len((tmp_path / "tried").read_text().split()) == times
    assert done.stderr.count("sh failed") == times - 1


@pytest.mark.parametrize(
    ("fails", "budget_s", "code", "made"),
    [
        ("", 1000, 0, ["test", "test-real", "test-vm"]),
        ("test-real", 1000, 1, ["test", "test-real", "test-vm"]),
        ("test", 1000, 1, ["test", "test-real", "test-vm"]),
        ("", 30, 0, ["test"]),
    ],
    ids=["all", "a later one fails", "the first fails", "no time"],
)
@pytest.mark.truth
def test_ci_runs_test_whole(tmp_path: Path, fails: str, budget_s: int, code: int, made: list[str]) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci")
    (tmp_path / "tools").mkdir()
    programs = tmp_path / "bin"
    programs.mkdir()
    stubs = {
        tmp_path / "tools/thrice.sh": '"$@"',
        programs / "make": f'echo "made $1 $(echo "$2" | tr -dc A-Z=)"; [ "$1" != "{fails}" ]',
        **{programs / name: "true" for name in ("apt-get", "cc", "qemu-system-x86_64")},
    }
    for path, text in stubs.items():
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "BUDGET_S": str(budget_s)}
    done = run(str(tmp_path / ".ci/run"), cwd=tmp_path, environment=environment)
    assert done.returncode == code, done.stdout + done.stderr
    assert re.findall(r"^made (\S+)", done.stdout, re.MULTILINE) == made
    assert re.findall(r"^made \S+ (LEFT=)", done.stdout, re.MULTILINE) == ["LEFT="] * (len(made) - 1)
    assert [name for name in ("test-real", "test-vm") if f"NOT RUN: {name}" in done.stderr] == [
        name for name in ("test-real", "test-vm") if name not in made
    ]
    assert re.findall(r"FAILED: (\S+)\n", done.stderr) == [fails] * bool(fails)


def sample(folder: Path, *files: str) -> None:
    """Make a test suite with the configuration of this one."""
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    for number, text in enumerate(files):
        (folder / f"test_{number}.py").write_text(text)


@pytest.mark.parametrize("beside", [(), ("-n", "2")], ids=["one process", "workers"])
@pytest.mark.truth
def test_what_no_time_is_left_for_is_named_and_no_failure(tmp_path: Path, beside: tuple[str, ...]) -> None:
    sample(tmp_path, "def test_one(): pass\ndef test_two(): assert False\n")
    environment = os.environ | {"CI": "true"}
    done = run(
        sys.executable, "-m", "pytest", *beside, "--left", "0", str(tmp_path), cwd=tmp_path, environment=environment
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "not run: test_0.py::test_two: no time was left" in done.stdout
    assert re.search(r"= 2 not run in ", done.stdout)


@pytest.mark.truth
def test_a_seed_chooses_the_order_of_the_files_and_is_printed(tmp_path: Path) -> None:
    sample(tmp_path, *["def test_a(): pass\ndef test_b(): pass\n"] * 6)
    orders = []
    for seed in ("1", "1", "2"):
        done = run(sys.executable, "-m", "pytest", "-v", "--shuffle", seed, "-p", "no:randomly", cwd=tmp_path)
        assert f"order of the files: seed {seed}" in done.stdout
        orders.append(re.findall(r"^test_(\d)\.py::test_(\w)", done.stdout, re.MULTILINE))
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])
    assert [letter for _, letter in orders[0]] == ["a", "b"] * 6, "a file's tests stay together"


LEFT_OUT = """
import pytest

def test_of_a_clock():
    pass

test_of_a_clock = pytest.mark.timing(test_of_a_clock)

def test_other():
    pass
"""


@pytest.mark.parametrize("beside", [(), ("-n", "2")], ids=["one process", "workers"])
@pytest.mark.parametrize("asked", [(), ("-m", "pure and not timing")], ids=["plain", "selected"])
@pytest.mark.truth
def test_timing_tests_are_left_out(tmp_path: Path, beside: tuple[str, ...], asked: tuple[str, ...]) -> None:
    sample(tmp_path, LEFT_OUT)
    done = run(sys.executable, "-m", "pytest", *beside, *asked, str(tmp_path), cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "left out: 1 timing tests (make test-timing)" in done.stdout
    assert "1 passed" in done.stdout


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "benches").glob("*.py")))
def test_a_bench_finds_what_it_imports(name: str) -> None:
    """Benches run on a quiet machine only, so nothing else would detect that a fixture of the tests is
    missing."""
    importlib.import_module(f"benches.{name}")


def test_a_limit_is_changed_by_a_third_either_way(change_limits: ModuleType) -> None:
    limits = {
        "SHARE": 0.3,
        "NEAR_1": 0.99,
        "PAIRS": (3, 1.5),
        "LEAST": {0.5: 6},
        "FEW": 1,
        "NAME": "x",
        "small": 3,
    }
    found = {what: value for _, what, value in change_limits.changes(limits)}
    assert found == {
        "SHARE lower": pytest.approx(0.2), "SHARE higher": pytest.approx(0.4),
        "NEAR_1 lower": pytest.approx(1 - 0.02 / 3), "NEAR_1 higher": pytest.approx(1 - 0.04 / 3),
        "PAIRS[0] lower": (2, 1.5), "PAIRS[1] lower": (3, 1.0), "PAIRS[0] higher": (4, 1.5), "PAIRS[1] higher": (3, 2.0),
        "LEAST lower": {0.5: 4}, "LEAST higher": {0.5: 8}, "FEW lower": 0, "FEW higher": 2,
    }  # fmt: skip
