"""Runs every example in the documents; README.md beside this file explains the tags."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.journeys import loaded
from tests.servers import serving

ROOT = Path(__file__).resolve().parents[2]
PATTERNS = ("*.md", "docs/**/*.md", "examples/**/*.md", "studies/**/*.md")
EXECUTED = {"bash": "bash", "sh": "bash", "console": "bash", "python": "python", "yaml": "yaml"}
LAYERS = ("pure", "plan", "truth", "look", "real")
KEYS = {"run", "reason", "file", "server", "exit"}
FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$")

BIN = Path(__file__).with_name("bin")
LARGE = ("example", "packs")
"""Folders of finished runs, which no example writes."""

# The dry forms: instead of starting something, plan, list or explain it.
DRY = """
svload() {
    case "${1:-}" in
    run)
        shift
        local kept=()
        while (($#)); do
            case $1 in
            --trust|--wait) ;;  # of a run alone
            --out|--scheduler) shift ;;
            *) kept+=("$1") ;;
            esac
            shift
        done
        command svload plan "${kept[@]}"
        ;;
     aa|capacity|demo|load|probe|resume|lab|fleet|init|pack|report|export|compare|verify|why|query) command svload "$1" --help ;;
    doctor) [[ $* != *--certify* ]] || set -- doctor --help; command svload "$@" ;;
    *) command svload "$@" ;;
    esac
}
make() { command make -n -C "$PROJECT" "$@"; }
"""


JUDGING = re.compile(
    r"^(svload (?:run|resume|report|load|capacity|compare http)\b(?:\\\n|[^&\n])*)$", re.MULTILINE
)
"""Commands with real loads, whose exit code depends on the machine's load and is not checked. A block that
promises another code is decided by its own last command."""
JUDGED = """
judged() {
    [ "$1" -eq 1 ] || [ "$1" -eq 4 ] || return "$1"
    [ "$EXPECTED" -eq 0 ] || exit "$EXPECTED"
}
"""


@dataclass(frozen=True)
class Block:
    """One fenced block: its place, its text, how it is run."""

    document: str
    line: int
    language: str
    tags: dict[str, str]
    text: str

    @property
    def layer(self) -> str | None:
        """Return the layer that executes it, or None."""
        run = self.tags.get("run", "pure" if "file" in self.tags else "none")
        return None if run == "none" else run


def blocks_of(document: str, text: str) -> list[Block]:
    """Return the fenced blocks of a Markdown text, in order. Raise ValueError if one is never closed."""
    found = []
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        opening = FENCE.match(line)
        if not opening:
            continue
        fence, indent = opening["fence"], len(opening["indent"])
        language, _, rest = opening["info"].strip().partition(" ")
        body = []
        for _, inner in lines:
            if re.fullmatch(rf" *{fence[0]}{{{len(fence)},}} *", inner):
                break
            body.append(inner[indent:] if inner[:indent].isspace() else inner)
        else:
            raise ValueError(f"{document}:{number}: this block is never closed")
        tags = dict(word.partition("=")[::2] for word in shlex.split(rest))
        found.append(Block(document, number, language, tags, "\n".join(body) + "\n"))
    return found


def fault_of(block: Block) -> str | None:
    """Return what is wrong with a block's tags, or None."""
    tags = block.tags
    if not block.language:
        return "say the language (text, if it is none)"
    if unknown := set(tags) - KEYS:
        return f"unknown tag {', '.join(sorted(unknown))}"
    if block.language not in EXECUTED:
        wrong = f"nothing runs a {block.language} block: say run=none (its file is written all the same)"
        return wrong if block.layer is not None else None
    if "run" not in tags and "file" not in tags:
        return "say which layer runs it: run=pure|plan|truth|look|real, or run=none reason=…"
    if tags.get("run") == "none" and len(tags.get("reason", "")) < 10:
        return "run=none needs a reason"
    if block.layer is not None and block.layer not in LAYERS:
        return f"no layer is called {block.layer}"
    if block.language == "yaml" and block.layer is not None and "file" not in tags:
        return "a yaml block that is run needs file=NAME"
    return None


def documents() -> dict[str, list[Block]]:
    paths = sorted({path.relative_to(ROOT) for pattern in PATTERNS for path in ROOT.glob(pattern)})
    kept = [path for path in paths if not {"runs", "node_modules", "reference"} & set(path.parts)]
    return {str(path): blocks_of(str(path), (ROOT / path).read_text()) for path in kept}


DOCUMENTS = documents()


def cases() -> Iterator[object]:
    for document, blocks in DOCUMENTS.items():
        for layer in LAYERS:
            if any(block.layer == layer for block in blocks):
                mark = getattr(pytest.mark, layer if layer in ("look", "real") else "truth")
                yield pytest.param(document, layer, marks=mark, id=f"{document}-{layer}")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_block_says_who_runs_it(document: str) -> None:
    faults = [(block.line, fault) for block in DOCUMENTS[document] if (fault := fault_of(block))]
    assert not faults, "\n".join(f"{document}:{line}: {fault}" for line, fault in faults)
    files = [file for block in DOCUMENTS[document] if (file := block.tags.get("file"))]
    assert len(set(files)) == len(files), "a later block replaces a file before any is run"


@pytest.mark.parametrize(("document", "layer"), list(cases()))
def test_examples_run(document: str, layer: str, tmp_path: Path) -> None:
    for folder in ("studies", "examples"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("runs", *LARGE))
    (tmp_path / "docs").mkdir()
    for path in (ROOT / "docs/example", *(one for name in LARGE for one in ROOT.glob(f"studies/*/{name}"))):
        (tmp_path / path.relative_to(ROOT)).symlink_to(path)
    for block in DOCUMENTS[document]:
        if "file" in block.tags:
            path = tmp_path / block.tags["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
    for block in DOCUMENTS[document]:
        if block.layer == layer:
            execute(block, tmp_path)


def _bounded(command: list[str], **how: Any) -> tuple[int, str]:
    """Run a block's shell in its own session; return its exit code and output. When the time is up all its
    processes are ended, and its output so far is shown."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    door = loaded.door().fileno()
    process = subprocess.Popen(command, text=True, start_new_session=True, pass_fds=[door], **pipes, **how)
    try:
        text, _ = process.communicate(timeout=HANG_S)
        return process.returncode, text
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate(timeout=HANG_S)
        return -signal.SIGKILL, f"{text}\nnot done within {HANG_S:.0f} s"


def execute(block: Block, folder: Path) -> None:
    """Run one block in the folder; its exit code must be the promised one."""
    expected = block.tags.get("exit", "0")
    with serving() if "server" in block.tags else contextlib.nullcontext() as port:
        text = block.text.replace(f":{block.tags['server']}", f":{port}") if port else block.text
        command = command_of(block, text)
        if command is None:
            return
        folders = [Path(sys.executable).parent, *os.environ["PATH"].split(":")]
        if "kill" not in text:  # kill -9 must meet the command itself
            folders.insert(0, BIN)
        own = {"PROJECT": str(ROOT), "COLUMNS": "120", "EXPECTED": expected}
        own |= {"PATH": ":".join(map(str, folders)), "LOADED_DOOR": str(loaded.door().fileno())}
        code, said = _bounded(command, cwd=folder, env=os.environ | own)
    where = f"{block.document}:{block.line}"
    assert code == int(expected), f"{where}: exit {code}, not {expected}\n{text}\n{said[-4000:]}"


def command_of(block: Block, text: str) -> list[str] | None:
    """Return the command line that runs a block, or None if it only writes a file."""
    kind = EXECUTED[block.language]
    if kind == "python":
        return [sys.executable, "-c", text]
    if kind == "yaml":
        path = Path(block.tags["file"])
        return ["svload", "plan", str(path.parent)] if path.name == "study.yaml" else None
    if block.language == "console":
        text = "".join(f"{line[2:]}\n" for line in text.splitlines() if line.startswith("$ "))
    text = DRY + text if block.layer == "plan" else JUDGED + JUDGING.sub(r"\1 || judged $?", text)
    return ["bash", "-euo", "pipefail", "-c", text]


SAMPLE = """
```bash run=plan
make demo
```

  ```console run=pure exit=3
  $ exit 3
  what it prints
  ```

```yaml file=mine/study.yaml
name: mine
```
"""


def test_an_example_that_fails_is_seen(tmp_path: Path) -> None:
    block = blocks_of("a.md", SAMPLE)[1]
    execute(block, tmp_path)
    wrong = replace(block, tags={"run": "pure"})
    with pytest.raises(AssertionError, match=r"a\.md:6: exit 3, not 0"):
        execute(wrong, tmp_path)
