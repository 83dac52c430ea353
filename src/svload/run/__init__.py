"""The execution of trials and runs: order, journal, resume, placement.

Names are loaded on first use: `svload plan` needs the faults and targets, but not the load generation.
"""

from typing import TYPE_CHECKING

from svload.model.late import late

if TYPE_CHECKING:
    from svload.run.aa import aa_batch, aa_lock, compares_restarts
    from svload.run.certify import certificate_study, certify_instrument
    from svload.run.execution import Options, Outcome, begin, execute
    from svload.run.faults import FAULTS, plant
    from svload.run.fits import misfits, overfull, too_long
    from svload.run.leftovers import put_back
    from svload.run.once import started_once
    from svload.run.order import next_trial
    from svload.run.secrets import secret_values
    from svload.run.targets import permitted_targets

__getattr__ = late(__name__)
