"""The tools for set-up work as documented."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.servers import completed
from tests.studies.scripts import script

ROOT = Path(__file__).resolve().parents[2]
VERBS = ["setup", "demo", "check", "test", "studies", "lint", "bench", "docs", "wheel", "clean"]


def run(*words: str | Path, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    return completed(words, cwd=cwd, env=os.environ | variables)


def stub(folder: Path, texts: dict[str, str]) -> Path:
    """Write programs of the shell, or scripts that are read; return the folder."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    return folder


def test_make_alone_lists_every_verb_in_a_line() -> None:
    assert set(VERBS) <= set(re.findall(r"^make (\w+) +\S", run("make").stdout, re.MULTILINE))


def test_preflight_names_what_is_missing_in_a_line_each(tmp_path: Path) -> None:
    for program in ("sh", "awk", "uname", "head"):
        found = shutil.which(program)
        assert found
        (tmp_path / program).symlink_to(found)
    done = completed([ROOT / "tools" / "preflight.sh"], env={"PATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    said = [line.partition(": ") for line in done.stderr.splitlines()]
    wanted = ("Python 3.11", "Rust", "C compiler", "make")
    assert len(said) == len(wanted)
    assert all(name in line[0] and line[2] for name, line in zip(wanted, said, strict=True)), done.stderr


def test_preflight_prints_the_python_it_chose() -> None:
    done = run(ROOT / "tools" / "preflight.sh")
    assert (done.returncode, done.stderr) == (0, "")
    assert run(done.stdout.strip(), "-c", "import venv").returncode == 0


def test_steps_print_their_time_and_keep_the_status(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    steps = Path(shutil.copy(ROOT / "tools" / "step.sh", tmp_path / "tools"))
    words = (("--begin",), ("good", "true"), ("bad", "sh", "-c", "exit 7"), ("--total",))
    done = [run(steps, *one) for one in words]
    assert [one.returncode for one in done] == [0, 0, 7, 1]
    assert re.search(r"^step good: \d+\.\d s, \d+\.\d s of CPU$", done[1].stderr, re.MULTILINE)
    for row in (r"bad: +\d+\.\d s +\d+\.\d s of CPU  FAILED", r"total: +\d+\.\d s +\d+\.\d s of CPU"):
        assert re.search(f"^step {row}$", done[3].stdout, re.MULTILINE)


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
    says = 'echo "$(basename "$0")" "$@"'
    stubs = {
        "env.sh": f'PATH="{tmp_path}/tools:$PATH"',
        "thrice.sh": '"$@"',
        "preflight.sh": f"echo {sys.executable}",
        "cargo_lock.py": "",
        "apt-install.sh": f"echo not here: varnishd >&2\nexit {apt}",
        **dict.fromkeys(("lint.sh", "beside.sh", "make", "cargo", "python"), says),
    }
    tools = stub(tmp_path / "tools", stubs)
    for name in ("test.sh", "step.sh"):
        shutil.copy(ROOT / "tools" / name, tools)
    done = run("bash", tools / "test.sh", cwd=tmp_path, CI=ci)
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
    stubs = {
        "env.sh": f'cd "$(dirname "$0")/.."\nPATH="{tmp_path}/tools:$PATH"',
        "svload": f'echo "SAID svload $*"\n[ "$1" != run ] || exit {ends}',
        "python": 'echo "SAID python $*"',
    }
    tools = stub(tmp_path / "tools", stubs)
    shutil.copy(ROOT / "tools/studies.sh", tools)
    done = run("bash", tools / "studies.sh", cwd=tmp_path, **{"ONLY": "", "PROFILE": "", **asked})
    assert done.returncode == code, done.stdout + done.stderr

    def said(what: str) -> list[str]:
        return re.findall(f"^SAID {what}", done.stdout, re.MULTILINE)

    assert said(r"svload run studies/(\d+)") == said(r"svload lab install studies/(\d+)") == runs
    assert said(r"python studies/(\d+)\S+/tables.py build/studies/\S+/latest --report") == tables
    assert len(re.findall(rf"^exit {ends} after \d+ s: svload run ", done.stdout, re.MULTILINE)) == len(runs)
    if code == 2:
        assert len(done.stderr.splitlines()) == 1


def test_lock_covers_every_crate_and_refuses_a_second_source() -> None:
    cargo_lock = script(ROOT / "tools" / "cargo_lock.py")
    with pytest.raises(SystemExit, match="2 kinds of source"):
        cargo_lock.template_of('source = "registry+here"\nsource = "git+there"\n')
    done = run("cargo", "metadata", "--locked", "--format-version=1", "--manifest-path", "engine/Cargo.toml")
    assert done.returncode == 0, f"make relock: {done.stderr}"
    assert cargo_lock.template_of(cargo_lock.LOCK.read_text()) == cargo_lock.TEMPLATE.read_text()


SKIPPING = """
import pytest
@pytest.mark.real
def test_journey(needs): needs("a-server-that-no-machine-has")
def test_other(): pass
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
    done = run_pytest(tmp_path, [text], "-q", CI=ci)
    assert done.returncode == status, done.stdout
    assert all(words in done.stdout for words in says)


@pytest.mark.parametrize(("good_at", "code", "times"), [(1, 0, 1), (3, 0, 3), (4, 7, 3)])
def test_a_download_is_tried_three_times(tmp_path: Path, good_at: int, code: int, times: int) -> None:
    tried = f"echo x >> tried; [ $(wc -l < tried) -ge {good_at} ] || exit 7"
    done = run(ROOT / "tools/thrice.sh", "sh", "-c", tried, cwd=tmp_path, PAUSE_S="0")
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
    stubs = {
        "tools/thrice.sh": '"$@"',
        "bin/make": f'echo "made $1 $(echo "$2" | tr -dc A-Z=)"; [ "$1" != "{fails}" ]',
        **{f"bin/{name}": "true" for name in ("apt-get", "cc", "qemu-system-x86_64")},
    }
    stub(tmp_path, stubs)
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci")
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    done = run(tmp_path / ".ci/run", cwd=tmp_path, PATH=path, BUDGET_S=str(budget_s))
    assert done.returncode == code, done.stdout + done.stderr
    assert re.findall(r"^made (\S+)", done.stdout, re.MULTILINE) == made
    assert re.findall(r"^made \S+ (LEFT=)", done.stdout, re.MULTILINE) == ["LEFT="] * (len(made) - 1)
    for name in ("test-real", "test-vm"):
        assert (f"NOT RUN: {name}" in done.stderr) is (name not in made)
    assert re.findall(r"FAILED: (\S+)\n", done.stderr) == [fails] * bool(fails)


def run_pytest(
    folder: Path, files: list[str], *words: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run pytest on files, with the configuration of this test suite."""
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    for number, text in enumerate(files):
        (folder / f"test_{number}.py").write_text(text)
    return run(sys.executable, "-m", "pytest", *words, str(folder), cwd=folder, **variables)


@pytest.mark.parametrize("beside", [(), ("-n", "2")], ids=["one process", "workers"])
@pytest.mark.truth
def test_what_no_time_is_left_for_is_named_and_no_failure(tmp_path: Path, beside: tuple[str, ...]) -> None:
    text = "def test_one(): pass\ndef test_two(): assert False\n"
    done = run_pytest(tmp_path, [text], *beside, "--left", "0", CI="true")
    assert done.returncode == 0, done.stdout
    assert "not run: test_0.py::test_two: no time was left" in done.stdout
    assert re.search(r"= 2 not run in ", done.stdout)


@pytest.mark.truth
def test_a_seed_chooses_the_order_of_the_files_and_is_printed(tmp_path: Path) -> None:
    texts = ["def test_a(): pass\ndef test_b(): pass\n"] * 6
    orders = []
    for seed in ("1", "1", "2"):
        done = run_pytest(tmp_path, texts, "-v", "--shuffle", seed, "-p", "no:randomly")
        assert f"order of the files: seed {seed}" in done.stdout
        orders.append(re.findall(r"^test_(\d)\.py::test_(\w)", done.stdout, re.MULTILINE))
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])
    assert [letter for _, letter in orders[0]] == ["a", "b"] * 6, "a file's tests stay together"


LEFT_OUT = """
import pytest
def test_of_a_clock(): pass
test_of_a_clock = pytest.mark.timing(test_of_a_clock)
def test_other(): pass
"""


@pytest.mark.parametrize("beside", [(), ("-n", "2")], ids=["one process", "workers"])
@pytest.mark.parametrize("asked", [(), ("-m", "pure and not timing")], ids=["plain", "selected"])
@pytest.mark.truth
def test_timing_tests_are_left_out(tmp_path: Path, beside: tuple[str, ...], asked: tuple[str, ...]) -> None:
    done = run_pytest(tmp_path, [LEFT_OUT], *beside, *asked)
    assert done.returncode == 0, done.stdout
    assert "left out: 1 timing tests (make test-timing)" in done.stdout
    assert "1 passed" in done.stdout


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "benches").glob("*.py")))
def test_a_bench_finds_what_it_imports(name: str) -> None:
    """Benches run on a quiet machine only, so nothing else would detect that a fixture of the tests is
    missing."""
    importlib.import_module(f"benches.{name}")


def test_a_limit_is_changed_by_a_third_either_way() -> None:
    change_limits = script(ROOT / "tools" / "change_limits.py")
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
