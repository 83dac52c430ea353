"""A study's thresholds in k6's notation: each is converted to its criterion before any check.

k6 lists them by metric, `http_req_duration: [p(95)<200]`; a study lists them, and an entry may be a pair.
"""

from __future__ import annotations

from svload.study.k6 import NoCriterion, from_k6, is_k6
from svload.study.mistakes import Mistake, bad_criterion
from svload.study.tree import Node, Path, plain

SECTION = "thresholds"
ABORTS = "abortOnFail"
"""In k6's `{threshold: p(95)<200, abortOnFail: true}`: a study has no such threshold, and says so."""


def in_our_criteria(tree: Node) -> tuple[Node, list[Mistake]]:
    """Return `tree` with its thresholds in our notation, and those of k6 that mean nothing here."""
    written = tree.value.get(SECTION) if isinstance(tree.value, dict) else None
    entries = _entries(written) if written else []
    if not entries or written is None or not isinstance(tree.value, dict):
        return tree, []
    mistakes: list[Mistake] = []
    read = [_read(entry, (SECTION, index), mistakes) for index, entry in enumerate(entries)]
    return Node({**tree.value, SECTION: Node(list(read), written.place)}, tree.place), mistakes


def _entries(written: Node) -> list[Node]:
    """Return the thresholds one by one, those of a mapping by k6's metrics too; none for anything else."""
    if isinstance(written.value, list):
        return [one for entry in written.value for one in (_by_metric(entry) or [entry])]
    return _by_metric(written)


def _by_metric(entry: Node) -> list[Node]:
    """Return the thresholds of `{http_req_duration: [p(95)<200, …]}`, with their `when`; else none."""
    value = entry.value
    if not isinstance(value, dict) or not all(key == "when" or is_k6(key) for key in value):
        return []
    when = {"when": value["when"]} if "when" in value else {}
    return [
        _of_pair(metric, one, when)
        for metric, node in value.items()
        if metric != "when"
        for one in (node.value if isinstance(node.value, list) else [node])
    ]


def _of_pair(metric: str, expression: Node, beside: dict[str, Node]) -> Node:
    """Return one threshold in a study's form, still in k6's notation."""
    if isinstance(expression.value, dict) and "threshold" in expression.value:
        long = expression.value
        if ABORTS in long and long[ABORTS].value is not False:
            beside = beside | {ABORTS: long[ABORTS]}
        expression = long["threshold"]
    text = Node(f"{metric}: {plain(expression)}", expression.place)
    return Node({**beside, "that": text}, expression.place) if beside else text


def _read(entry: Node, path: Path, mistakes: list[Mistake]) -> Node:
    if isinstance(entry.value, dict) and "that" in entry.value:
        that = _read(entry.value["that"], (*path, "that"), mistakes)
        return Node({**entry.value, "that": that}, entry.place)
    if not isinstance(entry.value, str):
        return entry
    try:
        criterion = from_k6(entry.value)
    except NoCriterion as why:
        mistakes.append(bad_criterion(path, entry.value, str(why), why.hint))
        return entry
    return entry if criterion is None else Node(criterion, entry.place)
