"""The known-truth server as a process of its own: `python -m svload.truth --config FILE [--ready-fd N]`.

Its behaviour and counters are those of the Rust crate `svload-truth`; this room reads the configuration and
turns signals into its end. It knows nothing of the rest of svload.
"""

from __future__ import annotations
