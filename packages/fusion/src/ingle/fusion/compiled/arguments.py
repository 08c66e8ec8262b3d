"""What a compiled function is called with: what may change, what is compared, what is refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from ingle.tensor import Cell, Gradients, Tensor
from ingle.tensor.followed import is_followed, is_number
from ingle.tensor.pytree import Node, flatten

from ..errors import CompileError
from ..record.ambient_state import ambient
from .snapshots import Same, content, is_users, name_of, seen, shows_array


def key_of(args: Any, kwargs: Any, leaves: Sequence[Any]) -> Hashable:
    """The key of a call: calls with equal keys may share recordings.

    Raises:
        CompileError: something among the arguments would be a constant, and can change.
    """
    return structure_of((args, kwargs)), tuple([leaf_key(x) for x in leaves]), ambient()


def kind_of(key: Any) -> Hashable:
    """The key of a call in which each object counts by its kind alone."""
    structure, leaves, around = key
    return structure, tuple([Same if type(k) is Same else k for k in leaves]), around


def structure_of(tree: Any, *, result: bool = False) -> Hashable:
    """The nesting of containers, with the keys of dicts.

    Args:
        tree: the containers.
        result: whether a function has returned them: gradients may then be those of tensors that
            it made, which are others each time.
    """
    if isinstance(tree, dict):
        factory = content(tree.default_factory) if isinstance(tree, defaultdict) else None
        inside = [(_plain(k), structure_of(v, result=result)) for k, v in tree.items()]
        return (type(tree), factory, _more(tree), *inside)
    if isinstance(tree, (tuple, list)):
        return (type(tree), _more(tree), *[structure_of(v, result=result) for v in tree])
    if isinstance(tree, Node):
        of = tree.outline()
        if isinstance(tree, Gradients):
            of = tuple(
                [None if result and not isinstance(key, Cell) else Same(key) for key in tree]
            )
        return (type(tree), of, *[structure_of(v, result=result) for v in tree.children()])
    return None


def _plain(key: Any) -> Hashable:
    return key if type(key) is str else content(key)


def _more(tree: Any) -> Hashable:
    more = getattr(tree, "__dict__", None)
    return content(more) if more else None


def leaf_key(x: Any) -> Hashable:
    """The key of a leaf: shape, dtype and device of a tensor, type of a number, or its content."""
    if isinstance(x, Tensor):
        handle = x._handle
        return (handle.shape, handle.dtype, handle.backend.device)
    if is_number(x):
        return (type(x),)
    if type(x) is bool or x is None or type(x) is str:
        return (type(x), x)
    if shows_array(x) and not isinstance(x, (np.generic, Cell)):
        kind = type(x)
        name = "NumPy array" if kind is np.ndarray else name_of(kind)
        shape = getattr(x, "shape", None)
        form = "" if shape is None else f" (shape {tuple(shape)}, {getattr(x, 'dtype', '')})"
        raise CompileError(
            f"a {name}{form} among the arguments would be a constant; pass it.asarray(x)"
        )
    return seen(x)


def unchanged(shown: Any, leaves: Sequence[Any], before: tuple[Hashable, Any]) -> bool:
    """Whether a function has left the containers alone that it was given.

    Args:
        shown: what it was called with.
        leaves: what lay in this.
        before: `structure_of` this and `contents_of` the leaves, from before the call.
    """
    found = flatten(shown)
    same = len(found) == len(leaves) and all(a is b for a, b in zip(found, leaves, strict=True))
    return same and (structure_of(shown), contents_of(leaves)) == before


def contents_of(leaves: Sequence[Any]) -> list[Hashable]:
    """What those leaves hold that can be changed in place."""
    return [
        content(x)
        for x in leaves
        if not isinstance(x, Tensor) and not is_followed(x) and not is_users(type(x))
    ]


class Gone:
    """Calls back when an object among the arguments is gone.

    Args:
        leaves: of the arguments.
        then: what to do; gets nothing, and may be called in any thread at any time.
    """

    __slots__ = ("_refs",)

    def __init__(self, leaves: Sequence[Any], key: Any, then: Callable[[], None]) -> None:
        self._refs = [
            ref(x, lambda _: then())
            for x, k in zip(leaves, key[1], strict=True)
            if type(k) is Same and type(x).__weakrefoffset__
        ]
