"""The user's own server, started by a command."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator

from svload.lab import web
from svload.lab.kit import DurationNs, KitOptions, option
from svload.lab.server import SEARCH_PATH, Server
from svload.model.errors import Problem
from svload.model.facts import ServiceFacts

PORT = "${port}"


def _split(text: str) -> str:
    try:
        words = shlex.split(text)
    except ValueError as why:
        raise ValueError(f"it cannot be split into words ({why})") from why
    if not words:
        raise ValueError("it is empty")
    return text


def _ready(text: str) -> str:
    method, _, path = text.partition(" ")
    if method != "GET" or not path.startswith("/"):
        raise ValueError("write GET and a path, such as GET /health")
    return text


class CommandOptions(KitOptions):
    """Options of `command`."""

    run: Annotated[str, AfterValidator(_split)] = option(
        doc="the command, without a shell, in the study's folder; ${port} is the port to listen on"
    )
    ready: Annotated[str, AfterValidator(_ready)] | None = option(
        None, doc="GET PATH that answers 200–399 once it is ready; left out, an accepted connection counts"
    )
    start_within: DurationNs = option(
        "30 s", unit="time", validate_default=True, doc="how long it may take to become ready"
    )
    environment: dict[str, str] = option(
        {}, doc="environment variables for it; no secrets: they would reach the record"
    )
    secrets: list[str] = option(
        [], doc="the study's secrets whose variables it inherits; left out, it gets none of them"
    )
    stop_signal: Literal["TERM", "INT", "QUIT", "KILL"] = option("TERM", doc="the signal that ends it")


class Command(Server):
    """One process (and its children), its port in the place of ${port}."""

    name = "command"
    summary = "your own server, started by a command (run: …)"
    Options = CommandOptions
    ignores = ("tuning",)
    harmless = frozenset({"ready", "start_within", "secrets", "stop_signal"})
    options: CommandOptions
    _port: int

    @classmethod
    def check(cls, options: KitOptions, cache: Path) -> list[Problem]:
        """A bare programme name must be on the path; one with a folder is looked for at start, beside the study."""
        assert isinstance(options, CommandOptions)
        program = shlex.split(options.run)[0]
        if "/" in program or shutil.which(program, path=SEARCH_PATH):
            return []
        details: dict[str, object] = {
            "kit": f"“{options.run}”",
            "what": program,
            "hint": "Install it, or write its path from the study's folder.",
        }
        return [Problem("tool-missing", details)]

    def start(self, neighbours: Mapping[str, ServiceFacts]) -> None:
        """Start it on a free port."""
        self._port = self.context.take_port("http", self.options.port)
        words = [word.replace(PORT, str(self._port)) for word in shlex.split(self.options.run)]
        if "/" in words[0] and not words[0].startswith("/"):
            words[0] = str((self.context.study / words[0]).absolute())
        else:
            words[0] = shutil.which(words[0], path=SEARCH_PATH) or words[0]
        self.spawn(
            "server",
            words,
            env={"PORT": str(self._port), **self.options.environment},
            cwd=self.context.study.absolute(),
            stop_signal=self.options.stop_signal,
            secrets=self.options.secrets,
        )

    def ready(self, timeout_s: float) -> None:
        """Within `start_within`."""
        super().ready(min(timeout_s, self.options.start_within / 1e9))

    def condition(self) -> bool:
        """Its ready page answers, or its port accepts."""
        if self.options.ready is None:
            return self.accepts(self._port)
        status, _ = web.call(self.url(self._port, self.options.ready.split(" ", 1)[1]), timeout_s=2.0)
        return 200 <= status <= 399

    def describe(self) -> ServiceFacts:
        """One plain endpoint."""
        return ServiceFacts(
            service=self.context.service,
            kit=self.name,
            version=self.options.run,
            endpoints=(self.http_endpoint(self._port),),
        )
