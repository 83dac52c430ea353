"""The known-truth server as a separate process: `python -m svload.truth --config FILE [--ready-fd N]`.

Its behaviour and counters are those of the Rust crate `svload-truth`; this package reads the configuration
and ends the server on signals. It does not depend on the rest of svload.
"""

from __future__ import annotations
