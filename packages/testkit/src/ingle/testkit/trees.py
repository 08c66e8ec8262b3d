"""Walking the arguments and results of calls: arrays may sit in tuples, lists and mappings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ingle.tensor import Tensor


def map_arrays(function: Callable[[np.ndarray], Any], tree: Any) -> Any:
    """The tree with `function` applied to each NumPy array in it."""
    if isinstance(tree, np.ndarray):
        return function(tree)
    if isinstance(tree, list | tuple):
        return type(tree)(map_arrays(function, x) for x in tree)
    if isinstance(tree, Mapping):
        return {k: map_arrays(function, x) for k, x in tree.items()}
    return tree


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
