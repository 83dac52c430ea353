"""The study file, key by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reference.markdown import code, default, page, sentence, table

TITLE = "The study file, key by key"


def make() -> str:
    from svload.study import distributions, schema
    from svload.study import schema_requests as requests
    from svload.study import schema_scenarios as scenarios
    from svload.study import schema_traffic as traffic

    parts: list[tuple[str, str, type[Any]]] = [
        ("The study", "", schema.StudyFile),
        ("A service", "lab.NAME", schema.Service),
        ("A set of objects", "data.NAME", schema.Objects),
        ("An exclusion", "exclude[]", schema.ExclusionPart),
        ("A feeder", "feeders.NAME", schema.FeederPart),
        ("A step before each trial", "before_trial[]", schema.StepPart),
        ("A request", "requests.NAME", requests.RequestPart),
        ("A variable taken from an answer", "requests.NAME.take.NAME", requests.TakePart),
        ("A step of a scenario", "scenarios.NAME[]", scenarios.ScenarioStepPart),
        ("A request of set-up", "setup[]", scenarios.SetUpPart),
        ("A body", "requests.NAME.body", requests.BodyPart),
        ("A traffic group, closed loop", "traffic.NAME with executor constant-vus", traffic.ClosedGroup),
        ("In stages, closed loop", "traffic.NAME with executor ramping-vus", traffic.RampingVusGroup),
        (
            "A fixed amount of work",
            "traffic.NAME with executor shared-iterations or per-vu-iterations",
            traffic.IterationsGroup,
        ),
        ("A traffic group, open loop", "traffic.NAME with executor constant-arrival-rate", traffic.OpenGroup),
        ("In stages, open loop", "traffic.NAME with executor ramping-arrival-rate", traffic.RampingRateGroup),
        ("A stage of users", "stages[] of ramping-vus", traffic.VusStage),
        ("A stage of a rate", "stages[] of ramping-arrival-rate", traffic.RateStage),
        ("Think time", "think_time", distributions.ThinkTimePart),
        ("Measure", "measure", schema.MeasurePart),
        ("A comparison", "compare[]", schema.ComparisonPart),
        ("A threshold", "thresholds[]", schema.ThresholdPart),
    ]
    texts = [
        "Every key of study.yaml. [study-file.md](../study-file.md) explains them by example; `svload "
        "schema` prints the same as a "
        "JSON Schema. ✓ marks values other than texts that a `${…}` may replace. A text may contain one, except in what is read "
        "[before the cases are made](../study-file.md#factors-one-rule).\n"
    ]
    for title, where, model in parts:
        texts.append(f"## {title}\n")
        if where:
            texts.append(f"{code(where)}: {sentence(model.__doc__)}\n")
        properties = model.model_json_schema()
        rows = []
        for key, shape in properties["properties"].items():
            field = next(field for name, field in model.model_fields.items() if key in (name, field.alias))
            rows.append(
                (
                    code(key),
                    _shape(shape, properties.get("$defs", {})),
                    "required" if key in properties.get("required", ()) else default(field.get_default()),
                    "✓" if _takes_reference(shape) else "",
                    field.description or "",
                )
            )
        texts.append(table(("key", "value", "default", "${…}", "meaning"), rows))
    return page(TITLE, *texts)


def _options_of(shape: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for one in shape.get("anyOf", [shape]) if not _is_reference(one)]


def _is_reference(shape: Mapping[str, Any]) -> bool:
    return str(shape.get("pattern", "")).startswith(r"\$\{")


def _takes_reference(shape: Mapping[str, Any]) -> bool:
    return any(_is_reference(one) for one in shape.get("anyOf", ())) or any(
        _takes_reference(one) for one in shape.get("anyOf", ()) if "anyOf" in one
    )


def _shape(shape: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return a JSON Schema in a few words."""
    if "$ref" in shape:
        return "mapping"
    found: list[str] = []
    for one in _options_of(shape):
        if "anyOf" in one:
            found.append(_shape(one, definitions))
        elif "enum" in one:
            found += [code(str(value)) for value in one["enum"]]
        elif "const" in one:
            found.append(code(str(one["const"])))
        elif one.get("examples"):
            found.append(f"such as {', '.join(code(str(value)) for value in one['examples'])}")
        elif one.get("type") == "array":
            inner = _shape(one["items"], definitions) if one.get("items") else "values"
            found.append(f"list of {inner}")
        elif "$ref" in one or one.get("type") == "object":
            found.append("mapping")
        elif one.get("type") != "null":
            types = one.get("type", "any")
            found += [_TYPES.get(kind, kind) for kind in ([types] if isinstance(types, str) else types)]
    words = " or ".join(dict.fromkeys(found))
    alone, _, listed = words.partition(" or list of ")
    return f"{alone}; or a list" if alone == listed else words


_TYPES = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}
