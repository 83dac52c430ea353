"""One machine's hands: agent, processes, pins, cgroups, namespaces, undo journal."""

from __future__ import annotations

from svload.host.client import Agent, Clock, connect_agent, start_agent
from svload.host.cores import CoreSplit, split_cores
from svload.host.folders import cache_dir, folder_bytes, labs_dir, state_dir
from svload.host.leftovers import LabState, finish_leftovers, list_labs
from svload.host.lock import machine_lock
from svload.host.machine import describe_machine

__all__ = [
    "Agent",
    "Clock",
    "CoreSplit",
    "LabState",
    "cache_dir",
    "connect_agent",
    "describe_machine",
    "finish_leftovers",
    "folder_bytes",
    "labs_dir",
    "list_labs",
    "machine_lock",
    "split_cores",
    "start_agent",
    "state_dir",
]
