"""Parameters: what can be set in a server, the lab's network or the machine, and what a change requires."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Layer = Literal["server", "process", "group", "network", "machine"]
"""What it belongs to: the server, each process, the service's control group, the lab's network namespace, the
whole machine."""
ParameterChange = Literal["live", "reload", "restart"]


@dataclass(frozen=True)
class Parameter:
    """One parameter, as a kit or the table below declares it, or as the running server reports it."""

    name: str
    layer: Layer = "server"
    change: ParameterChange = "restart"
    unit: str = ""
    low: str | None = None
    high: str | None = None
    value: str | None = None
    """value in force; None: it is declared, and no server was queried"""
    default: str | None = None


def declared(layer: Layer, change: ParameterChange, names: str) -> dict[str, Parameter]:
    """Return parameters of one kind by name; `names` holds the names in one text."""
    return {name: Parameter(name, layer, change) for name in names.split()}


KERNEL: Mapping[str, Parameter] = (
    declared(
        "network",
        "live",
        """
    net.ipv4.tcp_max_syn_backlog net.ipv4.tcp_syncookies net.ipv4.tcp_synack_retries net.ipv4.tcp_syn_retries net.ipv4.tcp_abort_on_overflow
    net.ipv4.tcp_fin_timeout net.ipv4.tcp_tw_reuse net.ipv4.tcp_max_tw_buckets net.ipv4.tcp_max_orphans net.ipv4.ip_local_port_range
    net.ipv4.tcp_slow_start_after_idle net.ipv4.tcp_no_metrics_save net.ipv4.tcp_keepalive_time net.ipv4.tcp_keepalive_intvl
    net.ipv4.tcp_keepalive_probes net.ipv4.tcp_retries2 net.ipv4.tcp_timestamps net.ipv4.tcp_sack net.ipv4.tcp_window_scaling
    """,
    )
    | declared(
        "machine",
        "live",
        """
    net.core.netdev_max_backlog net.core.netdev_budget fs.file-max fs.nr_open vm.swappiness vm.dirty_ratio vm.dirty_background_ratio
    """,
    )
    | declared(
        "network",
        "restart",
        "net.core.somaxconn net.core.rmem_default net.core.wmem_default net.ipv4.tcp_rmem net.ipv4.tcp_wmem "
        "net.ipv4.tcp_congestion_control",
    )
)
"""Settings of the kernel for which the required change is known: those that a listener reads when it starts
(accept queue, buffers, congestion control) need a restart of the servers; so does any setting not listed
here."""

_MAY_BE_SET = re.compile(
    r"net\.(core|ipv4|ipv6|netfilter|unix)(\.[A-Za-z0-9_-]+)+"
    r"|fs\.(file-max|nr_open|aio-max-nr|pipe-[a-z-]+|inotify\.[a-z_]+|epoll\.[a-z_]+)"
    r"|vm\.(swappiness|dirty_[a-z_]+|overcommit_[a-z]+|max_map_count|vfs_cache_pressure|min_free_kbytes|nr_hugepages)"
    r"|kernel\.(pid_max|threads-max|numa_balancing|sched_[a-z_]+)"
)


def may_be_set(name: str) -> bool:
    """Return whether a study may set it: settings of an amount, or on and off. Others can name programs, or
    open the machine."""
    return _MAY_BE_SET.fullmatch(name) is not None


def kernel_change(name: str) -> ParameterChange:
    """Return what changing a kernel's setting requires."""
    return KERNEL[name].change if name in KERNEL else "restart"


def is_network(name: str) -> bool:
    """Return whether a network namespace may have its own value."""
    return name.startswith("net.")
