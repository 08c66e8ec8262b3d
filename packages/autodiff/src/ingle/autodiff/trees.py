"""Nested values as transforms see them: also `Gradients` containers are taken apart."""

from __future__ import annotations

from typing import Any

from ingle.tensor import Gradients, Tensor
from ingle.tensor.errors import DTypeError, OperandError, ShapeError
from ingle.tensor.pytree import flatten, tree_map


def leaves(tree: Any) -> list[Any]:
    """The leaves from left to right, those of a `Gradients` container in its own order."""
    return [
        leaf
        for part in flatten(tree)
        for leaf in (part.tensors() if isinstance(part, Gradients) else (part,))
    ]


def rebuild(tree: Any, values: list[Any]) -> Any:
    """The structure of `tree` with other leaves, in the order of `leaves`."""
    rest = iter(values)

    def place(part: Any) -> Any:
        if isinstance(part, Gradients):
            return Gradients({key: next(rest) for key in part})
        return next(rest)

    return tree_map(place, tree)


def matched(given: Any, like: Any, what: str) -> list[Tensor | None]:
    """The leaves of `given`, which must have the structure, shapes and dtypes of `like`.

    None stands for zeros, and so does what a `Gradients` container leaves out.

    Args:
        given: what the user gave.
        like: tensors in the structure that is expected.
        what: how an error calls it, such as `"jvp: a tangent"`.
    """
    pairs = _pairs(given, like, what)
    for value, expected in pairs:
        if value is not None:
            _check(value, expected, what)
    return [value for value, _ in pairs]


def _pairs(given: Any, like: Any, what: str) -> list[tuple[Any, Tensor]]:
    if isinstance(like, Gradients):
        if not isinstance(given, Gradients):
            raise _mismatch(given, "a Gradients container, as grad returns for cells", what)
        entries = dict(zip(given, given.tensors(), strict=True))
        known = dict(zip(like, like.tensors(), strict=True))
        return [(entries.get(key), value) for key, value in known.items()]
    if isinstance(like, dict):
        if not isinstance(given, dict) or set(given) != set(like):
            raise _mismatch(given, f"a dict with the keys {list(like)}", what)
        return [pair for key in like for pair in _pairs(given[key], like[key], what)]
    if isinstance(like, (tuple, list)):
        kind = tuple if isinstance(like, tuple) else list
        if not isinstance(given, kind) or len(given) != len(like):
            raise _mismatch(given, f"a {kind.__name__} of {len(like)}", what)
        both = zip(given, like, strict=True)
        return [pair for part, expected in both for pair in _pairs(part, expected, what)]
    return [(given, like)]


def _mismatch(given: Any, expected: str, what: str) -> OperandError:
    got = f"the keys {list(given)}" if isinstance(given, dict) else type(given).__name__
    if isinstance(given, (tuple, list)):
        got += f" of {len(given)}"
    return OperandError(f"{what} must have the structure of its value: {expected}, got {got}")


def _check(value: Any, expected: Tensor, what: str) -> None:
    if not isinstance(value, Tensor):
        raise OperandError(
            f"{what} must be a tensor of shape {expected.shape} (None stands for zeros), "
            f"got {type(value).__name__}"
        )
    if value.shape != expected.shape:
        raise ShapeError(
            f"{what} must have the shape of its value, {expected.shape}, got {value.shape}"
        )
    if value.dtype is not expected.dtype:
        raise DTypeError(
            f"{what} must have the dtype of its value, {expected.dtype}, got {value.dtype}; "
            "cast it with x.astype(...)"
        )
