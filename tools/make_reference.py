"""Makes docs/reference/ from the code: what is listed there can't disagree with what runs.

make_reference.py           write the pages
make_reference.py --check   exit 1 and name the pages that differ from what the code says now
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
import tempfile
import typing
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
MADE = "<!-- Made by tools/make_reference.py from the code: edit the code, then `make docs`. -->"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    return f"`{text}`"


def page(title: str, *parts: str) -> str:
    return "\n".join([MADE, "", f"# {title}", "", *(part.rstrip("\n") + "\n" for part in parts)])


def sentence(text: str | None) -> str:
    """A docstring as one paragraph."""
    return " ".join(inspect.cleandoc(text or "").split())


# the study file


def study_page() -> str:
    from svload.study import distributions, schema
    from svload.study import schema_traffic as traffic

    parts: list[tuple[str, str, type[Any]]] = [
        ("The study", "", schema.StudyFile),
        ("A service", "lab.NAME", schema.Service),
        ("A set of objects", "data.NAME", schema.Objects),
        ("An exclusion", "exclude[]", schema.ExclusionPart),
        ("A feeder", "feeders.NAME", schema.FeederPart),
        ("A step before each trial", "before_trial[]", schema.StepPart),
        ("A request", "requests.NAME", traffic.RequestPart),
        ("A variable taken from an answer", "requests.NAME.take.NAME", traffic.TakePart),
        ("A step of a scenario", "scenarios.NAME[]", traffic.ScenarioStepPart),
        ("A request of set-up", "setup[]", traffic.SetUpPart),
        ("A body", "requests.NAME.body", traffic.BodyPart),
        ("A traffic group, closed loop", "traffic.NAME with executor constant-vus", traffic.ClosedGroup),
        ("In stages, closed loop", "traffic.NAME with executor ramping-vus", traffic.RampingVusGroup),
        (
            "A fixed amount of work",
            "traffic.NAME with executor shared-iterations or per-vu-iterations",
            traffic.IterationsGroup,
        ),
        (
            "A traffic group, open loop",
            "traffic.NAME with executor constant-arrival-rate",
            traffic.OpenGroup,
        ),
        ("In stages, open loop", "traffic.NAME with executor ramping-arrival-rate", traffic.RampingRateGroup),
        ("A stage of users", "stages[] of ramping-vus", traffic.VusStage),
        ("A stage of a rate", "stages[] of ramping-arrival-rate", traffic.RateStage),
        ("Think time", "think_time", distributions.ThinkTimePart),
        ("Measure", "measure", schema.MeasurePart),
        ("A comparison", "compare[]", schema.ComparisonPart),
        ("A threshold", "thresholds[]", schema.ThresholdPart),
    ]
    texts = [
        "Every key of study.yaml. [study-file.md](../study-file.md) explains them by example; `svload schema` prints the same as a "
        "JSON Schema. ✓ marks values in which a `${…}` may stand.\n"
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
                    "required" if key in properties.get("required", ()) else _default(field.get_default()),
                    "✓" if _takes_reference(shape) else "",
                    field.description or "",
                )
            )
        texts.append(table(("key", "value", "default", "${…}", "meaning"), rows))
    return page("The study file, key by key", *texts)


def _options_of(shape: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for one in shape.get("anyOf", [shape]) if not _is_reference(one)]


def _is_reference(shape: Mapping[str, Any]) -> bool:
    return str(shape.get("pattern", "")).startswith(r"\$\{")


def _takes_reference(shape: Mapping[str, Any]) -> bool:
    return any(_is_reference(one) for one in shape.get("anyOf", ())) or any(
        _takes_reference(one) for one in shape.get("anyOf", ()) if "anyOf" in one
    )


def _shape(shape: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """A JSON Schema in a few words."""
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


def _default(value: Any) -> str:
    """A default as one writes it."""
    if value is None or value in ({}, [], ()):
        return "–"
    if hasattr(value, "model_dump"):
        value = value.model_dump(exclude_none=True)
    if isinstance(value, bool):
        return code("true" if value else "false")
    if isinstance(value, dict):
        return code("{" + ", ".join(f"{key}: {one}" for key, one in value.items()) + "}")
    if isinstance(value, (list, tuple)):
        return code("[" + ", ".join(str(one) for one in value) + "]")
    if isinstance(value, int) and value >= 1_000_000_000 and value % 1_000_000_000 == 0:
        return code(f"{value // 1_000_000_000}s")
    return code(str(value) if value != "" else '""')


# commands


def commands_page() -> str:
    from svload.model.errors import ExitCode

    texts = [
        "## Exit codes\n",
        "Where several apply, the first of 2, 130, 3, 4, 1, 0 is taken.\n",
        table(("code", "name", "when"), [(str(int(one)), one.name, _EXITS[one.name]) for one in ExitCode]),
        "`--json`: stdout is the result, stderr the progress. Runs land in `./runs`, or under `--out DIR`; `latest` is the newest "
        "complete one.\n",
    ]
    for name, text in help_pages().items():
        texts.append(f"## {name}\n\n```text\n{text.strip()}\n```\n")
    return page("Commands and exit codes", *texts)


_EXITS = {
    "DONE": "done; thresholds hold",
    "THRESHOLD_FAILED": "a threshold failed, or a `fail_if` is shown",
    "USAGE": "the study or the command is wrong, a target is not authorised, a run is damaged; nothing was started",
    "LAB_FAILED": "the lab or the machine failed; `svload resume` continues",
    "REFUSED": "a threshold met a case that cannot be believed or has no value: never a pass",
    "INTERRUPTED": "interrupted; `svload resume` continues",
}


def help_pages() -> dict[str, str]:
    """`svload …` → its --help, 100 columns wide, in the order of the program's own list."""
    import typer
    from typer.testing import CliRunner

    from svload.cli.main import app

    runner = CliRunner()

    def ask(words: Sequence[str]) -> str:
        return runner.invoke(app, [*words, "--help"], prog_name="svload", env={"COLUMNS": "100"}).output

    found = {"svload": ask(())}
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        found[f"svload {name}"] = ask((name,))
        for inner in getattr(command, "commands", {}):
            found[f"svload {name} {inner}"] = ask((name, inner))
    return found


# metrics and verdicts


def metrics_page() -> str:
    from svload.model.metrics import CATALOGUE, STATS
    from svload.model.units import units_of

    titles = {
        "traffic": (
            "What the load saw",
            "Of a traffic group: `probe.response.p95`. Without an owner it is the main group's: the first with `client: curl`, else "
            "the last. The definitions of due, ready, begun, written, first byte and done stand in [method.md](../method.md).",
        ),
        "service": (
            "What the servers counted",
            "Of a service: `cache.hit_ratio`. Counters are differences over the load.",
        ),
        "feeder": ("What was really asked", "Of a feeder: `object.early_repeats`."),
    }
    units = {
        "time_s": "s",
        "size_bytes": "bytes",
        "ratio": "share of 1",
        "rate_rps": "1/s",
        "count": "number",
    }
    texts = [
        "Thresholds, `expect`, `compare` and `findings.json` use these names, in the grammar "
        "`[group.|service.|feeder.]metric[.stat] OP value unit`, with OP one of `<= >= == != < >`. Values in `findings.json` are "
        "in the unit given here; a column of SQL carries its unit in its name.\n",
        f"Statistics: {', '.join(code(stat) for stat in STATS)}. A metric without a default statistic is one number. Where there are "
        "too few samples the value is null, with the reason.\n",
        table(
            ("quantity", "units it may be written in"),
            [
                (units[dimension], ", ".join(code(unit) for unit in units_of(dimension)) or "none")
                for dimension in units
            ],
        ),
    ]
    for source, (title, lead) in titles.items():
        rows = [
            (
                code(metric.name),
                units[metric.dimension],
                code(metric.default_stat) if metric.default_stat else "–",
                {"lower": "lower", "higher": "higher", "neither": "–"}[metric.better],
                metric.definition,
            )
            for metric in CATALOGUE.values()
            if metric.source == source
        ]
        texts += [
            f"## {title}\n",
            lead + "\n",
            table(("metric", "unit", "default", "better", "definition"), rows),
        ]
    return page("Metrics", *texts)


def verdicts_page() -> str:
    from svload.analysis import checks, limits, server

    rows = [(code(check.name), sentence(type(check).__doc__)) for check in checks.all_checks()]
    stated = [
        (code(name), code(str(getattr(limits, name))), text)
        for name, text in _documented(Path(limits.__file__))
    ]
    return page(
        "Verdicts",
        "Two on every trial. The **instrument** has the worst grade of its checks; `svload why TRIAL` prints each with its sentence. "
        "[method.md](../method.md) says why.\n",
        table(
            ("instrument", "means"),
            [
                ("VALID", "believe the number"),
                ("WEAK", "usable; the reason is told wherever the number stands"),
                ("REFUSED", "the number is kept and drawn hatched; its block is out of every comparison"),
            ],
        ),
        "## Checks of the instrument\n",
        table(("check", "what it judges"), rows),
        "## The server\n",
        sentence((server.__doc__ or "").partition("\n")[2]) + "\n",
        "## Limits\n",
        "Pairs are (WEAK, REFUSED). Shares are of 1, times in ns where the name says so.\n",
        table(("limit", "value", "meaning"), stated),
    )


def _documented(path: Path) -> list[tuple[str, str]]:
    """The constants of a module that are followed by their docstring."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    found = []
    for one, after in pairwise(body):
        named = isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
        if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found.append((one.targets[0].id, sentence(str(after.value.value))))
    return found


# kits and monitors


def kits_page() -> str:
    from svload import lab
    from svload.lab.catalogue import NOT_YET
    from svload.lab.kit import KitOptions

    common = KitOptions.model_fields
    texts = [
        "A service is `{kit: NAME, …}`. *Change* says what another value of the option costs, and so what a factor over it costs: "
        "`live` and `reload` leave the server running, `restart` brings it up anew, `rebuild` fills it anew too.\n",
        "## Options of every service\n",
        _options({name: field for name, field in common.items() if name not in NOT_YET}),
        f"{' and '.join(code(name) for name in NOT_YET)} are kept for later and refused now.\n",
    ]
    for name, kit in lab.all_kits().items():
        if not kit.__module__.startswith("svload."):
            continue
        texts.append(f"## {name}\n\n{kit.summary}. {sentence(kit.__doc__)}\n")
        tls = [form for form, has in (("`true`", kit.own_tls), ("`hitch`", kit.front)) if has]
        texts.append(f"`tls:` {' or '.join(tls) if tls else 'none'}.{_ignored(kit.ignores)}\n")
        own = {key: field for key, field in kit.Options.model_fields.items() if key not in common}
        if own:
            texts.append(_options(own))
        note = sentence(kit.Options.__doc__).partition(";")[2].strip()
        if note:
            texts.append(note[0].upper() + note[1:] + "\n" if note[0] != "`" else note + "\n")
    return page("Kits", *texts)


def _ignored(names: Sequence[str]) -> str:
    return (
        f" Refused, because they would have no effect: {', '.join(code(name) for name in names)}."
        if names
        else ""
    )


def _options(fields: Mapping[str, Any]) -> str:
    rows = []
    for name, field in fields.items():
        extra = field.json_schema_extra or {}
        rows.append(
            (
                code(name),
                extra.get("unit") or _kind(field.annotation),
                "required" if field.is_required() else _default(field.default),
                extra.get("change", ""),
                field.description or "",
            )
        )
    return table(("option", "value", "default", "change", "meaning"), rows)


def _kind(annotation: Any) -> str:
    """A type in the reader's words."""
    if typing.get_origin(annotation) is Literal:
        return " or ".join(code(str(value)) for value in typing.get_args(annotation))
    inner = [one for one in typing.get_args(annotation) if one is not type(None)]
    if typing.get_origin(annotation) is dict:
        return "mapping"
    if inner:
        return " or ".join(
            dict.fromkeys(_kind(one) for one in inner if isinstance(one, type) or typing.get_origin(one))
        )
    return {int: "whole number", float: "number", str: "text", bool: "true or false", dict: "mapping"}.get(
        annotation, "value"
    )


def monitors_page() -> str:
    from svload.watch.monitors import load_monitors

    texts = [
        "A monitor attaches itself to every service whose facts it can read; `host` to the machine. They are sampled by one process "
        "of its own, on the load's clock; its own cost is the series `sampler`. `_total` is a counter since its process began; a name "
        "ends in its unit, and without one it is a number of things. The series are the view `monitors` of `svload query`.\n"
    ]
    for monitor in load_monitors():
        if not monitor.__module__.startswith("svload."):
            continue
        least = f" At most every {monitor.interval_s:g} s." if monitor.interval_s else ""
        texts.append(
            f"## {monitor.name}\n\n{monitor.summary}. Attaches to: {sentence(monitor.reads.__doc__)}{least}\n"
        )
        texts.append(
            table(("metric", "meaning"), [(code(name), text) for name, text in monitor.metrics.items()])
        )
    return page("Monitors", *texts)


# what a run leaves


def artefacts_page() -> str:
    from svload.model import facts, plan, results, study
    from svload.store.parquet import TABLES

    files: list[tuple[str, type[Any]]] = [
        ("study.lock.json", study.Lock),
        ("plan/NNN.json", plan.Batch),
        ("placement.json", plan.Placement),
        ("trials/TRIAL/summary.json", results.TrialSummary),
        ("trials/TRIAL/lab.json", facts.TrialLab),
        ("trials/TRIAL/seal.json", results.Seal),
        ("derived/findings.json", results.Findings),
    ]
    texts = [
        "A run is a folder. JSON files carry `format`; this svload writes the format given here and reads all older ones. Tables are "
        "Parquet (zstd), little endian; offsets are ns from the load's start.\n",
        table(
            ("file", "format", "what it holds"),
            [(code(name), str(model.FORMAT), _without_name(model)) for name, model in files],
        ),
        table(
            ("file", "what it holds"),
            [
                ("`inputs/`", "what set-up made: tables of objects with their digests"),
                (
                    "`events.jsonl`, `trials/TRIAL/events.jsonl`",
                    "what happened, an event a line: kind, data, wall, monotonic_ns",
                ),
                ("`attempts/TRIAL.aN/`", "an attempt that was stopped or failed: shown, never counted"),
                (
                    "`derived/report.html`, `report.xlsx`, `junit.xml`",
                    "made from the rest by `svload report`; may be deleted",
                ),
                (
                    "`RUN.svload.zip`",
                    "a pack: all of it but reports and logs, in one file that every command reads",
                ),
            ],
        ),
    ]
    parts: dict[str, type[Any]] = {}
    for name, model in files:
        texts += [f"## {name}\n", _fields(model)]
        _gather_parts(model, parts)
    texts.append("## Parts of these\n")
    for name, model in sorted(parts.items()):
        texts.append(f"**{name}.** {sentence(model.__doc__)}\n\n{_fields(model)}")
    for name, columns in TABLES.items():
        texts += [
            f"## trials/TRIAL/{name}.parquet\n",
            table(("column", "type"), [(code(column), kind) for column, kind in columns.items()]),
        ]
    return page("What a run leaves", *texts)


def _without_name(model: type[Any]) -> str:
    """What a file's model says of itself, without the file's name before the colon."""
    head, colon, rest = sentence(model.__doc__).partition(": ")
    return rest if colon and ".json" in head else sentence(model.__doc__)


def _fields(model: type[Any]) -> str:
    """A model's fields; a column of meanings only where it has any."""
    rows = [
        (code(field.alias or key), _annotation(field.annotation), field.description or "")
        for key, field in model.model_fields.items()
    ]
    if any(meaning for _, _, meaning in rows):
        return table(("field", "type", "meaning"), rows)
    return table(("field", "type"), [row[:2] for row in rows])


def _gather_parts(annotation: Any, found: dict[str, type[Any]]) -> None:
    """The models inside a type, by name."""
    for inner in typing.get_args(annotation):
        _gather_parts(inner, found)
    for field in getattr(annotation, "model_fields", {}).values():
        for inner in (field.annotation, *typing.get_args(field.annotation)):
            if hasattr(inner, "model_fields") and inner.__name__ not in found:
                found[inner.__name__] = inner
            if inner is not annotation:
                _gather_parts(inner, found)


def _annotation(annotation: Any) -> str:
    """A field's type, without module names."""
    text = (
        annotation.__name__
        if isinstance(annotation, type) and not typing.get_args(annotation)
        else str(annotation)
    )
    for prefix in (
        "typing.",
        "svload.model.results.",
        "svload.model.study.",
        "svload.model.facts.",
        "svload.model.plan.",
    ):
        text = text.replace(prefix, "")
    return code(text.replace("NoneType", "null").replace("None", "null"))


def views_page() -> str:
    from svload.store import RunDir, query
    from svload.store.sql import VIEWS
    from svload.testing import make_run

    texts = [
        '`svload query RUN "select …"` asks these views; ten worked queries stand in [how-to.md](../how-to.md#ask-in-sql). Sealed '
        "trials only. `cases` has a column for each factor of the study. `-1` in a time column means “did not happen”.\n",
        table(("view", "a row"), [(code(view), meaning) for view, meaning in VIEWS.items()]),
    ]
    with tempfile.TemporaryDirectory() as folder:
        made = make_run(Path(folder), cases=1, replicates=1)
        run = made if isinstance(made, RunDir) else made.run
        factors = {factor.name for factor in run.lock().factors}
        for view in VIEWS:
            _, rows = query(run, f"describe {view}")
            kept = [
                (code(str(row[0])), str(row[1])) for row in rows if view != "cases" or row[0] not in factors
            ]
            texts += [f"## {view}\n", table(("column", "type"), kept)]
    return page("SQL views", *texts)


def errors_page() -> str:
    from svload.model.columns import ERRORS
    from svload.model.errors import CATALOGUE

    rows = [
        (code(kind.code), str(int(kind.exit_code)), kind.sentence, kind.remedy) for kind in CATALOGUE.values()
    ]
    return page(
        "Errors",
        "Every failure you can meet: what happened, and what to do. A message ends with its code in brackets.\n",
        table(("code", "exit", "what happened", "what to do"), rows),
        "## Errors of a request\n",
        "A failed request has one of these (`error_name` in SQL, `errors` in the summary). `status` and `check` are complete answers "
        "that were not what was expected.\n",
        ", ".join(code(name) for name in ERRORS if name) + "\n",
    )


def index_page() -> str:
    return page(
        "Reference",
        "Made from the code. A test holds every page equal to it.\n",
        "\n".join(f"- [{title}]({name})" for name, title in _TITLES.items()) + "\n",
    )


_TITLES = {
    "study.md": "The study file, key by key",
    "commands.md": "Commands and exit codes",
    "metrics.md": "Metrics: units, definitions, statistics",
    "verdicts.md": "Verdicts: checks and limits",
    "kits.md": "Kits and their options",
    "monitors.md": "Monitors and their series",
    "artefacts.md": "What a run leaves: files and formats",
    "views.md": "SQL views",
    "errors.md": "Errors, and what to do",
}
PAGES = {
    "README.md": index_page,
    "study.md": study_page,
    "commands.md": commands_page,
    "metrics.md": metrics_page,
    "verdicts.md": verdicts_page,
    "kits.md": kits_page,
    "monitors.md": monitors_page,
    "artefacts.md": artefacts_page,
    "views.md": views_page,
    "errors.md": errors_page,
}


def make(name: str) -> str:
    """The page of that name as the code says it now."""
    return PAGES[name]()


def main(words: Sequence[str]) -> int:
    os.environ["NO_COLOR"] = "1"
    FOLDER.mkdir(parents=True, exist_ok=True)
    different = []
    for name in PAGES:
        path, text = FOLDER / name, make(name)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        different.append(name)
        if "--check" not in words:
            path.write_text(text, encoding="utf-8")
    strangers = sorted({path.name for path in FOLDER.iterdir()} - set(PAGES))
    for name in [*different, *strangers]:
        print(
            f"docs/reference/{name}: "
            + (
                "not made by this tool"
                if name in strangers
                else "made anew"
                if "--check" not in words
                else "differs"
            )
        )
    return 1 if strangers or ("--check" in words and different) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
