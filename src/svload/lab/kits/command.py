"""The user's own server, started by a command."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema, model_validator

from svload.host.machine.page_cache import in_page_cache
from svload.lab import web
from svload.lab.builds import Builder, Recipe, lacking, read_recipe
from svload.lab.files import BUILT, made_files, read_files
from svload.lab.kit import DurationNs, KitOptions, Permits, option
from svload.lab.names import PORT, put_in
from svload.lab.replicas import number_of
from svload.lab.server import Server, missing, path_of, program
from svload.model.errors import Problem, fail
from svload.model.facts import FILES, RESIDENT_FILES, Counters, ServiceFacts


def _split(text: str) -> str:
    try:
        words = shlex.split(text)
    except ValueError as why:
        raise ValueError(f"it cannot be split into words ({why})") from why
    if not words:
        raise ValueError("it is empty")
    return text


_READY = re.compile(r"GET (?P<http>[A-Za-z][\w-]*)?(?P<path>/\S*)|tcp( (?P<tcp>[A-Za-z][\w-]*))?")


def _ready(text: str) -> str:
    if not _READY.fullmatch(text):
        raise ValueError(
            "write GET and a path, such as GET /health, GET admin/health for its port admin, or tcp"
        )
    return text


def _ports(written: Any) -> Any:
    """Further ports; a plain list of names means HTTP ports."""
    ports = dict.fromkeys(written, "http") if isinstance(written, list) else written
    for name in ports if isinstance(ports, dict) else ():
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][\w-]{0,40}", name):
            raise ValueError("a port's name is a letter, then letters, digits, - and _")
    return ports


_A_MAPPING = WithJsonSchema({"type": "object"})
_PORTS_WRITTEN = WithJsonSchema({"type": ["object", "array"]})
_FILES_WRITTEN = WithJsonSchema({"type": ["object", "string"]})


class CommandOptions(KitOptions):
    """Options of `command`."""

    run: Annotated[str, AfterValidator(_split)] = option(
        doc="the command, without a shell, in the study's folder; ${port} is the port to listen on, "
        "${port.admin} a further one, "
        "${host} the address, "
        "${db.port} that of the service db, ${build} what was built, ${files} the folder of its files, "
        "${replica} its number"
    )
    build: Annotated[Recipe, BeforeValidator(read_recipe), _A_MAPPING] | None = option(
        None,
        doc="build its source first: make, cargo, go, maven or pip with a folder next to the study, {make: "
        "target, args: all}; once for the same source, tool and args",
    )
    build_within: DurationNs = option("10 min", unit="time", doc="how long a build may take")
    tcp: bool = option(False, doc="true: it speaks no HTTP; requests are dialogues with tcp://NAME")
    ports: Annotated[dict[str, Literal["http", "tcp"]], BeforeValidator(_ports), _PORTS_WRITTEN] = option(
        {}, doc="further ports, {admin: http, sync: tcp} or a list of names; URLs say http://NAME.admin/"
    )
    files: Annotated[dict[str, int] | str, BeforeValidator(read_files), _FILES_WRITTEN] | None = option(
        None,
        doc="files that it serves: name and size of files to create, or a folder next to the study or in "
        "the build's result (${build}/files); svload records how much of them is in the page cache",
    )
    ready: Annotated[str, AfterValidator(_ready)] | None = option(
        None,
        doc="GET PATH that answers 200–399 once it is ready, GET admin/PATH at its port admin, or tcp: it "
        "accepts connections (the default)",
    )
    start_within: DurationNs = option("30 s", unit="time", doc="how long it may take to become ready")
    environment: dict[str, str] = option(
        {}, doc="environment variables for it; no secrets, because they are recorded"
    )
    secrets: list[str] = option([], doc="the study's secrets whose variables it inherits; default: none")
    stop_signal: Literal["TERM", "INT", "QUIT", "KILL"] = option("TERM", doc="the signal that ends it")

    @model_validator(mode="after")
    def _ready_at_a_port(self) -> CommandOptions:
        asked = _READY.fullmatch(self.ready or "tcp")
        port = (asked["http"] or asked["tcp"]) if asked else None
        if port is not None and port not in self.ports:
            raise ValueError(f"ready names the port “{port}”, which is not under ports")
        return self


class Command(Server):
    """One process (and its children), built from source if the study says so; ${port} is its port."""

    name = "command"
    summary = "your own server, started by a command (run: …)"
    Options = CommandOptions
    ignores = ("tuning",)
    permits = Permits("any request that the program accepts: a study that runs a command needs trust anyway")
    harmless = frozenset(
        {"ready", "start_within", "build_within", "secrets", "stop_signal", "tcp", "ports", "files"}
    )
    counted = ()
    options: CommandOptions
    _port: int
    _named: dict[str, int]
    _files: Path | None

    @classmethod
    def check(cls, options: KitOptions, cache: Path) -> list[Problem]:
        """Check that a program without a folder is on the path, and that the build tool is available; a path
        with a folder is checked at start."""
        assert isinstance(options, CommandOptions)
        if options.build is not None and (found := lacking(options.build)):
            return found
        name = shlex.split(options.run)[0]
        if "/" in name or "${" in name or program(name):
            return []
        hint = "Install it, or write its path from the study's folder."
        return [missing(f"“{options.run}”", name, hint)]

    def start(self, neighbours: Mapping[str, ServiceFacts]) -> None:
        options = self.options
        self._port = self.context.take_port("http", options.port)
        self._named = {name: self.context.take_port(name, None) for name in options.ports}
        known = {
            PORT: str(self._port),
            "replica": str(number_of(self.context.service)),
            "host": self.context.address,
        }
        known |= {f"{PORT}.{name}": str(port) for name, port in self._named.items()}
        if options.build is not None:
            built = Builder(self.context, options.build_within / 1e9).build(options.build)
            known["build"] = str(built)
        self._files = self._folder(options.files, known.get("build")) if options.files is not None else None
        if self._files is not None:
            known["files"] = str(self._files)
        words = [put_in(word, known.get) for word in shlex.split(options.run)]
        if "/" in words[0] and not words[0].startswith("/"):
            words[0] = str((self.context.study / words[0]).absolute())
        else:
            words[0] = path_of(words[0])
        self.spawn(
            "server",
            words,
            env={"PORT": known[PORT], **put_in(options.environment, known.get)},
            cwd=self.context.study.absolute(),
            stop_signal=options.stop_signal,
            secrets=options.secrets,
        )

    def _folder(self, files: dict[str, int] | str, built: str | None) -> Path:
        """Return the folder of its files, in the study's or the build's. Raises SvloadError lab-failed."""
        if isinstance(files, dict):
            return made_files(files, self.context.cache)
        if files.startswith(BUILT) and built is not None:
            study, files = Path(built).resolve(), files.removeprefix(BUILT)
        else:
            study = self.context.study.resolve()
        found = (study / files).resolve()
        if not found.is_dir() or study not in found.parents:
            place = f"lab.{self.context.service}.files"
            raise fail("lab-failed", place=place, reason=f"there is no folder “{files}” in {study}")
        return found

    def ready(self, timeout_s: float) -> None:
        super().ready(self.options.start_within / 1e9)

    def start_again(self, parts: Sequence[str], ready_within_s: float | None) -> None:
        super().start_again(parts, ready_within_s and max(ready_within_s, self.options.start_within / 1e9))

    def condition(self) -> bool:
        """Return whether its ready page answers or its port accepts connections."""
        asked = _READY.fullmatch(self.options.ready or "tcp")
        assert asked is not None
        port = self._named.get(asked["http"] or asked["tcp"] or "", self._port)
        if asked["path"] is None:
            return self.accepts(port)
        status = web.status(self.url(port, asked["path"]), timeout_s=2.0)
        return 200 <= status <= 399

    def describe(self) -> ServiceFacts:
        """Return its endpoint and those of its further ports."""
        options = self.options
        return self.service_facts(
            options.run,
            self.endpoint(self._port, "tcp" if options.tcp else "http"),
            named={name: self.endpoint(port, options.ports[name]) for name, port in self._named.items()},
            admin=self._virtual_machine(),
        )

    def _virtual_machine(self) -> dict[str, Any]:
        """Return facts that enable the monitor of Java virtual machines if the command is, or names, Java."""
        words = shlex.split(self.options.run)
        java = any(Path(word).name == "java" or word.endswith(".jar") for word in words)
        return {"jvm": {"process": "server", "log": str(self.log_of("server"))}} if java else {}

    def folders(self) -> tuple[Path, ...]:
        return (self._files,) if self._files is not None else ()

    def counters(self) -> Counters | None:
        """Return how much of its files is in the page cache; it has no counters of requests."""
        at_ns = time.monotonic_ns()
        found = in_page_cache(self._files) if self._files is not None else None
        if found is None:
            return None
        return Counters(at_ns=at_ns, values={FILES: found.size_bytes, RESIDENT_FILES: found.resident_bytes})
