"""Study files, generated from the schema's grammar or mutated from real ones; they are only planned."""

from __future__ import annotations

import copy
import io
import json
import time
import traceback
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from ruamel.yaml import YAML

from svload import api, study
from svload.api import Choices
from svload.lab import kit_options
from svload.model.errors import ExitCode, SvloadError

from .oracle import Case, has_waited

HERE = Path(__file__).parents[2]
REAL = ("studies/0*/*.yaml", "examples/*/study.yaml")
SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 1.5, -0.0, 1e308, 10**30, 2**53, 2**62, 2_000_000_000, 99_999_999_999, "", " ", "x", "0", "w", "a b", "🙂", "ü",
    "\x00", "\x1b[2J", "\x7f", "[/b]", "${x}", "${a}", "${a.b}", "${request.id}", "$${", "${", "${secret.x}", "20s", "1 ms", "0s", "1e9h", "99 %", "4 KiB",
    "9 TiB", "500/s", "1e12/s", "http://w/", "https://w/", "tcp://w", "GET http://w/", "POST http://127.0.0.1:1/x", "http://[::1]:9", "http://a:99999", "g.ramped",
    "constant-vus", "shared-iterations", "ramping-arrival-rate", "../../etc/passwd", "/dev/zero", "c.csv", "t.parquet", "x.pem", "\\", "(", "(?=x)", "(a{999}){999}",
    "status == 200", "body matches (", "sha256 == 0", "header.X present", "w.hits == 0", "response.p95 < 1 s", "x" * 300, "x" * 70_000, "2001-01-01", "0x" + "f" * 99,
)  # fmt: skip
SIGNS = ("", " ", "\n", "\t", "{", "}", "[", "]", ":", "- ", "#", "&a ", "*a", "!!x ", "'", '"', "|", "---\n")
SIGNS += ("\x00", "\ufeff", "${", "0x", "9" * 50, "\\", "\ud800")
FILES = {
    "c.csv": (b"a,b\n1,2\n", b"a\n\xff\n", b"a,a\n1,2\n", b"", b"a,b\n1\n", b"value_bytes\n99999999999999999999\n", b'a\n"x', b"a\x00\n1\n", b"a\n" * 2_000),
    "t.parquet": (b"PAR1" * 9, b""),
    "x.pem": (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", b"x"),
}  # fmt: skip


@cache
def _schema() -> dict[str, Any]:
    return study.json_schema({name: kind.model_json_schema() for name, kind in kit_options().items()})


@cache
def _real() -> list[tuple[Path, str]]:
    return [(path, path.read_text(encoding="utf-8")) for part in REAL for path in sorted(HERE.glob(part))]


@cache
def _trees() -> list[Any]:
    return [YAML(typ="safe", pure=True).load(text) for _, text in _real()]


def one(draw: Random, folder: Path) -> Case:
    """Plan one study under one of its profiles."""
    text = draw.choice((_made, _mutated, _mutated, _struck))(draw)
    (folder / "study.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    for name, kinds in FILES.items():
        if draw.random() < 0.7:
            (folder / name).write_bytes(draw.choice(kinds))
    profile = draw.choice((None, None, "demo", "real"))
    begun, cpu = time.monotonic(), time.process_time()
    try:
        planned = api.plan(str(folder), Choices(profile=profile, out=folder / "runs"))
    except SvloadError as expected:
        late = has_waited(time.monotonic() - begun, time.process_time() - cpu)
        wrong = _told_badly(expected, folder) or late
        return Case("refused", wrong and f"{wrong}\n{text[:3000]}")
    except Exception:
        return Case("internal", f"{traceback.format_exc()[-3000:]}\n{text[:3000]}")
    waited_s, cpu_s = time.monotonic() - begun, time.process_time() - cpu
    if late := has_waited(waited_s, cpu_s):
        return Case("planned", f"plan {late}\n{text[:3000]}")
    json.dumps(planned)
    return Case("planned")


def _told_badly(expected: SvloadError, folder: Path) -> str:
    if expected.exit_code not in (ExitCode.USAGE, ExitCode.LAB_FAILED):
        return f"exit code {expected.exit_code}: {expected}"
    for problem in expected.problems:
        words = str(problem)
        if len(words.replace(str(folder), "")) > 1_200 or "\n" in words:
            return f"a message of {len(words)} signs: {words[:300]}"
        if problem.code == "internal":
            return words
        if problem.code.startswith("study-") and not problem.place.rpartition(":")[2].isdigit():
            return f"a message without its line: {words}"
    return ""


def _made(draw: Random) -> str:
    """Return a study from the grammar; small, and mostly close to a valid one."""
    made = _instance(_schema(), draw, 0)
    base = {
        "name": "x",
        "lab": {"w": {"at": "http://127.0.0.1:1"}},
        "traffic": {"g": {"executor": "constant-vus", "vus": 1, "request": "GET http://w/"}},
        "measure": {"duration": "1s", "replicates": 2},
    }
    sections = list(made) if isinstance(made, dict) else []
    for section in draw.sample(sections, min(len(sections), draw.choice((1, 1, 2, 4)))):
        base[section] = made[section]
    return _yaml(base)


def _instance(schema: dict[str, Any], draw: Random, depth: int) -> Any:
    if "$ref" in schema:
        return _instance(_schema()["$defs"][schema["$ref"].removeprefix("#/$defs/")], draw, depth)
    if draw.random() < 0.015:
        return draw.choice(SCALARS)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return _instance(draw.choice(schema[word]), draw, depth)
    for word in ("enum", "examples"):
        if schema.get(word):
            return draw.choice(schema[word])
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type")
    kind = draw.choice(kind) if isinstance(kind, list) else kind
    if kind == "object" or "properties" in schema:
        return _mapping(schema, draw, depth)
    if kind == "array":
        items = schema.get("prefixItems")
        if items:
            return [_instance(item, draw, depth + 1) for item in items]
        return [_instance(schema.get("items", {}), draw, depth + 1) for _ in range(draw.choice((0, 1, 1, 2, 3)) if depth < 7 else 0)]  # fmt: skip
    plain: dict[str | None, tuple[Any, ...]] = {
        "string": ("w", "g", "a", "f", "x", "${a}", "http://w/", "GET http://w/", "c.csv"),
        "integer": (0, 1, 2, 5, 100, 10**6),
        "number": (0, 0.5, 1, 10),
        "boolean": (True, False),
        "null": (None,),
    }
    return draw.choice(plain.get(kind, SCALARS))


def _mapping(schema: dict[str, Any], draw: Random, depth: int) -> dict[str, Any]:
    known, required = schema.get("properties", {}), schema.get("required", [])
    chance = 0.35 if depth < 3 else 0.12
    found = {
        name: _instance(part, draw, depth + 1)
        for name, part in known.items()
        if (name in required and draw.random() < 0.97) or (depth < 7 and draw.random() < chance)
    }
    more = schema.get("additionalProperties")
    if isinstance(more, dict) and depth < 7:
        for name in draw.sample(("w", "g", "a", "f", "h", "x"), draw.choice((1, 1, 2))):
            found[name] = _instance(more, draw, depth + 1)
    elif draw.random() < 0.03:
        found[draw.choice(("x", "", "when", "${a}", "kit"))] = draw.choice(SCALARS)
    return found


def _mutated(draw: Random) -> str:
    """Return a real study with a few of its values, keys and lists changed."""
    tree = copy.deepcopy(draw.choice(_trees()))
    for _ in range(draw.choice((1, 1, 2, 3, 6))):
        _strike(tree, draw)
    return _yaml(tree)


def _strike(tree: Any, draw: Random) -> None:
    places = every_place(tree)
    if not places:
        return
    holder, key = draw.choice(places)
    match draw.choice(("put", "put", "drop", "rename", "swap", "again", "many", "reshape", "refer", "refer")):
        case "put":
            holder[key] = copy.deepcopy(draw.choice((*SCALARS, [], {}, [[]], {"a": 1})))
        case "drop":
            del holder[key]
        case "rename" if isinstance(holder, dict):
            holder[str(draw.choice(SCALARS))[:80]] = holder.pop(key)
        case "swap":
            other, there = draw.choice(places)
            holder[key], other[there] = copy.deepcopy(other[there]), copy.deepcopy(holder[key])
        case "again" if isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        case "reshape" if isinstance(holder[key], list):
            holder[key] = dict(zip(("make", "w", "0", "x"), holder[key], strict=False))
        case "reshape" if isinstance(holder[key], dict):
            holder[key] = list(holder[key].values())
        case "refer":
            _refer(tree, holder, key, draw)
        case "many":
            holder[key] = [copy.deepcopy(holder[key]) for _ in range(draw.choice((2, 30, 400)))]


def _refer(tree: Any, holder: Any, key: Any, draw: Random) -> None:
    """Replace the value by a reference to a level's field that holds it, or something else."""
    factors = tree.get("factors", {}) if isinstance(tree, dict) else None
    if not isinstance(factors, dict):
        return
    levels = {}
    for name in ("one", "two"):
        values = (holder[key], holder[key], draw.choice(SCALARS), [1], {"a": 1})
        levels[name] = {"k": copy.deepcopy(draw.choice(values))}
    if draw.random() < 0.2:
        levels["two"] = {"other": 1}
    factors["z"] = levels
    ways = ("${z.k}", "${z.k}", "${z.k}", "${z}", "x${z.k}", "${z.k}${z.k}", "$${z.k}", "${z.k.a}")
    holder[key] = draw.choice(ways)
    tree["factors"] = factors


def every_place(tree: Any) -> list[tuple[Any, Any]]:
    """Return (holder, key) of everything in a tree of dicts and lists."""
    found, open_ = [], [tree]
    while open_:
        holder = open_.pop()
        keys = range(len(holder)) if isinstance(holder, list) else holder if isinstance(holder, dict) else ()
        for key in list(keys):
            found.append((holder, key))
            open_.append(holder[key])
    return found


def _struck(draw: Random) -> str:
    """Return a real study's text with changed characters."""
    text = draw.choice(_real())[1]
    for _ in range(draw.choice((1, 2, 5, 20))):
        at = draw.randrange(len(text))
        end = at + draw.choice((0, 1, 1, 5, 60))
        sign = draw.choice(SIGNS)
        text = text[:at] + sign * draw.choice((1, 1, 1, 3, 2_000)) + text[end:]
    return text


def _yaml(value: Any) -> str:
    out = io.StringIO()
    try:
        YAML(typ="safe", pure=True).dump(value, out)
    except Exception:  # a value that YAML cannot write
        return json.dumps(value)
    return out.getvalue()
