"""The native engine's face; engine/README.md is its contract."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

# (kind, data): little-endian contiguous bytes for a numeric kind, list[str] for "utf8".
Column: TypeAlias = tuple[str, Any]
Table: TypeAlias = dict[str, Column]

def run_share(
    share: str, inputs: Mapping[str, Mapping[str, Column]], sink: Callable[[str], None]
) -> dict[str, Table]: ...
def share_fault(share: str, inputs: Mapping[str, Mapping[str, Column]]) -> tuple[str, str] | None: ...
def changed_rows(
    share: str, inputs: Mapping[str, Mapping[str, Column]]
) -> list[tuple[str, str, str, str, list[int]]]: ...
def error_names() -> list[str]: ...
def truth_serve(config: str, ready_fd: int, stop_fd: int) -> str: ...
