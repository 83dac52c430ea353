"""From a study file to factors, cases, exclusions and batches. Pure, except for reading the file.

Names are loaded when first used: `svload load` parses what was typed before it reads a study.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.model.late import late

if TYPE_CHECKING:
    from svload.study.command import moved
    from svload.study.config import resolve
    from svload.study.editor import json_schema
    from svload.study.feeders import read_file
    from svload.study.first import init_study, path_of, url_of, with_port
    from svload.study.loading import find_study, load_study, study_digest
    from svload.study.order import draw, first_batch, plot_of
    from svload.study.programs import digest_of, named_programs, study_programs
    from svload.study.side_by_side import Free, in_turns, leaves_order_open, why_not_side_by_side
    from svload.study.trust import must_be_sound, needs_trust, reads_here

__getattr__ = late(__name__)
