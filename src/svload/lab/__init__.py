"""Servers: kits, up, reset, read back, down.

Names are loaded when first used: a lab's certificates cost a tenth of a second that only bringing one up pays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.model.late import late

if TYPE_CHECKING:
    from svload.lab.catalogue import all_kits, check_specs, kit_options
    from svload.lab.graph import costs_of
    from svload.lab.groups import cautions
    from svload.lab.lab import Lab
    from svload.lab.links import cannot_be_linked, is_linked, needs_own_network
    from svload.lab.names import endpoints
    from svload.lab.objects import ObjectTable
    from svload.lab.on import ON_HINT, cannot_be_elsewhere, machines_of
    from svload.lab.setup import check, copies, find_mistakes, install, measures
    from svload.lab.trust import asks_trust

__getattr__ = late(__name__)
