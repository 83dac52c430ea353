"""The study file's JSON Schema, for editors: completion, documentation on hover, mistakes while typing."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from svload.study.schema import StudyFile

Json = dict[str, Any]
_REFERENCE: Json = {"type": "string", "pattern": r"\$\{.+\}"}
_SHORT_FORMS = {"command": "run", "external": "at"}
"""Kits that a service need not name: their own key identifies them."""


def json_schema(kits: Mapping[str, Json] | None = None) -> Json:
    """Return the schema of study.yaml. `kits` maps a kit's name to the JSON Schema of its options, which are
    then checked too."""
    schema = StudyFile.model_json_schema()
    definitions: Json = schema["$defs"]
    if kits:
        kinds = [_service(name, copy.deepcopy(options), definitions) for name, options in kits.items()]
        schema["properties"]["lab"]["additionalProperties"] = {"anyOf": kinds}
    profile = {key: part for key, part in schema["properties"].items() if key != "profiles"}
    partial = {f"partial.{name}": _relaxed(part) for name, part in definitions.items()}
    definitions |= partial
    definitions["profile"] = {
        "type": "object",
        "description": "What this profile changes: mappings merge, lists and distributions are replaced, and "
        "so is a service whose kit changes.",
        "properties": _relaxed(profile),
        "additionalProperties": False,
    }
    schema["properties"]["profiles"]["additionalProperties"] = {"$ref": "#/$defs/profile"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "svload study"}


def _service(kit: str, options: Json, definitions: Json) -> Json:
    """Return the schema of a service of `kit`; its options' definitions move to the whole schema's."""
    for name, part in options.pop("$defs", {}).items():
        definitions[f"{kit}.{name}"] = _renamed(part, f"{kit}.")
    own = _renamed(options, f"{kit}.")
    properties = {
        name: {"description": part.pop("description", ""), "anyOf": [part, _REFERENCE]}
        for name, part in own.get("properties", {}).items()
    }
    short = _SHORT_FORMS.get(kit)
    definitions[f"service.{kit}"] = {
        "type": "object",
        "title": f"{kit} service",
        "properties": {
            "kit": {"anyOf": [{"const": kit}, _REFERENCE], "description": "which kind of server"},
            **properties,
        },
        "required": [*own.get("required", []), *([] if short else ["kit"])],
        "additionalProperties": False,
    }
    return {"$ref": f"#/$defs/service.{kit}"}


def _renamed(part: Any, prefix: str) -> Any:
    """Return `part` with its references pointing to definitions with that prefix."""
    if isinstance(part, dict):
        return {
            key: f"#/$defs/{prefix}{child.rpartition('/')[2]}"
            if key == "$ref" and isinstance(child, str)
            else _renamed(child, prefix)
            for key, child in part.items()
        }
    return [_renamed(child, prefix) for child in part] if isinstance(part, list) else part


def _relaxed(part: Any) -> Any:
    """Return `part` with nothing required, as in a profile: the study has what it leaves out."""
    return _renamed(_without_required(part), "partial.")


def _without_required(part: Any) -> Any:
    if isinstance(part, dict):
        return {
            key: _without_required(child)
            for key, child in part.items()
            if not (key == "required" and isinstance(child, list)) and key != "minProperties"
        }
    return [_without_required(child) for child in part] if isinstance(part, list) else part
