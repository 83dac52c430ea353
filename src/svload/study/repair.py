"""A study as it was probably meant: with the nearest words in place, so that one slip does not hide or cause
other mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from svload.study.mistakes import BAD_REFERENCE, BAD_VALUE, UNKNOWN_KEY, UNKNOWN_NAME, Mistake
from svload.study.tree import Node


def repaired(tree: Node, mistakes: Iterable[Mistake]) -> Node:
    """Return `tree` with mistakes replaced by their nearest words; drops parts of a `when` without one."""
    for mistake in mistakes:
        tree = _fixed(tree, mistake)
    return tree


def _fixed(tree: Node, mistake: Mistake) -> Node:
    path, meant = mistake.path, mistake.meant
    is_key = mistake.code == UNKNOWN_KEY or (
        mistake.code == UNKNOWN_NAME and mistake.details.get("name") == path[-1]
    )
    if is_key and meant is not None:
        return _changed(tree, path[:-1], lambda parent: _renamed(parent, str(path[-1]), meant))
    if mistake.code in (UNKNOWN_NAME, BAD_VALUE) and meant is not None:
        return _changed(tree, path, lambda leaf: Node(meant, leaf.place))
    if mistake.code == BAD_REFERENCE and meant is not None:
        wrong = str(mistake.details["reference"])
        return _changed(tree, path, lambda leaf: _replaced(leaf, wrong, f"${{{meant}}}"))
    if mistake.code == UNKNOWN_NAME and "when" in path:
        end = path.index("when") + 1
        if path[0] == "exclude":  # without a part it would leave out more cases than intended
            return _changed(tree, path[:end], lambda when: Node({}, when.place))
        return _changed(tree, path[:end], lambda when: _without(when, str(path[end])))
    return tree


def _changed(node: Node, path: Sequence[str | int], change: Callable[[Node], Node]) -> Node:
    """Return `node` with `change` applied at `path`; unchanged if the path does not exist."""
    if not path:
        return change(node)
    step, rest = path[0], path[1:]
    if isinstance(node.value, dict) and step in node.value:
        return Node({**node.value, str(step): _changed(node.value[str(step)], rest, change)}, node.place)
    if isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
        items = list(node.value)
        items[step] = _changed(items[step], rest, change)
        return Node(items, node.place)
    return node


def _renamed(node: Node, key: str, new: str) -> Node:
    if not isinstance(node.value, dict) or new in node.value:
        return node
    return Node({new if name == key else name: child for name, child in node.value.items()}, node.place)


def _without(node: Node, key: str) -> Node:
    if not isinstance(node.value, dict):
        return node
    return Node({name: child for name, child in node.value.items() if name != key}, node.place)


def _replaced(node: Node, wrong: str, right: str) -> Node:
    return Node(node.value.replace(wrong, right), node.place) if isinstance(node.value, str) else node
