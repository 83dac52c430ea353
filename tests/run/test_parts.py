"""What one generator did is read in load time, as the whole of its group is."""

from __future__ import annotations

import numpy as np

from svload.run.parts import _responses

MS = 1_000_000
TURNS = ((0, 500 * MS), (1_000 * MS, 1_500 * MS))


def test_a_generators_responses_leave_out_the_time_between_its_turns() -> None:
    """The second request is due 10 ms before a turn's end and gets its slot 20 ms into the next; the third is of it."""
    rows = {
        "group": [0, 0, 0, 1],
        "error": [0, 0, 0, 0],
        "due_ns": [100 * MS, 490 * MS, 1_100 * MS, 100 * MS],
        "ready_ns": [100 * MS, 1_020 * MS, 1_100 * MS, 100 * MS],
        "done_ns": [108 * MS, 1_025 * MS, 1_104 * MS, 900 * MS],
    }
    stamps = ("begun_ns", "written_ns", "first_byte_ns")
    columns = {name: np.array(cells) for name, cells in rows.items()}
    columns |= dict.fromkeys(stamps, columns["ready_ns"])
    ranked, total_ns = _responses({"samples": columns}, 0, (0, 1_000 * MS), 10 * MS, TURNS)
    assert ranked.total == 3
    assert total_ns == (8 + 35 + 4) * MS
