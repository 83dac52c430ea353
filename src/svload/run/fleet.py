"""The machines of an inventory in a run: connected before its servers start, and checked for the load that
they can make together."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from svload.lab.elsewhere import There
from svload.lab.lab import LIFE
from svload.model.conditions import Machine
from svload.model.errors import SvloadError, fail
from svload.model.facts import Endpoint
from svload.model.plan import Room
from svload.model.study import CaseConfig
from svload.run.fits import misfits
from svload.watch.fleet import MachineWatch

if TYPE_CHECKING:
    from svload.drive.fleet_generators import FleetGenerators
    from svload.host import Agent
    from svload.host.agent.leftovers import Leftover
    from svload.host.machines.reach import Reach
    from svload.host.machines.remote import RemoteMachine
    from svload.model.events import Event


@dataclass
class FleetHands:
    """Every machine with its agent. `address` is where they reach this machine's servers; `machine` is all of
    them as one."""

    generators: FleetGenerators
    address: str
    machine: Machine
    room: Room
    folder: Path
    servers: Mapping[str, RemoteMachine] = field(default_factory=dict)
    """name in a study's `on` → the machine"""
    notices: tuple[str, ...] = ()
    left: tuple[tuple[str, tuple[Leftover, ...]], ...] = ()
    """machine → what killed svloads had left on it"""

    def watched(self) -> tuple[MachineWatch, ...]:
        """Start a sampler on every machine. Raise SvloadError agent-refused, agent-lost."""
        machines = {part.machine.name: part.machine for part in self.generators.parts}
        machines |= {machine.name: machine for machine in self.servers.values()}
        watches = tuple(MachineWatch(machine, self.folder) for machine in machines.values())
        for watch in watches:
            watch.spawn()
        return watches

    def places(
        self,
        study: Path,
        emit: Callable[[Event], None],
        should_stop: Callable[[], bool],
        answers_within_s: float,
        live_limits: Mapping[str, Sequence[str]],
        trusted: bool,
    ) -> dict[str, There]:
        """Return the places of servers elsewhere, by the name in a study's `on`. Raise SvloadError."""
        made: dict[str, There] = {}
        for machine in self.servers.values():
            if machine.name not in made:
                made[machine.name] = There(
                    machine,
                    study,
                    self.folder,
                    emit,
                    should_stop,
                    answers_within_s=answers_within_s,
                    life=LIFE,
                    live_limits=live_limits,
                    trusted=trusted,
                )
        return {called: made[machine.name] for called, machine in self.servers.items()}

    def placed(self, shares: Iterable[Sequence[str]]) -> dict[str, tuple[str, ...]]:
        """Return machine → names of the shares that run on it, in any case."""
        found: dict[str, dict[str, None]] = {part.machine.name: {} for part in self.generators.parts}
        for of_case in shares:
            for number, share in enumerate(of_case):
                found[self.generators.machine_of(number)][share] = None
        return {machine: tuple(sorted(names)) for machine, names in found.items()}


def gather(
    stack: ExitStack,
    reaches: Sequence[Reach],
    owner: str,
    folder: Path,
    agent: Agent,
    wanted: int,
    on: Collection[str] = (),
) -> FleetHands:
    """Hold every machine until the stack ends; `agent` is this machine's, `wanted` the open files of a
    generator, `on` the names that the study's services use for the machines that they run on. Raise
    SvloadError with each machine that could not be had."""
    from svload.drive.fleet_generators import FleetGenerators
    from svload.host.machine.addresses import own_address_towards
    from svload.host.machines.cluster import gathered

    machines = stack.enter_context(gathered(reaches, owner, folder))
    loading = [machine for machine, reach in zip(machines, reaches, strict=True) if reach.generates]
    rooms = [machine.room(wanted) for machine in loading]
    return FleetHands(
        generators=FleetGenerators(agent, loading),
        address=own_address_towards(reaches[0].address),
        machine=as_one([machine.facts for machine in loading]),
        room=Room(
            descriptors=min(room.descriptors for room in rooms),
            local_ports=sum(room.local_ports for room in rooms),
        ),
        notices=(
            *sharing(reaches),
            *(
                f"the clock of {machine.name} can't be read at {machine.address} ({machine.clock_closed}): "
                "it is compared through its agent's messages, less accurately"
                for machine in machines
                if machine.clock_closed
            ),
        ),
        folder=folder,
        servers={
            called: machine
            for machine, reach in zip(machines, reaches, strict=True)
            for called in reach.known_as
            if called in on
        },
        left=tuple((machine.name, machine.left) for machine in machines),
    )


def sharing(reaches: Sequence[Reach]) -> tuple[str, ...]:
    """Return notices about a cluster's workers that share one machine."""
    of = Counter(reach.address for reach in reaches if reach.joined is not None)
    return tuple(
        f"{count} workers of the cluster are on {address}: they generate load on the same cores"
        for address, count in of.items()
        if count > 1
    )


def as_one(machines: Sequence[Machine]) -> Machine:
    """Return what a plan must fit into: cores and ports of all, descriptors of the one with the fewest."""
    first = machines[0]
    return first.model_copy(
        update={
            "cores": sum(one.cores for one in machines),
            "load_cores": sum(one.load_cores for one in machines),
            "open_files": min(one.open_files for one in machines),
            "local_ports": sum(one.local_ports for one in machines),
            "port_reuse_s": max(one.port_reuse_s for one in machines),
        }
    )


def must_bear(configs: Iterable[CaseConfig], machine: Machine, place: str) -> None:
    """Raise SvloadError plan-too-large for load that all machines together cannot make."""
    from dataclasses import replace

    if problems := misfits(configs, machine):
        raise SvloadError(*(replace(problem, place=place) for problem in problems))


def must_be_reached(endpoints: Mapping[str, Endpoint], reaches: Sequence[Reach]) -> None:
    """Raise SvloadError fleet-loopback for a server that listens where other machines cannot reach it."""
    if all(reach.here for reach in reaches if reach.generates):
        return
    for name, endpoint in endpoints.items():
        try:
            loopback = ipaddress.ip_address(endpoint.address).is_loopback
        except ValueError:
            continue
        if loopback:
            raise fail("fleet-loopback", target=name, address=endpoint.connects_to)
