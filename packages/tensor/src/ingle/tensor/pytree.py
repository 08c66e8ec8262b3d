"""Nested tuples, lists, dicts and nodes of values, taken apart and put together again."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self


class Node:
    """A base for classes whose instances are trees: what is done to a tree is done to their parts.

    Transforms, `compile` and the like then take and return them as they do tuples.
    """

    __slots__ = ()

    def children(self) -> tuple[Any, ...]:
        """The parts, trees themselves."""
        raise NotImplementedError

    def outline(self) -> Any:
        """What else it holds, as a key: two that differ here are not recorded alike."""
        return None

    def with_children(self, children: tuple[Any, ...]) -> Self:
        """The same with other parts, in the same order."""
        raise NotImplementedError


def flatten(tree: Any) -> list[Any]:
    """The leaves, from left to right; a dict's in the order of its keys' insertion.

    >>> from ingle.tensor.pytree import flatten
    >>> flatten({"a": [1, 2], "b": (3, None)})
    [1, 2, 3, None]
    """
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in flatten(value)]
    if isinstance(tree, (tuple, list)):
        return [leaf for value in tree for leaf in flatten(value)]
    if isinstance(tree, Node):
        return flatten(tree.children())
    return [tree]


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same structure with `function` applied to each leaf.

    >>> from ingle.tensor.pytree import tree_map
    >>> tree_map(lambda x: x * 2, {"a": [1, 2], "b": (3,)})
    {'a': [2, 4], 'b': (6,)}
    """
    if isinstance(tree, dict):
        mapped = {key: tree_map(function, value) for key, value in tree.items()}
        if type(tree) is dict:
            return mapped
        # With what else it is made of, such as the factory of a defaultdict.
        like = copy.copy(tree)
        for key, value in mapped.items():
            like[key] = value
        return like
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(tree_map(function, value) for value in tree))
    if type(tree) is list or isinstance(tree, tuple):
        return type(tree)(tree_map(function, value) for value in tree)
    if isinstance(tree, list):
        items = copy.copy(tree)
        items[:] = [tree_map(function, value) for value in tree]
        return items
    if isinstance(tree, Node):
        return tree.with_children(tree_map(function, tree.children()))
    return function(tree)


def unflatten(tree: Any, leaves: list[Any]) -> Any:
    """The structure of `tree` with other leaves, in the order of `flatten`."""
    rest = iter(leaves)
    return tree_map(lambda _: next(rest), tree)
