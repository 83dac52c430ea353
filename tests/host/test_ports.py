"""How many new connections a machine's ports carry: by what the kernel is set to."""

from __future__ import annotations

from pathlib import Path

import pytest

from svload.host.machine.ports import local_ports, most_new_connections


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    (tmp_path / "ip_local_port_range").write_text("10000\t10599\n")
    return tmp_path


@pytest.mark.parametrize(
    ("reuse", "seconds", "loopback", "most_rps"),
    [
        ("0", 600.0, True, 10.0),  # 600 ports, each held for 60 s
        ("0", 10.0, True, 60.0),  # shorter than TIME_WAIT: as many as there are ports
        ("2", 600.0, False, 10.0),
        ("2", 600.0, True, 600.0),  # taken again after 1 s
        ("1", 600.0, False, 600.0),
    ],
)
def test_port_rate_bound(settings: Path, reuse: str, seconds: float, loopback: bool, most_rps: float) -> None:
    (settings / "tcp_tw_reuse").write_text(f"{reuse}\n")
    assert local_ports(settings) == range(10_000, 10_600)
    assert most_new_connections(seconds, loopback, settings) == pytest.approx(most_rps)
