"""The labs of a run: one, or one for each side where sides take turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from svload.host import Agent, cache_dir
from svload.lab import Lab
from svload.lab.place import Place
from svload.lab.ports import Ports
from svload.model.study import CaseConfig
from svload.run.sides import SideHost, SidePorts, side_events
from svload.run.trial import Emit


@dataclass
class Labs:
    """The common arguments of all labs of a run, as for `Lab`. They are taken down when `stack` is left."""

    stack: ExitStack
    agent: Agent
    cores: tuple[int, ...] | None
    emit: Emit
    study_dir: Path
    should_stop: Callable[[], bool]
    answers_within_s: float
    host_settings: bool
    live_limits: Mapping[str, Sequence[str]]
    trusted: bool
    address: str
    elsewhere: Mapping[str, Place]
    ports: Ports = field(default_factory=Ports)

    def make(self, config: CaseConfig, side: str = "") -> Lab:
        """Return a lab for `config`, not started. A side's lab is beside others, in a separate folder."""
        lab = Lab(
            config.services,
            SideHost(self.agent, side) if side else self.agent,
            self.agent.dir / side,
            cache_dir(),
            self.cores,
            side_events(self.emit, side) if side else self.emit,
            study_dir=self.study_dir,
            should_stop=self.should_stop,
            secrets=config.secrets,
            answers_within_s=self.answers_within_s,
            sysctl=config.sysctl,
            elsewhere=self.elsewhere,
            host_settings=self.host_settings,
            live_limits=self.live_limits,
            trusted=self.trusted,
            address=self.address,
            ports=SidePorts(self.ports, side) if side else self.ports,
            keeps_as=f"-{side}" if side else "",
        )
        self.stack.callback(lab.down)
        return lab
