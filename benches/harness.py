"""Common parts of all benches: the command line, the table, and strangers."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benches.measure import busy_share

KEPT = Path("build/bench")
SPELL_S = 0.5
"""Mean length of a stranger's busy spell; its idle spells follow from its share."""
HOG = """
import os, random, sys, time
draw, share, spell = random.Random(int(sys.argv[1])), float(sys.argv[3]), float(sys.argv[4])
while os.getppid() == int(sys.argv[2]):
    end = time.monotonic() + draw.expovariate(1 / spell)
    while time.monotonic() < end:
        pass
    time.sleep(draw.expovariate(share / (1 - share) / spell))
"""


def arguments(doc: str | None, given: Sequence[str] | None = None, **options: Any) -> argparse.Namespace:
    """Parse a bench's options, each given by its default: False is a switch, a list of names takes some of
    them, a list of numbers takes any, a tuple is a word that must be one of these, and a type is an option
    without a default. The bench's docstring explains them."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in options.items():
        flag = f"--{name.replace('_', '-')}"
        if default is False:
            parser.add_argument(flag, action="store_true")
        elif isinstance(default, type):
            parser.add_argument(flag, type=default)
        elif isinstance(default, tuple):
            parser.add_argument(name, choices=default)
        elif isinstance(default, list):
            kind = type(default[0])
            choices = default if kind is str else None
            parser.add_argument(flag, nargs="+", type=kind, default=default, choices=choices)
        else:
            parser.add_argument(flag, type=type(default), default=default)
    return parser.parse_args(given)


def markdown(columns: str, rows: Iterable[Sequence[object]]) -> str:
    """Return a table, with a line break at its end; the columns' names are separated by `|`."""
    names = columns.split("|")
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def page(bench: str) -> Path:
    """Return the path of the committed page with a bench's table, given the bench's file."""
    return Path(bench).with_suffix(".md")


def publish(path: Path | None, text: str) -> None:
    """Print a page, and write it if there is a path."""
    print(text, end="")
    if path is not None:
        path.write_text(text, encoding="utf-8")


def more_to_run() -> int:
    """Say that the minutes ended before everything was run; return the exit code."""
    print("there is more to run: call it again", file=sys.stderr)
    return 3


@contextmanager
def strangers(share: float, seed: int) -> Iterator[None]:
    """Keep the machine busy for this share of the time, including everything else that runs on it: one
    process for each core, in spells. They end with this process. A share of 0 adds nothing."""
    hogs = []
    if share > 0:
        others = busy_share(2.0)
        missing = min(max((share - others) / max(1 - others, 0.01), 0.01), 0.99)
        words = [str(os.getpid()), str(missing), str(SPELL_S)]
        for core in sorted(os.sched_getaffinity(0)):
            draw = random.Random(f"{seed} {core}").randrange(2**31)
            hogs.append(subprocess.Popen([sys.executable, "-S", "-c", HOG, str(draw), *words]))
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
