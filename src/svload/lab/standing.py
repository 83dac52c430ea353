"""One server of a lab, with its TLS front if any: created, started until it answers, described, stopped."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from svload.lab.answering import proved
from svload.lab.catalogue import all_kits
from svload.lab.groups import ServiceGroups
from svload.lab.kit import LOOPBACK, Host, Kit, KitContext, KitOptions
from svload.lab.links import ServiceLinks
from svload.lab.metrics_page import with_metrics_page
from svload.lab.names import named_in, of_others, put_in
from svload.lab.ports import Ports
from svload.lab.replicas import service_of
from svload.model.errors import SvloadError
from svload.model.events import Event
from svload.model.facts import ServiceFacts
from svload.model.messages import Limits
from svload.model.private import private_folder
from svload.model.study import ServiceSpec
from svload.study import named_programs

if TYPE_CHECKING:
    from svload.lab.authority import Authority
    from svload.lab.kits.hitch import Hitch

READY_WITHIN_S = 60.0
OnEvent = Callable[[Event], None]


@dataclass
class Standing:
    """A server that is up, or coming up."""

    spec: ServiceSpec
    kit: Kit
    front: Hitch | None
    programs: Mapping[str, str] = field(default_factory=dict)
    """See `ServiceFacts.programs`."""

    @property
    def parts(self) -> tuple[Kit, ...]:
        """The server and its front."""
        return (self.kit, self.front) if self.front else (self.kit,)


@dataclass
class Starter:
    """The starter of one lab's servers.

    Each server has a folder under `work`, wiped before it starts, and one under `logs`, which is kept. All
    are pinned to `cores` (None: not pinned). `answers_within_s` bounds the wait for a server that runs
    already. Servers without a link listen on `address`. `trusted`: as in `KitContext`.
    """

    host: Host
    groups: ServiceGroups
    links: ServiceLinks
    work: Path
    logs: Path
    cache: Path
    study: Path
    cores: tuple[int, ...] | None
    secrets: Mapping[str, str]
    stopped: Callable[[], bool]
    answers_within_s: float
    life: datetime.timedelta
    tell: OnEvent
    ports: Ports = field(default_factory=Ports)
    address: str = LOOPBACK
    trusted: bool = False

    def make(
        self,
        spec: ServiceSpec,
        options: KitOptions,
        neighbours: Mapping[str, ServiceFacts],
        *,
        reached: bool = False,
    ) -> Standing:
        """Create a server without starting it. References to neighbours in its options (`${db.port}`) are
        replaced.

        `reached`: it has no link, but listens where linked services can reach it.
        """
        if any(named_in(spec.options, neighbours)):
            options = type(options).model_validate(put_in(spec.options, of_others(neighbours, spec.name)))
        context = self._context(spec, options, reached)
        kit = all_kits()[spec.kit](options, context)
        return Standing(spec, kit, _front(spec.name, context) if options.tls == "hitch" else None)

    def bring_up(
        self, server: Standing, options: KitOptions, neighbours: Mapping[str, ServiceFacts]
    ) -> ServiceFacts:
        """Start it and return its facts once it answers. Raises SvloadError."""
        name, kit, front = server.spec.name, server.kit, server.front
        if kit.starts:
            server.programs = named_programs(self.study, server.spec.options)
        kit.up(neighbours)
        self.say("up", name)
        kit.ready(READY_WITHIN_S if kit.starts else self.answers_within_s)
        if front:
            front.up({name: kit.facts()})
            front.ready(READY_WITHIN_S)
        facts = self.described(server, options)
        if kit.starts:
            started = [one for part in server.parts for one in part.started()]
            for text in proved(facts, started, self.logs / name) if started else ():
                self.tell(Event("notice", {"text": text}))
        return facts

    def described(self, server: Standing, options: KitOptions) -> ServiceFacts:
        """Return its current facts."""
        facts = with_metrics_page(server.kit.facts(), server.kit.options.metrics)
        facts = _with_front(facts, server.front.facts()) if server.front else facts
        name = server.spec.name
        groups = self.groups.facts(name, options)
        links = self.links.facts(name)
        own = tuple(setting for group in groups if group.name == name for setting in group.settings)
        own += tuple(setting for link in links for setting in link.settings)
        return facts.model_copy(
            update={
                "groups": groups,
                "links": links,
                "settings": own + facts.settings,
                "programs": dict(server.programs),
            }
        )

    def stop(self, server: Standing) -> None:
        """Stop it; it is no error if it is gone already."""
        name = server.spec.name
        for part in reversed(server.parts):
            with suppress(SvloadError):
                part.down()
        self.drop(name)
        self.say("down", name)

    def drop(self, name: str) -> None:
        """Remove a server's control groups and link."""
        for drop in (self.groups.drop, self.links.drop):
            with suppress(SvloadError):
                drop(name)

    def say(self, state: str, service: str, **more: object) -> None:
        """Report that a service is `up`, `ready` or `down`."""
        self.tell(Event("service", {"service": service, "state": state, **more}))

    def _context(self, spec: ServiceSpec, options: KitOptions, reached: bool) -> KitContext:
        work = self.work / spec.name
        shutil.rmtree(work, ignore_errors=True)
        private_folder(work)
        certified = options.tls or all_kits()[spec.kit].certified
        linked_at = self.links.make(spec.name, options)
        group = self.groups.make(spec.name, options, (work, self.cache, self.study))
        here = self.links.hub() if reached else self.address
        checked = LOOPBACK if linked_at else here  # a new network's address can't be tried from outside it
        return KitContext(
            service=spec.name,
            address=linked_at or here,
            link=spec.name if linked_at else None,
            work=work,
            logs=self.logs / spec.name,
            cache=self.cache,
            study=self.study,
            host=self.host,
            limits=Limits(cores=self.cores, nofile=options.nofile, nofile_hard=options.nofile_hard),
            group=group,
            part_groups=self.groups.of_parts(spec.name),
            credentials=self._authority.issue(service_of(spec.name), work / "tls") if certified else None,
            stopped=self.stopped,
            secrets=self.secrets,
            trusted=self.trusted,
            take_port=lambda part, fixed: self.ports.take(spec.name, part, fixed, checked),
        )

    @cached_property
    def _authority(self) -> Authority:
        """Return the authority, created for the first certificate because its library is slow to load."""
        from svload.lab.authority import Authority

        return Authority(self.life)


def _front(service: str, context: KitContext) -> Hitch:
    from svload.lab.kits.hitch import Hitch, HitchOptions

    return Hitch(HitchOptions(of=service), replace(context, work=context.work / "front"))


def _with_front(facts: ServiceFacts, front: ServiceFacts) -> ServiceFacts:
    """Return the service's facts with its front's endpoint, process and settings."""
    return facts.model_copy(
        update={
            "endpoints": facts.endpoints + front.endpoints,
            "processes": facts.processes + front.processes,
            "settings": facts.settings + front.settings,
            "version": f"{facts.version} + hitch {front.version}",
        }
    )
