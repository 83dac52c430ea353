"""The files of a run, field by field."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable
from typing import Any

from reference.markdown import code, page, sentence, table

TITLE = "What a run writes: files and formats"
Models = list[tuple[str, type[Any]]]


def files() -> Models:
    """Return every file of a run that is an artefact, by its name in the reference."""
    from svload.model import certificates, facts, load_summary, plan, results, seals, stacks, study
    from svload.tables.own import OwnTables

    return [
        ("study.lock.json", study.Lock),
        ("plan/NNN.json", plan.Batch),
        ("placement.json", plan.Placement),
        ("certificates.json", certificates.Certificates),
        ("trials/TRIAL/summary.json", results.TrialSummary),
        ("trials/TRIAL/lab.json", facts.TrialLab),
        ("trials/TRIAL/stacks.json", stacks.Stacks),
        ("trials/TRIAL/seal.json", seals.Seal),
        ("thinned.json", seals.Thinned),
        ("derived/findings.json", results.Findings),
        ("derived/tables.json", OwnTables),
        ("what `svload load --json` prints", load_summary.LoadSummary),
    ]


def parts(models: Models) -> Models:
    """Return the models inside these, by name."""
    found: dict[str, type[Any]] = {}
    for _, model in models:
        _gather_parts(model, found)
    return sorted(found.items())


def untold(models: Iterable[type[Any]]) -> list[str]:
    """Return fields of these models without a docstring: `Seal.facts`."""
    from svload.model.docstrings import of_fields

    return [
        f"{model.__name__}.{key}"
        for model in models
        for key in model.model_fields
        if key not in of_fields(model)
    ]


def make() -> str:
    from svload.model.columns import MEANINGS
    from svload.store.parquet import TABLES

    texts = [
        "A run is a folder. JSON files carry `format`; this svload writes the format given here and reads "
        "all older ones. Tables are "
        "Parquet (zstd), little endian; offsets are ns from the load's start. Metrics have the names and "
        "base units of [metrics.md](metrics.md).\n",
        table(
            ("file", "format", "what it holds"),
            [
                (name if "`" in name else code(name), str(model.FORMAT), _without_name(model))
                for name, model in files()
            ],
        ),
        table(
            ("file", "what it holds"),
            [
                ("`inputs/`", "what set-up made: tables of objects with their digests"),
                (
                    "`events.jsonl`, `trials/TRIAL/events.jsonl`",
                    "what happened, one event per line: kind, data, wall, monotonic_ns",
                ),
                ("`attempts/TRIAL.aN/`", "an attempt that was stopped or failed: shown, never counted"),
                (
                    "`derived/report.html`, `report.xlsx`, `junit.xml`, `summary.md`",
                    "made from the rest by `svload report`; may be deleted",
                ),
                (
                    "`derived/probe.parquet`, `metrics.parquet`, `checks.parquet`",
                    "the workbook's long tables for programs: views of `svload query`",
                ),
                (
                    "`RUN.svload.zip`",
                    "a pack: the run without reports and logs, in one file that every command reads",
                ),
            ],
        ),
    ]
    for name, model in files():
        texts += [f"## {name[0].upper() + name[1:] if '`' in name else name}\n", _fields(model)]
    texts.append("## Parts of these\n")
    for name, model in parts(files()):
        texts.append(f"**{name}.** {sentence(model.__doc__)}\n\n{_fields(model)}")
    for name, columns in TABLES.items():
        texts += [
            f"## trials/TRIAL/{name}.parquet\n",
            table(
                ("column", "type", "meaning"),
                [(code(column), kind, MEANINGS[name][column]) for column, kind in columns.items()],
            ),
        ]
    return page("What a run writes", *texts)


def _without_name(model: type[Any]) -> str:
    """Return the docstring of a file's model, without the file's name before the colon."""
    head, colon, rest = sentence(model.__doc__).partition(": ")
    return rest if colon and ".json" in head else sentence(model.__doc__)


def _fields(model: type[Any]) -> str:
    from svload.model.docstrings import of_fields

    meanings = of_fields(model)
    rows = [
        (code(field.alias or key), _annotation(field.annotation), meanings.get(key, ""))
        for key, field in model.model_fields.items()
    ]
    return table(("field", "type", "meaning"), rows)


def _gather_parts(annotation: Any, found: dict[str, type[Any]]) -> None:
    """Collect the models inside a type, by name."""
    for inner in typing.get_args(annotation):
        _gather_parts(inner, found)
    for field in getattr(annotation, "model_fields", {}).values():
        for inner in (field.annotation, *typing.get_args(field.annotation)):
            if hasattr(inner, "model_fields") and inner.__name__ not in found:
                found[inner.__name__] = inner
            if inner is not annotation:
                _gather_parts(inner, found)


def _annotation(annotation: Any) -> str:
    """Return a field's type, without module names."""
    text = (
        annotation.__name__
        if isinstance(annotation, type) and not typing.get_args(annotation)
        else str(annotation)
    )
    text = re.sub(r"\b(typing|svload(\.\w+)+)\.(?=\w)", "", text)
    text = re.sub(r"^Optional\[(.*)\]$", r"\1 | None", text)
    return code(text.replace("NoneType", "null").replace("None", "null"))
