"""Conversion of the output of `perf script` to folded stacks. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from svload.model.stacks import KERNEL, joined

FIELDS = "comm,pid,tid,time,ip,sym,dso"
"""The argument of `perf script -F`; the parser below reads exactly this."""
UNKNOWN = "[unknown]"
MOST_FRAMES = 100
"""From deeper stacks, such as those of a recursion, the outermost functions are left out."""
MOST_STACKS = 5_000
"""Distinct stacks that are kept, the most frequent ones; the others end in `OTHER`."""
OTHER = "[other stacks]"
_LONGEST_NAME = 200

_HEAD = re.compile(r"\s*(?P<comm>\S.*?)\s+(?P<pid>-?\d+)/\s*-?\d+\s+(?P<s>\d+)\.(?P<fraction>\d+):\s*")
_FORK = re.compile(r".*: PERF_RECORD_FORK\((?P<child>\d+):\d+\):\((?P<parent>\d+):\d+\)\s*")
_FRAME = re.compile(r"\s+(?P<ip>[0-9a-f]+)\s+(?P<symbol>.*) \((?P<dso>.*)\)\s*")
_COMM = re.compile(r".*: PERF_RECORD_COMM(?: exec)?: (?P<comm>.*):(?P<pid>\d+)/\d+\s*")
_LOST = re.compile(r".*PERF_RECORD_LOST(?:_SAMPLES)?\b.*\blost (?P<count>\d+)")
_CLONE = re.compile(r"\s*\[clone [^\]]*\]|\.(isra|part|constprop|cold|lto_priv)\.\d+|\.cold$")
_KERNEL_HALF = 1 << 63


class Folded(NamedTuple):
    """Samples of a window: stack → count; and how many the sampler lost in total."""

    stacks: dict[str, int]
    samples: int
    lost: int = 0


def fold(lines: Iterable[str], roots: Collection[int], from_ns: int, to_ns: int) -> Folded:
    """Return the samples of the processes `roots`, and of all that they start, with times in [from_ns, to_ns)
    by the clock that they were stamped with.

    A sample is a line `comm pid/tid seconds:`, then a line per function, the innermost first, then an empty
    line. Between samples are lines on forks. Other lines are skipped.
    """
    counts: Counter[tuple[str, ...]] = Counter()
    family = set(roots)
    names: dict[int, str] = {}
    lost = 0
    comm, frames, inside = "", list[str](), False
    for line in lines:
        if inside and (frame := _FRAME.fullmatch(line)):
            frames.append(_function(int(frame["ip"], 16), frame["symbol"], frame["dso"]))
            continue
        if frames:
            counts[(comm, *reversed(frames[:MOST_FRAMES]))] += 1
            frames = []
        if head := _HEAD.fullmatch(line):
            pid = int(head["pid"])
            if not head["comm"].startswith(":"):  # perf's word for a thread that has ended
                names[pid] = _name(head["comm"])
            comm = names.get(pid, UNKNOWN)
            inside = pid in family and from_ns <= _ns(head["s"], head["fraction"]) < to_ns
        elif fork := _FORK.fullmatch(line):
            child, parent = int(fork["child"]), int(fork["parent"])
            _take_in(family, roots, child, parent)
            if parent in names:
                names.setdefault(child, names[parent])
        elif named := _COMM.fullmatch(line):
            names.setdefault(int(named["pid"]), _name(named["comm"]))
        elif gone := _LOST.match(line):
            lost += int(gone["count"])
    if frames:
        counts[(comm, *reversed(frames[:MOST_FRAMES]))] += 1
    return Folded(_bounded(counts), counts.total(), lost)


def _take_in(family: set[int], roots: Collection[int], child: int, parent: int) -> None:
    """Put a child into its parent's family, or out of it: its number may be that of one that has ended."""
    if parent in family:
        family.add(child)
    elif child not in roots:
        family.discard(child)


def _ns(seconds: str, fraction: str) -> int:
    return int(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9])


def _function(address: int, symbol: str, dso: str) -> str:
    """Return a function's name, marked in the kernel; one without a name gets its file in brackets."""
    in_kernel = address >= _KERNEL_HALF
    if symbol.strip() in ("", UNKNOWN):
        file = dso.rpartition("/")[2].strip("[]")
        return f"[kernel]{KERNEL}" if in_kernel else f"[{file}]" if file != "unknown" else UNKNOWN
    return _name(short_name(symbol)) + (KERNEL if in_kernel else "")


def _name(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


def short_name(symbol: str) -> str:
    """Return a name without its parameters, anonymous namespaces and the compiler's clones: `(anonymous
    namespace)::send_file(int) [clone .isra.0]` is `send_file`."""
    symbol = _CLONE.sub("", symbol).replace("(anonymous namespace)::", "").strip()
    if "operator()" in symbol or "{lambda(" in symbol:
        return symbol
    depth = 0
    for at, sign in enumerate(symbol):
        if sign == "(" and at and depth <= 0:
            return symbol[:at]
        depth += (sign == "<") - (sign == ">")
    return symbol


def _bounded(counts: Counter[tuple[str, ...]]) -> dict[str, int]:
    """Return the most frequent stacks by their text; the rest is counted under the process's name."""
    found: Counter[str] = Counter()
    for place, (frames, count) in enumerate(counts.most_common()):
        found[joined(list(frames) if place < MOST_STACKS else [frames[0], OTHER])] += count
    return dict(found)
