"""The published JSON Schema of findings.json."""

from __future__ import annotations

import json

TITLE = "JSON Schema of findings.json (also: `svload schema findings`)"


def make() -> str:
    from svload import api

    return json.dumps(api.findings_schema(), ensure_ascii=False, indent=1) + "\n"
