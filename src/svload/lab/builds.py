"""Builds of a target's source: copied into the cache under a key of everything that affects the result, built
there once, and kept."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svload.host.process.interpreter import BASE, python
from svload.lab import server
from svload.lab.kit import KitContext
from svload.lab.server import ENVIRONMENT, program, tail
from svload.model.errors import Problem, fail
from svload.model.messages import Spawn
from svload.model.private import private_folder
from svload.study.beside import file_beside

BUILD_VERSION = 1
"""Increased when the same source would be built differently."""
MOST_SOURCE_BYTES, MOST_SOURCE_FILES = 200 * 2**20, 20_000
POLL_S = 0.05
DONE = "built"
_LEFT_OUT = frozenset({".git", "__pycache__", ".venv", "node_modules"})
_ERROR = re.compile(r"(?i)(\berror\b|^e\[|\bfatal\b|undefined reference|cannot find)")


@dataclass(frozen=True)
class Tool:
    """One way to build: `commands(source, out, args)` run in `source`; the result is `made(source, out)`;
    `leaves` are the folders that the tool creates in the source."""

    program: str
    packages: tuple[str, ...]
    commands: Callable[[Path, Path, Sequence[str]], list[list[str]]]
    made: Callable[[Path, Path], Path]
    leaves: frozenset[str] = frozenset()
    of_a_file: bool = False
    compiler: str = ""
    """A program that the tool calls and that is in another package."""
    module: str = ""
    """The file that marks a folder below the source as a module, where a build leaves folders too."""

    @property
    def needed(self) -> dict[str, str]:
        """Return each required program → its apt package."""
        return dict(zip([name for name in (self.program, self.compiler) if name], self.packages, strict=True))


def _pip(source: Path, out: Path, args: Sequence[str]) -> list[list[str]]:
    """Build an environment with the packages of a requirements file, or with the project in a folder."""
    files = [source] if source.is_file() else sorted(source.glob("requirements.txt"))
    what = ["-r", str(files[0])] if files else [str(source)]
    pip = python("-m", "pip", executable=str(out / "bin/python"))
    venv = python("-m", "venv", "--clear", str(out), executable=BASE)
    return [[*venv], [*pip, "install", "--quiet", "--disable-pip-version-check", *args, *what]]


def _of_make(source: Path, out: Path) -> Path:
    """Return the folder `build` if the Makefile makes one."""
    return source / "build" if (source / "build").is_dir() else source


TOOLS: Mapping[str, Tool] = {
    "make": Tool(
        "make", ("make",), lambda source, out, args: [["make", *args]], _of_make, frozenset({"build"})
    ),
    "cargo": Tool(
        "cargo",
        ("cargo",),
        lambda source, out, args: [["cargo", "build", "--release", "--target-dir", str(out), *args]],
        lambda source, out: out / "release",
        frozenset({"target"}),
    ),
    "go": Tool(
        "go",
        ("golang-go",),
        lambda source, out, args: [["go", "build", "-o", f"{out}/", *(args or ["./..."])]],
        lambda source, out: out,
    ),
    "maven": Tool(
        "mvn",
        ("maven", "default-jdk-headless"),
        lambda source, out, args: [["mvn", "-q", "-B", "-DskipTests", "package", *args]],
        lambda source, out: source / "target",
        frozenset({"target"}),
        compiler="javac",
        module="pom.xml",
    ),
    "pip": Tool(BASE, ("python3-venv",), _pip, lambda source, out: out, of_a_file=True),
}
"""The tools by their names in the study file."""


@dataclass(frozen=True)
class Recipe:
    """What is built: the tool, the source beside the study, and arguments added to the tool's command."""

    tool: str
    source: str
    args: tuple[str, ...] = ()


def read_recipe(written: Any) -> Any:
    """Return `build` of a study as its kit stores it. Raises ValueError."""
    if isinstance(written, Recipe):
        return written
    if not isinstance(written, Mapping):
        raise ValueError(f"write one of {', '.join(TOOLS)} and its folder, such as {{make: target}}")
    rest = dict(written)
    args = rest.pop("args", "")
    words = args.split() if isinstance(args, str) else args
    if len(rest) != 1 or (tool := next(iter(rest))) not in TOOLS:
        raise ValueError(f"expected one of {', '.join(TOOLS)}, and args if you like")
    if not isinstance(rest[tool], str) or not rest[tool] or not _are_texts(words):
        raise ValueError("expected a folder next to the study, and args as a text")
    return Recipe(tool, rest[tool], tuple(words))


def _are_texts(words: Any) -> bool:
    return isinstance(words, list | tuple) and all(isinstance(word, str) for word in words)


def lacking(recipe: Recipe) -> list[Problem]:
    """Return a problem for each requirement of the tool that this machine lacks."""
    return server.lacking("build", TOOLS[recipe.tool].needed)


class Builder:
    """The builds of one service. `build` returns immediately if the same was built before."""

    def __init__(self, context: KitContext, within_s: float) -> None:
        self.context, self.within_s = context, within_s
        self.log = context.logs / "build.log"

    def build(self, recipe: Recipe) -> Path:
        """Return the value of `${build}`. Raises SvloadError build-failed with the output, interrupted."""
        tool = TOOLS[recipe.tool]
        source = self._source(recipe)
        key = self._key(recipe, tool, source)
        home = self.context.cache / "builds" / f"{recipe.tool}-{key}"
        private_folder(home.parent)
        with self._alone(home):
            there = home / ("source" if source.is_dir() else source.name)
            out = home / "out"
            if not (home / DONE).exists():
                shutil.rmtree(home, ignore_errors=True)
                home.mkdir()
                self._copy(source, there, tool)
                until = time.monotonic() + self.within_s
                for number, command in enumerate(tool.commands(there, out, recipe.args)):
                    self._run(recipe, command, there if there.is_dir() else home, number, until)
                (home / DONE).touch()
            return tool.made(there, out)

    def _source(self, recipe: Recipe) -> Path:
        study = self.context.study.resolve()
        found = (study / recipe.source).resolve()
        is_file = TOOLS[recipe.tool].of_a_file and file_beside(study, recipe.source) is not None
        if study not in found.parents or not (found.is_dir() or is_file):
            raise self._failed(recipe, f"there is no {recipe.source} next to the study")
        return found

    def _key(self, recipe: Recipe, tool: Tool, source: Path) -> str:
        """Return a digest of tool, arguments and all files; equal digests share one build."""
        digest = hashlib.sha256(repr((BUILD_VERSION, recipe.tool, recipe.args, _identity(tool))).encode())
        files, size = 0, 0
        for path in source_files(source, tool):
            files, size = files + 1, size + path.lstat().st_size
            if files > MOST_SOURCE_FILES or size > MOST_SOURCE_BYTES:
                text = f"{recipe.source} holds more than {MOST_SOURCE_FILES:,} files or {MOST_SOURCE_BYTES >> 20} MiB"
                raise self._failed(recipe, text)
            name = path.relative_to(source.parent).as_posix()
            mode = path.lstat().st_mode & 0o111
            digest.update(f"{len(name)} {name} {bool(mode)} ".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()[:24]

    @staticmethod
    def _copy(source: Path, there: Path, tool: Tool) -> None:
        if source.is_file():
            shutil.copy2(source, there)
            return
        for path in source_files(source, tool):
            target = there / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)

    def _run(self, recipe: Recipe, command: Sequence[str], folder: Path, number: int, until: float) -> None:
        child = self.context.child(f"build{number}")
        words = (program(command[0]) or command[0], *command[1:])
        private_folder(self.context.logs)
        size = self.log.stat().st_size if self.log.exists() else 0
        self.context.host.prepare(
            [
                Spawn(
                    child=child,
                    role="server",
                    argv=tuple(words),
                    env={**ENVIRONMENT, "PWD": str(folder)},
                    withheld=self.context.withheld(),
                    cwd=str(folder),
                    log=str(self.log),
                )
            ]
        )
        while (code := self.context.host.exited(child)) is None:
            if self.context.stopped() or time.monotonic() > until:
                self.context.host.stop([child], now=True)
                if self.context.stopped():
                    raise fail("interrupted")
                raise self._failed(recipe, f"it took longer than {self.within_s:g} s")
            time.sleep(POLL_S)
        self.context.host.stop([child], now=True)  # what it left running, such as a compiler's daemon
        if code != 0:
            raise self._failed(recipe, _output(self.log, size) or f"{command[0]} ended with {code}")

    def _failed(self, recipe: Recipe, reason: str) -> Exception:
        service = self.context.service
        return fail(
            "build-failed",
            place=f"lab.{service}.build",
            service=service,
            tool=recipe.tool,
            reason=reason,
            log=self.log,
        )

    @contextmanager
    def _alone(self, home: Path) -> Iterator[None]:
        """Hold a lock, so that one process builds while the others wait for its result."""
        with home.with_suffix(".lock").open("w") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if self.context.stopped():
                        raise fail("interrupted") from None
                    time.sleep(POLL_S)
            yield


def _identity(tool: Tool) -> tuple[str, int, int]:
    """Return what identifies the tool's program, since another compiler makes another binary."""
    path = Path(program(tool.program) or tool.program).resolve()
    found = path.stat()
    return str(path), found.st_size, found.st_mtime_ns


def source_files(source: Path, tool: Tool) -> Iterator[Path]:
    """Yield the regular files of a source in a fixed order, without the results of builds."""
    if source.is_file():
        yield source
        return
    for folder, folders, names in os.walk(source):
        whole = Path(folder) == source or tool.module in names
        left = _LEFT_OUT | (tool.leaves if whole else frozenset())
        folders[:] = sorted(name for name in folders if name not in left)
        for name in sorted(names):
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink():
                yield path


def _output(log: Path, begin: int) -> str:
    """Return the compiler's first errors, or else the end of its output."""
    try:
        with log.open("rb") as file:
            file.seek(begin)
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines()]
    except OSError:
        return ""
    errors = [line for line in lines if _ERROR.search(line)]
    return " | ".join(errors[:3])[:500] or tail(log)
