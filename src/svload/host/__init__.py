"""One machine: agent, processes, pins, cgroups, namespaces, undo journal. Names load when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.model.late import late

if TYPE_CHECKING:
    from svload.host.agent.client import Agent, StartingAgent, launch_agent, start_agent
    from svload.host.agent.folders import cache_dir, folder_bytes, labs_dir, state_dir
    from svload.host.agent.leftovers import LabState, finish_leftovers, list_labs
    from svload.host.machine.cores import CoreSplit, split_cores
    from svload.host.machine.facts import connection_room, describe_machine
    from svload.host.machine.lock import machine_lock
    from svload.host.machine.loopback import localhost
    from svload.host.machines.base import LocalMachine, Machine
    from svload.host.process.passing import passing_folder

__getattr__ = late(__name__)
