"""One machine's hands: agent, processes, pins, cgroups, namespaces, undo journal. Names are loaded when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.model.late import late

if TYPE_CHECKING:
    from svload.host.client import Agent, Clock, StartingAgent, connect_agent, launch_agent, start_agent
    from svload.host.cores import CoreSplit, split_cores
    from svload.host.folders import cache_dir, folder_bytes, labs_dir, state_dir
    from svload.host.leftovers import LabState, finish_leftovers, list_labs
    from svload.host.lock import machine_lock
    from svload.host.loopback import localhost
    from svload.host.machine import connection_room, describe_machine
    from svload.host.passing import passing_folder

__all__ = [
    "Agent",
    "Clock",
    "CoreSplit",
    "LabState",
    "StartingAgent",
    "cache_dir",
    "connect_agent",
    "connection_room",
    "describe_machine",
    "finish_leftovers",
    "folder_bytes",
    "labs_dir",
    "launch_agent",
    "list_labs",
    "localhost",
    "machine_lock",
    "passing_folder",
    "split_cores",
    "start_agent",
    "state_dir",
]

__getattr__ = late(
    __name__,
    {
        "client": ("Agent", "Clock", "StartingAgent", "connect_agent", "launch_agent", "start_agent"),
        "cores": ("CoreSplit", "split_cores"),
        "folders": ("cache_dir", "folder_bytes", "labs_dir", "state_dir"),
        "leftovers": ("LabState", "finish_leftovers", "list_labs"),
        "lock": ("machine_lock",),
        "loopback": ("localhost",),
        "machine": ("connection_room", "describe_machine"),
        "passing": ("passing_folder",),
    },
)
