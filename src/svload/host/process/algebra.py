"""No threads for OpenBLAS, which numpy and scipy load: it starts one thread per core, which would spin on the
load's cores, for products larger than any computed here."""

from __future__ import annotations

import os

THREADS = "OPENBLAS_NUM_THREADS"
_ALIKE = (THREADS, "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
"""The variables that OpenBLAS reads, in this order."""


def stay_single_threaded() -> None:
    """Make numpy and scipy, if loaded after this, start no threads; the user's own settings take precedence.

    It changes only the C library's environment: `os.environ` stays the user's, since it is for the user's
    servers.
    """
    if not any(name in os.environ for name in _ALIKE):
        os.putenv(THREADS, "1")
