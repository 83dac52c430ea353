"""numpy and scipy bring OpenBLAS, which starts a thread a core when it is loaded and lets them spin for work:
on the cores of a load, for products of a size that nothing here forms."""

from __future__ import annotations

import os

THREADS = "OPENBLAS_NUM_THREADS"
_ALIKE = (THREADS, "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
"""What OpenBLAS reads, in this order."""


def stay_single_threaded() -> None:
    """Let numpy and scipy, loaded after this, start no thread; what the user has set holds.

    Only the C library is told: `os.environ` stays the user's, and what is started with it is a user's server, not ours.
    """
    if not any(name in os.environ for name in _ALIKE):
        os.putenv(THREADS, "1")
