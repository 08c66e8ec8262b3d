"""Walking the arguments and results of calls: arrays may sit in tuples, lists and mappings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ingle.tensor import Tensor


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with `function` applied to whatever is no tuple, list or mapping in it."""
    if isinstance(tree, list | tuple):
        return type(tree)(map_leaves(function, x) for x in tree)
    if isinstance(tree, Mapping):
        return {k: map_leaves(function, x) for k, x in tree.items()}
    return function(tree)


def leaves_of(tree: Any) -> list[Any]:
    """Whatever is no tuple, list or mapping in a tree, in order."""
    found: list[Any] = []
    map_leaves(found.append, tree)
    return found


def map_arrays(function: Callable[[np.ndarray], Any], tree: Any) -> Any:
    """The tree with `function` applied to each NumPy array in it."""
    return map_leaves(lambda x: function(x) if isinstance(x, np.ndarray) else x, tree)


def arrays_of(tree: Any) -> list[np.ndarray]:
    """The NumPy arrays in a tree, in order."""
    found: list[np.ndarray] = []

    def note(array: np.ndarray) -> np.ndarray:
        found.append(array)
        return array

    map_arrays(note, tree)
    return found


def fill_arrays(tree: Any, values: list[Any]) -> Any:
    """The tree with its arrays replaced, in the order of `arrays_of`."""
    rest = iter(values)
    return map_arrays(lambda _: next(rest), tree)


def tensors_of(result: Any) -> list[Tensor]:
    """The tensors that a public function returned: one, or a tuple of them."""
    if isinstance(result, Tensor):
        return [result]
    return [x for part in result for x in tensors_of(part)]


def results_of(expected: Any) -> list[np.ndarray]:
    """What a reference returned, as a list of arrays."""
    if isinstance(expected, list | tuple):
        return [x for part in expected for x in results_of(part)]
    return [np.asarray(expected)]
