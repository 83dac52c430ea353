"""A trial, then all: order, journal, resume, placement.

Names are loaded when first used: `svload plan` needs the faults and targets, not what makes load.
"""

from typing import TYPE_CHECKING

from svload.model.late import late

if TYPE_CHECKING:
    from svload.run.execution import Options, Outcome, begin, execute
    from svload.run.faults import FAULTS, plant, planted_config
    from svload.run.order import next_trial, replacement_batch
    from svload.run.targets import permitted_targets

__all__ = [
    "FAULTS",
    "Options",
    "Outcome",
    "begin",
    "execute",
    "next_trial",
    "permitted_targets",
    "plant",
    "planted_config",
    "replacement_batch",
]

__getattr__ = late(
    __name__,
    {
        "execution": ("Options", "Outcome", "begin", "execute"),
        "faults": ("FAULTS", "plant", "planted_config"),
        "order": ("next_trial", "replacement_batch"),
        "targets": ("permitted_targets",),
    },
)
