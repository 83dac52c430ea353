"""`Lab`: the services of a study on one machine, brought up by need, reset between trials, read, and taken down without a trace."""

from __future__ import annotations

import datetime
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from svload.host.sock_diag import end_time_wait
from svload.lab import setup
from svload.lab.catalogue import all_kits
from svload.lab.data import Filled, OnProgress, fill
from svload.lab.front import HitchFront
from svload.lab.graph import needs_of, reached, waves
from svload.lab.kit import Host, Kit, KitContext, KitOptions
from svload.lab.objects import fill_key
from svload.lab.ports import Ports
from svload.model.errors import Problem, SvloadError, fail
from svload.model.events import Event
from svload.model.facts import Counters, Endpoint, ServiceFacts, Setting
from svload.model.messages import Limits
from svload.model.private import private_folder
from svload.model.study import ObjectSet, ServiceSpec

if TYPE_CHECKING:
    from svload.lab.authority import Authority

READY_WITHIN_S = 60.0
LIFE = datetime.timedelta(days=30)
"""Of certificates: longer than any run, shorter than forgetting."""
PARALLEL = 4
SAY_EVERY_S = 10.0
OnEvent = Callable[[Event], None]
T = TypeVar("T")


class _Service:
    """A service that is up: its kit and its TLS front, if any."""

    def __init__(self, spec: ServiceSpec, kit: Kit, front: HitchFront | None) -> None:
        self.spec, self.kit, self.front = spec, kit, front
        self.facts: ServiceFacts | None = None


class Lab:
    """The services of `specs`. Methods raise SvloadError; those that wait are bounded.

    Everything of a service lies in `work_dir`/services/<its name>, wiped by `down`, but for what it says (logs/<its name>, left to
    the owner of `work_dir`); `cache_dir` is kept (installed kits, filled data). `server_cores` are the cores that all services are pinned to (None: no pin). A server that runs
    already must take a connection within `answers_within_s`. Variables that hold `secrets` (as a case has them) reach no service that does not name them.
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
    ) -> None:
        self._options = setup.validated(specs)
        self.specs = tuple(specs)
        self._host, self._cache = host, cache_dir.absolute()
        self._work, self._logs = work_dir.absolute() / "services", work_dir.absolute() / "logs"
        self._study = (study_dir or Path.cwd()).absolute()
        self._cores = tuple(server_cores) if server_cores else None
        self._should_stop = should_stop
        self._secrets = {name.removeprefix("secret."): held for name, held in (secrets or {}).items()}
        self._answers_within_s = answers_within_s
        self._tell = on_event or (lambda event: None)
        self._life = life
        self._ports = Ports()
        self._up: dict[str, _Service] = {}
        self._holds: dict[str, str] = {}
        self._sets: dict[str, tuple[ObjectSet, int, Filled]] = {}
        self._planted: set[str] = set()

    # before

    def check(self) -> list[Problem]:
        """What this machine lacks for the lab; empty if it can come up. Starts nothing."""
        return setup.check(self.specs, self._cache)

    def install(self, root: bool | None = None) -> list[str]:
        """Install what `check` misses; what was done, a line each. Raises SvloadError for what could not be."""
        return setup.install(self.specs, self._cache, root)

    # up and down

    def up(self) -> dict[str, ServiceFacts]:
        """Start all services, independent ones in parallel, and return their facts. On failure what had started is stopped."""
        if lacking := self.check():
            raise SvloadError(*lacking)
        private_folder(self._cache)
        try:
            self._bring_up(self.specs)
        except BaseException:
            self.down()
            raise
        return self.facts()

    def _bring_up(self, specs: Sequence[ServiceSpec]) -> None:
        by_name = {spec.name: spec for spec in specs}
        needs = needs_of(self.specs)
        for wave in waves(needs):
            names = [name for name in wave if name in by_name]
            self._together(lambda name: self._start(by_name[name], needs[name]), names)

    def _start(self, spec: ServiceSpec, needs: Iterable[str]) -> None:
        began = time.monotonic()
        options = self._options[spec.name]
        context = self._context(spec, options)
        kit = all_kits()[spec.kit](options, context)
        front = HitchFront(options, _of_front(context)) if options.tls == "hitch" else None
        self._up[spec.name] = service = _Service(spec, kit, front)
        try:
            self._make_ready(service, needs)
        except BaseException:
            self._stop(spec.name)
            raise
        self._say("ready", spec.name, seconds=round(time.monotonic() - began, 3))

    def _make_ready(self, service: _Service, needs: Iterable[str]) -> None:
        spec, kit, front = service.spec, service.kit, service.front
        kit.up({name: self._facts_of(name) for name in needs})
        self._say("up", spec.name)
        kit.ready(READY_WITHIN_S if kit.starts else self._answers_within_s)
        if front:
            front.up({spec.name: kit.facts()})
            front.ready(READY_WITHIN_S)
        service.facts = facts = self._described(service)
        for setting in facts.settings:
            if setting.asked is not None and setting.found is not None and setting.found != setting.asked:
                self._tell(
                    Event(
                        "setting",
                        {
                            "what": f"{spec.name}.{setting.name}",
                            "asked": setting.asked,
                            "found": setting.found,
                        },
                    )
                )

    @staticmethod
    def _described(service: _Service) -> ServiceFacts:
        facts = service.kit.facts()
        return _with_front(facts, service.front.facts()) if service.front else facts

    def _context(self, spec: ServiceSpec, options: KitOptions) -> KitContext:
        work = self._work / spec.name
        shutil.rmtree(work, ignore_errors=True)
        private_folder(work)
        limits = Limits(
            cores=self._cores, cpus=options.cpus, memory_bytes=options.memory, nofile=options.nofile
        )
        return KitContext(
            service=spec.name,
            work=work,
            logs=self._logs / spec.name,
            cache=self._cache,
            study=self._study,
            host=self._host,
            limits=limits,
            credentials=self._authority.issue(spec.name, work / "tls") if options.tls else None,
            stopped=self._should_stop,
            secrets=self._secrets,
            take_port=lambda part, fixed: self._ports.take(spec.name, part, fixed),
        )

    @cached_property
    def _authority(self) -> Authority:
        """Made when the first certificate is needed: its library is slow to load."""
        from svload.lab.authority import Authority

        return Authority(self._life)

    def down(self) -> None:
        """Stop all services, those that need others first, free the ports that rest towards them, and wipe the work folder.

        Never raises for what is gone.
        """
        self._take_down(set(self._up))
        self.free_ports()
        shutil.rmtree(self._work, ignore_errors=True)

    def _take_down(self, names: set[str]) -> None:
        for wave in reversed(waves(needs_of(self.specs))):
            self._together(self._stop, [name for name in wave if name in names and name in self._up])

    def _stop(self, name: str) -> None:
        service = self._up[name]
        with suppress(SvloadError):
            if service.front:
                service.front.down()
        with suppress(SvloadError):
            service.kit.down()
        del self._up[name]
        self._say("down", name)

    def apply(self, specs: Sequence[ServiceSpec], restart: bool = False) -> list[str]:
        """Bring the lab to `specs`: only services whose options changed, and those that need them, are restarted.

        With `restart` all are (a new bring-up). A change of live options alone is made in the running service. Stores that lost
        their data are filled again, planted faults are taken back. Returns the names of what was restarted.
        """
        if restart:
            self._planted.clear()
        self._unplant()
        options = setup.validated(specs)
        before = {spec.name: spec for spec in self.specs}
        changed = {spec.name for spec in specs if spec.name not in self._up or before[spec.name] != spec}
        live = {
            name for name in changed if name in self._up and self._adjust(name, before[name], options[name])
        }
        gone = {name for name in self._up if name not in options}
        stale = (
            set(self._up) | changed
            if restart
            else reached((changed - live) | gone, {**needs_of(self.specs), **needs_of(specs)})
        )
        self._take_down(stale)
        self.specs, self._options = tuple(specs), options
        for name in live:
            self._up[name].spec = next(spec for spec in specs if spec.name == name)
            if name not in stale:  # what it reports of itself has changed with the option
                self._up[name].facts = self._described(self._up[name])
        wanted = [spec for spec in specs if spec.name in stale]
        if wanted and (lacking := setup.check(wanted, self._cache)):
            raise SvloadError(*lacking)
        self._bring_up(wanted)
        self._refill({spec.name for spec in wanted})
        return [spec.name for spec in wanted]

    def _adjust(self, name: str, before: ServiceSpec, after: KitOptions) -> bool:
        old = self._options[name]
        if before.kit != self._up[name].spec.kit or type(old) is not type(after):
            return False
        fields = type(after).model_fields
        differing = [key for key in fields if getattr(old, key) != getattr(after, key)]
        if not all(_change_of(fields[key]) == "live" for key in differing):
            return False
        with self._asking(name):
            return self._up[name].kit.adjust(after)

    # while it runs

    def facts(self) -> dict[str, ServiceFacts]:
        """What each running service offers, in the study's order."""
        return {spec.name: self._facts_of(spec.name) for spec in self.specs if spec.name in self._up}

    def endpoints(self) -> dict[str, Endpoint]:
        """`scheme://service` → where it listens."""
        return endpoints(self.facts())

    def alive(self) -> list[Problem]:
        """service-died for each service that ended by itself."""
        return [
            problem
            for service in self._up.values()
            for part in (service.kit, service.front)
            if part
            for problem in part.alive()
        ]

    def reset(self, services: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Bring these services to their state before any trial, in the given order; the proofs, read from the servers."""
        proofs = {}
        for name in services:
            with self._asking(name):
                proofs[name] = self._up[name].kit.reset()
        return proofs

    def counters(self) -> dict[str, Counters]:
        """Canonical counters of every service that offers them, read at the same time."""
        found = self._together(self._counters_of, list(self._up))
        return {name: counters for name, counters in found if counters is not None}

    def _counters_of(self, name: str) -> tuple[str, Counters | None]:
        with self._asking(name):
            return name, self._up[name].kit.counters()

    @contextmanager
    def _asking(self, name: str) -> Iterator[None]:
        """A server that does not answer has died, or is told as one that does not answer: never an error of svload's own."""
        try:
            yield
        except OSError as why:
            if died := self.alive():
                raise SvloadError(*died) from why
            raise fail(
                "lab-failed",
                place=name,
                reason=f"{name} does not answer ({why})",
                hint=f"See {self._logs / name}.",
            ) from why

    def settle_s(self) -> float:
        """How long after the load's end counters are complete."""
        return max((facts.settle_s for facts in self.facts().values()), default=0.0)

    def settle(self, since_ns: int) -> float:
        """Wait until `settle_s` has passed since `since_ns` (CLOCK_MONOTONIC); the seconds waited."""
        rest_s = self.settle_s() - (time.monotonic_ns() - since_ns) / 1e9
        if rest_s > 0:
            time.sleep(rest_s)
        return max(rest_s, 0.0)

    def free_ports(self) -> int:
        """End connections towards this lab's servers that only rest (TIME_WAIT), whoever had opened them; how many. 0 where it may not.

        `close: reset` spares the load's own; those that a TLS front opens to its server rest all the same.
        """
        return end_time_wait(self._ports.given())

    def read_back(self) -> dict[str, tuple[Setting, ...]]:
        """Each service's settings as it reports them now."""
        return {
            name: service.kit.read_back() + (service.front.read_back() if service.front else ())
            for name, service in self._up.items()
        }

    def plant(self, service: str, fault: str) -> bool:
        """Plant a fault for a demonstration, until the next `apply`; False if its kit does not know how."""
        with self._asking(service):
            planted = self._up[service].kit.plant(fault)
        if planted:
            self._planted.add(service)
        return planted

    def _unplant(self) -> None:
        for service in self._planted & set(self._up):
            with self._asking(service):
                self._up[service].kit.plant(None)
        self._planted.clear()

    # data

    def fill(
        self, objects: ObjectSet, seed: int, on_progress: OnProgress | None = None
    ) -> dict[str, list[Any]]:
        """Fill the set's store (or find it filled), and list every URL back from it: columns path, size_bytes, digest.

        Raises SvloadError fill-failed. A store that keeps data between runs is filled once per content.
        """
        return self._fill(objects, seed, on_progress).table.columns()

    def filled(self) -> dict[str, Filled]:
        """What each filled set holds, and how long that took."""
        return {name: filled for name, (_, _, filled) in self._sets.items()}

    def _fill(self, objects: ObjectSet, seed: int, on_progress: OnProgress | None = None) -> Filled:
        name = objects.service
        self._up[name].kit.hold(self._holds.setdefault(name, fill_key([objects], seed)))
        self._up[name].facts = facts = self._described(self._up[name])
        found = fill(
            objects,
            facts,
            seed,
            on_progress=on_progress or self._say_progress(name),
            should_stop=self._should_stop,
        )
        if found.reused:
            self._tell(
                Event(
                    "notice",
                    {
                        "text": f"{name} holds its {len(found.table):,} objects from an earlier run; they were listed and compared."
                    },
                )
            )
        before = self._sets.get(objects.name)
        if before and before[:2] == (objects, seed) and before[2].table != found.table:
            raise fail(
                "fill-failed",
                service=name,
                reason="after its restart it holds other objects than before",
                log=self._logs / name,
            )
        self._sets[objects.name] = objects, seed, found
        return found

    def _refill(self, restarted: set[str]) -> None:
        for objects, seed, _ in list(self._sets.values()):
            if objects.service in restarted:
                self._fill(objects, seed)

    def _say_progress(self, service: str) -> OnProgress:
        """A sentence now and then where filling takes long."""
        said = time.monotonic()

        def progress(what: str, done: int, of: int) -> None:
            nonlocal said
            if what == "put" and time.monotonic() - said > SAY_EVERY_S:
                said = time.monotonic()
                self._tell(Event("notice", {"text": f"Filling {service}: {done:,} of {of:,} objects."}))

        return progress

    def _facts_of(self, name: str) -> ServiceFacts:
        facts = self._up[name].facts
        assert facts is not None, f"{name} is not ready"
        return facts

    def _say(self, state: str, service: str, **more: object) -> None:
        self._tell(Event("service", {"service": service, "state": state, **more}))

    def _together(self, act: Callable[[str], T], names: Sequence[str]) -> list[T]:
        """`act` on every name in parallel; when some fail, all are awaited and one error carries every problem."""
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


def endpoints(facts: Mapping[str, ServiceFacts]) -> dict[str, Endpoint]:
    """`scheme://service` → where it listens: what a service's name means in a study's URLs."""
    return {
        f"{endpoint.scheme}://{name}": endpoint for name, one in facts.items() for endpoint in one.endpoints
    }


def _change_of(field: Any) -> str:
    extra = field.json_schema_extra
    return str(extra.get("change", "restart")) if isinstance(extra, dict) else "restart"


def _of_front(context: KitContext) -> KitContext:
    return replace(context, work=context.work / "front")


def _with_front(facts: ServiceFacts, front: ServiceFacts) -> ServiceFacts:
    """The service's facts with its front's endpoint, process and settings."""
    return facts.model_copy(
        update={
            "endpoints": facts.endpoints + front.endpoints,
            "processes": facts.processes + front.processes,
            "settings": facts.settings + front.settings,
            "version": f"{facts.version} + hitch {front.version}",
        }
    )
