"""The study behind `svload load URL`: one service, one group, one trial; the same river as any other study. Pure."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

from svload.model.unix_url import split_unix_url


def quick_study(
    url: str,
    vus: int | None = None,
    rate_rps: float | None = None,
    max_vus: int | None = None,
    iterations: int | None = None,
    duration: str = "10s",
    ca_file: Path | None = None,
    timeout: str = "30s",
) -> str:
    """The text of a study that loads `url`: closed loop with `vus` (default 64) users, or open at `rate_rps`.

    With `iterations` the users make so many requests together, and `duration` is the most that it may take.
    `ca_file` lies beside the study, as every file that a study names.
    """
    text = url if "://" in url else f"http://{url}"
    parts = urlsplit(text)
    at = f"{parts.scheme}://{parts.netloc}"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if local := split_unix_url(text):
        at, path = local.server, local.path
    server: dict[str, object] = {"at": at}
    if ca_file is not None:
        server["ca_file"] = ca_file.name
    group: dict[str, object] = {"executor": "constant-vus", "vus": vus or 64}
    if iterations is not None:
        users = min(vus or 64, iterations)
        group = {"executor": "shared-iterations", "vus": users, "iterations": iterations, "start": "together"}
    elif rate_rps is not None:
        group = {"executor": "constant-arrival-rate", "rate": f"{rate_rps:g}/s"}
        if max_vus is not None:
            group["max_vus"] = max_vus
    study = {
        "name": "load",
        "question": f"How does {url} answer?",
        "lab": {"server": server},
        "requests": {
            "get": {"get": f"{parts.scheme}://server{path.replace('${', '$${')}", "timeout": timeout}
        },
        "traffic": {"load": {**group, "request": "get"}},
        "measure": {"duration": duration, "replicates": 1},
    }
    return json.dumps(study, ensure_ascii=False, indent=1) + "\n"
