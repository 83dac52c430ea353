"""Many machines: the user's Ansible inventory, the load each machine can make, and svload on all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.model.late import late

if TYPE_CHECKING:
    from svload.fleet.actions import Package, check, clean, install, status
    from svload.fleet.bears import FleetResult, MachineTold
    from svload.fleet.inventory import Fleet, Member
    from svload.fleet.joined import workers_of
    from svload.fleet.reaching import reaches

__getattr__ = late(__name__)
