"""`Lab`: the services of a study, brought up in the order of their dependencies, reset between trials, read,
and taken down without a trace."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from svload.lab import setup
from svload.lab.faults import LabFaults
from svload.lab.graph import needs_of, reached, waves
from svload.lab.groups import ServiceGroups
from svload.lab.kit import LOOPBACK, Host, KitOptions
from svload.lab.links import ServiceLinks, reached_from_links
from svload.lab.names import endpoints
from svload.lab.on import ON_HINT
from svload.lab.place import Place
from svload.lab.ports import Ports
from svload.lab.replicas import added, merged, needs_of_servers, servers, service_of
from svload.lab.standing import READY_WITHIN_S, OnEvent, Starter
from svload.lab.stores import Stores
from svload.model.errors import Problem, SvloadError, fail
from svload.model.events import Event
from svload.model.facts import Counters, Death, Endpoint, ServiceFacts, Setting
from svload.model.messages import HoldSysctls
from svload.model.parameters import kernel_change
from svload.model.private import private_folder
from svload.model.study import ObjectSet, ServiceSpec
from svload.model.units import show_size

LIFE = datetime.timedelta(days=30)
"""The validity of certificates: longer than any run, but not for ever."""


@dataclass
class _Up:
    """A server that is up, or coming up, and its place. `facts` are None until it answers."""

    place: Place
    facts: ServiceFacts | None = None


class Lab:
    """The services of `specs`. Methods raise SvloadError; waiting is bounded.

    The files of a service are in `work_dir`/services/<its name>, wiped by `down`, except its output
    (logs/<its name>, left to the owner of `work_dir`); `cache_dir` is kept (installed kits, filled data). All
    services are pinned to `server_cores` (None: not pinned). A server that runs already must accept a
    connection within `answers_within_s`. `sysctl` are settings of the kernel, those of the whole machine only
    with `host_settings`. `live_limits`: service, or part of one (`backend.object`), → limits of its control
    group that faults will change. Environment variables with `secrets` (as in a case) reach only services
    that name them. Servers listen on this machine's `address`; `elsewhere` are other machines' places, by the
    `on` of services. `trusted`: as in `KitContext`. Labs that are up simultaneously share a register of
    `ports`, and each keeps data between runs under a separate name, `keeps_as`.
    """

    def __init__(
        self,
        specs: Sequence[ServiceSpec],
        host: Host,
        work_dir: Path,
        cache_dir: Path,
        server_cores: Sequence[int] | None = None,
        on_event: OnEvent | None = None,
        *,
        study_dir: Path | None = None,
        life: datetime.timedelta = LIFE,
        should_stop: Callable[[], bool] = lambda: False,
        secrets: Mapping[str, str] | None = None,
        answers_within_s: float = READY_WITHIN_S,
        sysctl: Mapping[str, str] | None = None,
        host_settings: bool = False,
        live_limits: Mapping[str, Sequence[str]] | None = None,
        address: str = LOOPBACK,
        elsewhere: Mapping[str, Place] | None = None,
        trusted: bool = False,
        ports: Ports | None = None,
        keeps_as: str = "",
    ) -> None:
        self._elsewhere = dict(elsewhere or {})
        self._cache = cache_dir.absolute()
        self._logs = work_dir.absolute() / "logs"
        self._tell = on_event or (lambda event: None)
        cores = tuple(server_cores) if server_cores else None
        links = ServiceLinks(host, work_dir.absolute() / "links", cores)
        self._starter = Starter(
            host=host,
            groups=ServiceGroups(host, live_limits),
            links=links,
            work=work_dir.absolute() / "services",
            logs=self._logs,
            cache=self._cache,
            study=(study_dir or Path.cwd()).absolute(),
            cores=cores,
            secrets={name.removeprefix("secret."): held for name, held in (secrets or {}).items()},
            stopped=should_stop,
            answers_within_s=answers_within_s,
            life=life,
            tell=self._tell,
            address=address,
            trusted=trusted,
            ports=ports or Ports(),
        )
        self._keeps_as = keeps_as
        self._kernel, self._sysctl = KernelSettings(host, allowed=host_settings), dict(sysctl or {})
        self._up: dict[str, _Up] = {}
        self._here = Place(self._starter)
        self.faults = LabFaults(self._standing_at, self._renewed)
        self.stores = Stores(
            self._hold, self._own, self._tell, self._logs, should_stop, self._cache / "images"
        )
        self._planted: set[str] = set()
        self._fallen: set[str] = set()
        self._take(specs)

    def _take(self, specs: Sequence[ServiceSpec]) -> None:
        """Adopt these services without touching any. Raises SvloadError if one has mistakes."""
        options = setup.validated(specs)
        self.specs, self._servers = tuple(specs), servers(specs)
        self._options = {name: options[service_of(name)] for name in self._servers}
        self._needs = needs_of(specs)
        self._order = needs_of_servers(specs, self._needs)
        for spec in specs:
            self._place_of(spec)

    # before

    def _lacks(self, specs: Sequence[ServiceSpec]) -> list[Problem]:
        """Return what each service's machine lacks for it."""
        by_place: dict[Place, list[ServiceSpec]] = {}
        for spec in specs:
            by_place.setdefault(self._place_of(spec), []).append(spec)
        return [problem for place, own in by_place.items() for problem in place.lacks(own)]

    def _place_of(self, spec: ServiceSpec) -> Place:
        """Return the place where it runs. Raises SvloadError fleet-on."""
        on = spec.options.get("on")
        if on is None:
            return self._here
        if on not in self._elsewhere:
            raise fail("fleet-on", f"lab.{spec.name}.on", service=spec.name, on=on, reason="the run has no such machine", hint=ON_HINT)  # fmt: skip
        return self._elsewhere[on]

    # up and down

    def up(self) -> dict[str, ServiceFacts]:
        """Start all services, independent ones in parallel; return their facts. A failure stops all."""
        if lacking := self._lacks(self.specs):
            raise SvloadError(*lacking)
        try:
            self._hold_settings(self._sysctl)
            self._bring_up(list(self._servers))
        except BaseException:
            self.down()
            raise
        return self.facts()

    def _hold_settings(self, sysctl: Mapping[str, str]) -> None:
        before = self._kernel.found
        self._kernel.hold(sysctl)
        self._sysctl = dict(sysctl)
        self._report_settings("", tuple(one for one in self._kernel.found if one not in before))

    def _report_settings(self, whose: str, settings: Iterable[Setting]) -> None:
        """Report each setting that differs from the requested value."""
        for one in settings:
            if one.asked is not None and (one.why or one.found not in (None, one.asked)):
                what = f"{whose}{one.name}"
                self._tell(
                    Event("setting", {"what": what, "asked": one.asked, "found": one.found, "why": one.why})
                )

    def _bring_up(self, names: Collection[str]) -> None:
        private_folder(self._cache)
        for wave in waves(self._order):
            together(lambda name: self._start(self._servers[name]), [name for name in wave if name in names])

    def _start(self, spec: ServiceSpec) -> None:
        began = time.monotonic()
        neighbours = {name: self._facts_of(name) for name in self._needs[service_of(spec.name)]}
        options = self._options[spec.name]
        reached_by_links = spec.name in reached_from_links(self._servers, self._order)
        self._up[spec.name] = server = _Up(self._place_of(spec))
        try:
            server.facts = server.place.start(spec, options, neighbours, reached_by_links)
        except BaseException:
            self._stop(spec.name)
            raise
        self._report_settings(f"{spec.name}.", server.facts.settings)
        self._starter.say("ready", spec.name, seconds=round(time.monotonic() - began, 3))

    def down(self) -> None:
        """Stop all services, dependent ones first, free the ports of resting connections to them, and wipe
        the work folder.

        Never raises: what can't be ended now ends with the agent.
        """
        self._take_down(set(self._up), self._order)
        with suppress(SvloadError):  # the agent is gone, and its settings with it
            self._kernel.hold({})
        for place in (self._here, *set(self._elsewhere.values())):
            for end in (place.free_ports, place.wipe):
                with suppress(SvloadError, OSError):  # a lost one has ended by itself
                    end()

    def _take_down(self, names: set[str], order: Mapping[str, tuple[str, ...]]) -> None:
        for wave in reversed(waves(order)):
            together(self._stop, [name for name in wave if name in names and name in self._up])

    def _stop(self, name: str) -> None:
        with suppress(SvloadError, OSError):
            self._up[name].place.stop(name)
        del self._up[name]

    def apply(
        self,
        specs: Sequence[ServiceSpec],
        restart: bool = False,
        objects: Sequence[ObjectSet] | None = None,
        sysctl: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Change the lab to `specs`: only services with changed options, and those that need them, are
        restarted.

        With `restart` all are (a new bring-up). If only live options change, the running service is adjusted.
        A service whose death was a finding is started again, with those that need it. Stores that lost their
        data are filled again, planted faults are undone. `objects` are the new contents of the stores (None:
        unchanged): a store with another set is restarted empty, and `fill_all` fills it. `sysctl` are the new
        settings of the kernel (None: unchanged). Returns the names of the restarted servers.
        """
        if restart:
            self._planted.clear()
        self._unplant()
        fallen = {death.service for death in self.deaths()}
        earlier, before, options, order = self.specs, self._servers, self._options, self._order
        self._take(specs)
        changed = {
            name for name, spec in self._servers.items() if name not in self._up or before[name] != spec
        }
        sysctl = self._sysctl if sysctl is None else sysctl
        restart = restart or self._kernel.needs_restart(sysctl)
        standing = set() if restart else {name for name in changed - fallen if name in self._up}
        try:
            live = {name for name in standing if self._adjust(name, before[name], options[name])}
        except BaseException:
            self._take(earlier)  # which are up
            raise
        gone = {name for name in self._up if name not in self._servers}
        outdated = set() if objects is None else self.stores.forget_but(objects)
        emptied = {name for name in self._up if service_of(name) in outdated}
        both = {name: (*order.get(name, ()), *self._order.get(name, ())) for name in {**order, **self._order}}
        stale = (
            set(self._up) | changed if restart else reached((changed - live) | gone | emptied | fallen, both)
        )
        self._take_down(stale, order)
        self._hold_settings(sysctl)
        for name in live - stale:  # its facts have changed with the option
            self._report_settings(f"{name}.", self._describe(name).settings)
        return self._again(stale)

    def restart(self, services: Iterable[str]) -> list[str]:
        """Restart these services and those that need them, and fill stores again; return which."""
        named = set(services)
        stale = reached({name for name in self._servers if service_of(name) in named}, self._order)
        self._take_down(stale, self._order)
        return self._again(stale)

    def _again(self, names: set[str]) -> list[str]:
        """Start these servers, in the study's order, and restore the data of stores."""
        wanted = [name for name in self._servers if name in names]
        self._fallen -= names
        if wanted and (lacking := self._lacks([self._servers[name] for name in wanted])):
            raise SvloadError(*lacking)
        self._bring_up(wanted)
        self.stores.refill(wanted)
        return wanted

    def _adjust(self, name: str, before: ServiceSpec, old: KitOptions) -> bool:
        after = self._options[name]
        if before.kit != self._servers[name].kit or type(old) is not type(after):
            return False
        if not all(type(after).change_of(*one) in ("live", "reload") for one in old.differing(after)):
            return False
        with self._asking(name):
            return self._up[name].place.adjust(name, after)

    # while it runs

    def facts(self) -> dict[str, ServiceFacts]:
        """Return the facts of each running service, in the study's order."""
        return {
            spec.name: self._facts_of(spec.name)
            for spec in self.specs
            if all(name in self._up for name in spec.servers)
        }

    def endpoints(self) -> dict[str, Endpoint]:
        """Return `scheme://service` → where it listens."""
        return endpoints(self.facts())

    def alive(self) -> list[Problem]:
        """Return service-died for each service that ended by itself and service-out-of-memory for each that
        lost a process to its limit, except those whose death is a finding (see `deaths`); link-died for each
        link.
        """
        return [
            problem
            for name in self._up
            for problem in self._ends_of(name)
            if self._options[name].on_death == "failure" or problem.code == "link-died"
        ]

    def deaths(self) -> list[Death]:
        """Return the services that have died and whose death is a finding. The next `apply` restarts them."""
        found = []
        for name, service in self._up.items():
            if self._options[name].on_death == "finding" and service.facts is not None:
                death = death_of(service.facts, self._ends_of(name), service.place.ends(name)[1])
                found += [death] if death else []
        self._fallen = {death.service for death in found}
        return found

    def _ends_of(self, name: str) -> list[Problem]:
        service = self._up[name]
        ends, kills = service.place.ends(name)
        return ends + (out_of_memory(service.facts, kills, self._logs / name) if service.facts else [])

    def reset(self, services: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Restore these services' state before any trial, in this order; return the servers' proofs."""
        proofs = {}
        for service in services:
            own = {}
            for name in self._own(service):
                with self._asking(name):
                    own[name] = self._up[name].place.reset(name)
            proofs[service] = own.get(service, own)
        return proofs

    def drop_cache(self, services: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Drop the files of these services from the page cache; return the proof, read by mincore(2).
        Raises SvloadError reset-failed.

        Pages that are mapped or being written may remain: the proof has their number, and a trial's check
        judges it.
        """
        proofs = {}
        for service in services:
            names = self._own(service)
            proofs[service] = self._up[names[0]].place.drop_cache(service, names)
        return proofs

    def counters(self) -> dict[str, Counters]:
        """Return the canonical counters of every living service that has them, read simultaneously."""
        living = [name for name in self._up if name not in self._fallen and not self.faults.is_down(name)]
        found = dict(together(self._counters_of, living))
        own = {spec.name: [found.get(name) for name in spec.servers] for spec in self.specs}
        return {
            service: added(known)
            for service, parts in own.items()
            if (known := [one for one in parts if one is not None]) and len(known) == len(parts)
        }

    def _counters_of(self, name: str) -> tuple[str, Counters | None]:
        with self._asking(name):
            return name, self._up[name].place.counters(name)

    @contextmanager
    def _asking(self, name: str) -> Iterator[None]:
        """Turn an OSError of a server into service-died, or into a report that it does not answer."""
        try:
            yield
        except OSError as why:
            if died := [problem for one in self._up for problem in self._ends_of(one)]:
                raise SvloadError(*died) from why
            raise fail(
                "lab-failed",
                place=name,
                reason=f"{name} does not answer ({why})",
                hint=f"See {self._logs / name}.",
            ) from why

    def settle(self, since_ns: int) -> float:
        """Wait for the time that counters take to be complete after `since_ns` (CLOCK_MONOTONIC), the load's end;
        return the seconds waited."""
        settle_s = max((facts.settle_s for facts in self.facts().values()), default=0.0)
        rest_s = settle_s - (time.monotonic_ns() - since_ns) / 1e9
        if rest_s > 0:
            time.sleep(rest_s)
        return max(rest_s, 0.0)

    def free_ports(self) -> int:
        """End resting connections (TIME_WAIT) to this lab's servers, whoever opened them; return how many, 0
        if it is not permitted.

        `close: reset` avoids those of the load, but not those from a TLS front to its server.
        """
        return sum(place.free_ports() for place in {server.place for server in self._up.values()})

    def settings(self) -> tuple[Setting, ...]:
        """Return the settings of the kernel that the study requested, as read back when they were set."""
        return self._kernel.found

    def plant(self, service: str, fault: str) -> bool:
        """Plant a fault until the next `apply`; return False if the kit does not know it."""
        planted = False
        for name in self._own(service):
            with self._asking(name):
                if self._up[name].place.plant(name, fault):
                    self._planted.add(name)
                    planted = True
        return planted

    def _unplant(self) -> None:
        for name in self._planted & set(self._up):
            with self._asking(name):
                self._up[name].place.plant(name, None)
        self._planted.clear()

    def _standing_at(self, server: str) -> Place | None:
        """Return the place of a server that is up, else None."""
        return self._up[server].place if server in self._up else None

    def _renewed(self, server: str) -> None:
        """Read the facts of a restarted server, and refill a store that had its data only in memory."""
        facts = self._describe(server)
        store = facts.admin.get("object_store")
        if store is not None and not store.get("data_dir"):
            self.stores.refill({server})

    def _hold(self, server: str, key: str) -> ServiceFacts:
        """Make a server of a store use the data of that name; return its facts."""
        self._up[server].place.hold(server, f"{key}{self._keeps_as}")
        return self._describe(server)

    def _describe(self, server: str) -> ServiceFacts:
        """Read its facts again and return them."""
        found = self._up[server]
        found.facts = facts = found.place.described(server, self._options[server])
        return facts

    def _own(self, service: str) -> list[str]:
        """Return the servers of a service."""
        return [name for name in self._servers if service_of(name) == service]

    def _facts_of(self, service: str) -> ServiceFacts:
        up = [self._up[name] for name in self._own(service) if name in self._up]
        found = [server.facts for server in up if server.facts is not None]
        assert found, f"{service} is not ready"
        return merged(service, found)


def out_of_memory(facts: ServiceFacts, kills: int, log: object) -> list[Problem]:
    """Return service-out-of-memory for processes that the kernel killed at the service's limit."""
    if not kills:
        return []
    limit = next(
        (show_size(value) for name, value in limits_of(facts).items() if name.endswith("memory_bytes")),
        "unknown",
    )
    return [
        Problem(
            "service-out-of-memory",
            {"service": facts.service, "count": kills, "limit": limit, "log": log},
            facts.service,
        )
    ]


def death_of(facts: ServiceFacts, problems: Sequence[Problem], kills: int) -> Death | None:
    """Return a service's death from its problems; None if it lives. If any process was killed for
    lack of memory, that is the cause."""
    died = next((problem for problem in problems if problem.code == "service-died"), None)
    if died is None and not kills:
        return None
    details = died.details if died else {}
    code = details.get("exit")
    return Death(
        service=facts.service,
        cause="oom_kill" if kills else "exit",
        process=str(details.get("service", "")).removeprefix(f"{facts.service}."),
        exit=code if isinstance(code, int) else None,
        kills=kills,
        limits=limits_of(facts),
        tail=str(details.get("tail", "")),
    )


def limits_of(facts: ServiceFacts) -> dict[str, float]:
    """Return `group.limit` → the value in the kernel."""
    return {
        f"{group.name}.{limit.name}": float(limit.found)
        for group in facts.groups
        for limit in group.settings
        if limit.found is not None
    }


class KernelSettings:
    """The kernel settings of a lab's agent. `allowed`: the user permits those of the whole machine."""

    def __init__(self, host: Host, *, allowed: bool) -> None:
        self._host, self._allowed = host, allowed
        self.asked: dict[str, str] = {}
        self.found: tuple[Setting, ...] = ()

    def hold(self, wanted: Mapping[str, str]) -> None:
        """Set these, and restore earlier ones that are not among them. Raises SvloadError agent-refused."""
        if not wanted and not self.asked:
            return
        order = HoldSysctls(values=dict(wanted), host=self._allowed)
        result: dict[str, Any] = self._host.prepare([order])[0]
        self.asked = dict(wanted)
        self.found = tuple(_setting(one) for one in result["settings"])

    def needs_restart(self, wanted: Mapping[str, str]) -> bool:
        """Return whether servers must be restarted for the difference to take effect."""
        differing = {name for name in {*wanted, *self.asked} if wanted.get(name) != self.asked.get(name)}
        return any(kernel_change(name) == "restart" for name in differing)


def _setting(answer: Mapping[str, Any]) -> Setting:
    found = answer["found"]
    shown = None if found is None else " ".join(str(found).split())
    return Setting(
        name=answer["name"], asked=answer["asked"], found=shown, layer=answer["layer"], why=answer["why"]
    )


PARALLEL = 4
T = TypeVar("T")


def together(act: Callable[[str], T], names: Sequence[str]) -> list[T]:
    """Run `act` on every name in parallel; if some fail, wait for all and raise one error."""
    if len(names) < 2:
        return [act(name) for name in names]
    with ThreadPoolExecutor(max_workers=min(PARALLEL, len(names))) as pool:
        futures = [pool.submit(act, name) for name in names]
    errors = [error for future in futures if (error := future.exception())]
    known = [error for error in errors if isinstance(error, SvloadError)]
    if errors and len(known) < len(errors):
        raise next(error for error in errors if not isinstance(error, SvloadError))
    if known:
        raise SvloadError(*(problem for error in known for problem in error.problems))
    return [future.result() for future in futures]
