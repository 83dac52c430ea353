"""Transfer of files between the agent's machine and the controller, in parts that fit into a message."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path
from typing import Any

from svload.model.errors import fail

PART_BYTES = 8 << 20


def collect(request: dict[str, Any]) -> dict[str, Any]:
    """Return at most `max_bytes` of a regular file from `offset`. Raises SvloadError agent-refused."""
    path, offset = request["path"], int(request.get("offset", 0))
    wanted = min(int(request.get("max_bytes", PART_BYTES)), PART_BYTES)
    try:
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise fail("agent-refused", reason=f"{path} is not a file", hint="")
            file.seek(offset)
            data = file.read(wanted)
    except OSError as why:
        raise fail("agent-refused", reason=f"{path} cannot be read: {why.strerror}", hint="") from why
    return {"kind": "COLLECT", "data": base64.b64encode(data).decode("ascii"), "more": len(data) == wanted}


def put(request: dict[str, Any]) -> dict[str, Any]:
    """Write the next part of a file, which gets its name with the last. Raises SvloadError agent-refused."""
    path, offset = Path(request["path"]), int(request["offset"])
    data, mode = base64.b64decode(request["data"]), int(request["mode"])
    fresh = path.with_name(f".{path.name}.svload-new")
    try:
        if offset == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh.unlink(missing_ok=True)
        created = os.O_CREAT | os.O_EXCL if offset == 0 else 0
        with open(os.open(fresh, os.O_WRONLY | os.O_NOFOLLOW | created, 0o600), "wb") as file:
            if (size := os.fstat(file.fileno()).st_size) != offset:
                raise fail(
                    "agent-refused", reason=f"{path}: a part at {offset} came after {size} bytes", hint=""
                )
            file.seek(offset)
            file.write(data)
            if not request["more"]:
                os.fchmod(file.fileno(), mode)
                file.flush()
                os.fsync(file.fileno())
        if not request["more"]:
            os.replace(fresh, path)
    except OSError as why:
        fresh.unlink(missing_ok=True)
        raise fail("agent-refused", reason=f"{path} could not be written: {why.strerror}", hint="") from why
    return {"kind": "READY"}
