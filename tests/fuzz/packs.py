"""Packs and runs with altered, missing, swapped or linked files, and every command that reads them."""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
import warnings
import zipfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from .oracle import Case, command
from .studies import every_place

PACKS = Path(__file__).parents[1] / "packs"
ODD: tuple[Any, ...] = (None, True, 0, -1, 1e308, 10**40, "", "x", "\x1b[2J", "../../x", "/etc/passwd", [], {}, [[]], "x" * 9_000, "\ud800", float("inf"))  # fmt: skip

PLACES = ("../x", "/x", "a\\b", "trials/../x", "study.lock.json", "trials/x/seal.json", "x" * 300)
WAYS = ("flip", "flip", "drop", "cut", "empty", "swap", "link", "pipe", "folder", "drop folder", "mode")
WAYS += ("json",) * 3


@cache
def _packs() -> list[bytes]:
    return [path.read_bytes() for path in sorted(PACKS.glob("*.svload.zip"))]


def one(draw: Random, folder: Path) -> Case:
    """Read one damaged run by one command."""
    pack = draw.choice(_packs())
    if draw.random() < 0.4:
        run = folder / "x.svload.zip"
        run.write_bytes(_zip(pack, draw))
    else:
        run = folder / "x-1"
        with zipfile.ZipFile(io.BytesIO(pack)) as archive:
            archive.extractall(run)
        for _ in range(draw.choice((1, 1, 1, 2, 4))):
            _damage(run, draw)
    environment = {"XDG_CACHE_HOME": str(folder / "cache"), "XDG_STATE_HOME": str(folder / "state")}
    return command(_words(run, draw), folder, environment)


def _words(run: Path, draw: Random) -> list[str]:
    trial = draw.choice(("TC0.r1", "TC1.r1", "x"))
    return draw.choice(
        [
            ["why", trial, "--run", str(run)],
            ["report", str(run)],
            ["export", str(run), "-f", "csv", "--to", "exported"],
            ["export", str(run), "-f", "openmetrics", "--to", "exported"],
            ["export", str(run), "-f", "parquet", "--to", "exported"],
            ["compare", str(run), str(run)],
            ["query", str(run), "SELECT * FROM trials"],
            ["query", str(run), "SELECT * FROM metrics", "--json"],
            ["verify", str(run)],
            ["verify", str(run), "--json"],
            ["pack", str(run), "--out", "y.svload.zip"],
        ]
    )


def _zip(pack: bytes, draw: Random) -> bytes:
    if draw.random() < 0.4:
        return flipped(pack, draw)
    warnings.simplefilter("ignore", UserWarning)  # the duplicate name is intended
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(pack)) as source,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        names = source.namelist()
        struck = set(draw.sample(names, draw.choice((1, 2, 4))))
        for name in names:
            data = source.read(name)
            if name in struck:
                match draw.choice(("drop", "flip", "rename", "twice", "swap", "json")):
                    case "drop":
                        continue
                    case "flip":
                        data = flipped(data, draw)
                    case "rename":
                        name = draw.choice(PLACES)
                    case "twice":
                        target.writestr(name, data)
                    case "swap":
                        data = source.read(draw.choice(names))
                    case "json":
                        data = _odd_json(data, draw)
            target.writestr(name, data)
    return out.getvalue()


def _damage(run: Path, draw: Random) -> None:
    files = sorted(path for path in run.rglob("*") if path.is_file() and not path.is_symlink())
    if not files:
        return
    path = draw.choice(files)
    match draw.choice(WAYS):
        case "flip":
            path.write_bytes(flipped(path.read_bytes(), draw))
        case "drop":
            path.unlink()
        case "cut":
            data = path.read_bytes()
            path.write_bytes(data[: draw.randrange(len(data) + 1)])
        case "empty":
            path.write_bytes(b"")
        case "swap":
            path.write_bytes(draw.choice(files).read_bytes())
        case "link":
            path.unlink()
            path.symlink_to(draw.choice(("/etc/passwd", "/dev/zero", str(files[0]), str(path))))
        case "pipe":
            path.unlink()
            os.mkfifo(path)
        case "folder":
            path.unlink()
            path.mkdir()
        case "json":
            found = [one for one in files if one.suffix in (".json", ".jsonl") and one.exists()]
            if found:
                path = draw.choice(found)
                path.write_bytes(_odd_json(path.read_bytes(), draw))
        case "drop folder":
            shutil.rmtree(path.parent, ignore_errors=True) if path.parent != run else path.unlink()
        case "mode":
            path.chmod(0)


def flipped(data: bytes, draw: Random) -> bytes:
    found = bytearray(data)
    for _ in range(draw.choice((1, 1, 3, 30))):
        if found:
            found[draw.randrange(len(found))] = draw.randrange(256)
    return bytes(found)


def _odd_json(data: bytes, draw: Random) -> bytes:
    """Replace one value of the JSON, or of one of its lines, by another."""
    lines = data.decode("utf-8", "replace").splitlines()
    whole = data.lstrip()[:1] == b"{" and len(lines) > 1 and not lines[0].endswith("}")
    at = 0 if whole or not lines else draw.randrange(len(lines))
    try:
        tree = json.loads(data if whole else lines[at])
    except (ValueError, IndexError):
        return flipped(data, draw)
    if draw.random() < 0.03:
        return b'{"format": 1, "source": ' + b"[" * 50_000
    places = every_place(tree)
    for _ in range(draw.choice((1, 1, 2, 5))):
        if not places:
            break
        holder, key = draw.choice(places)
        if key not in holder if isinstance(holder, dict) else key >= len(holder):
            continue
        if draw.random() < 0.25:
            del holder[key]
        else:
            holder[key] = draw.choice(ODD)
    text = json.dumps(tree)
    if whole:
        return text.encode()
    lines[at] = text
    return ("\n".join(lines) + "\n").encode()


def ready() -> None:
    """Load what the commands need, so that forks have it."""
    from svload.host.process.algebra import stay_single_threaded

    stay_single_threaded()  # a fork has only one thread
    with tempfile.TemporaryDirectory(prefix="svload-fuzz-") as folder:
        import svload.analysis
        import svload.api
        import svload.cli.app
        import svload.report
        import svload.store  # noqa: F401

        run = Path(folder) / "x.svload.zip"
        run.write_bytes(_packs()[-1])
        command(["verify", str(run)], Path(folder), {"XDG_CACHE_HOME": folder})
