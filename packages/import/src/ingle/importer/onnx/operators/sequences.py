"""Sequences and optional values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ModelError
from ..registry import operator
from ..values import Array, Host, Value, device_of, ints, namespace, tensor

if TYPE_CHECKING:
    from ..running import Body


@operator("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> list[Value]:
    return []


@operator("SequenceConstruct")
def sequence_construct(*xs: Value) -> list[Value]:
    return list(xs)


def _at(position: Host | None, count: int, last: int) -> int:
    at = last if position is None else int(position.reshape(-1)[0])
    if not -count <= at <= last:
        raise ModelError(f"position {at} is outside of a sequence of {count}")
    return at + count if at < 0 else at


@operator("SequenceAt")
def sequence_at(xs: Value, position: Host) -> Value:
    return xs[_at(position, len(xs), len(xs) - 1)]


@operator("SequenceInsert")
def sequence_insert(xs: Value, x: Value, position: Host | None = None) -> list[Value]:
    at = _at(position, len(xs), len(xs))
    return [*xs[:at], x, *xs[at:]]


@operator("SequenceErase")
def sequence_erase(xs: Value, position: Host | None = None) -> list[Value]:
    at = _at(position, len(xs), len(xs) - 1)
    return [*xs[:at], *xs[at + 1 :]]


@operator("SequenceLength")
def sequence_length(xs: Value) -> Host:
    return np.asarray(len(xs), np.int64)


@operator("SequenceMap")
def sequence_map(xs: Value, *others: Value, body: Body) -> tuple[list[Value], ...]:
    """A graph for each element; other sequences go along, tensors are the same for all."""
    results = [
        body(x, *(o[i] if isinstance(o, list) else o for o in others)) for i, x in enumerate(xs)
    ]
    return tuple([step[k] for step in results] for k in range(len(body.outputs)))


@operator("SplitToSequence")
def split_to_sequence(
    x: Array, split: Host | None = None, *, axis: int = 0, keepdims: int = 1
) -> list[Value]:
    """Parts along an axis: of one size, of given sizes, or single slices."""
    n, key = x.shape[axis], (slice(None),) * (axis % x.ndim)
    if split is None and not keepdims:
        return [x[(*key, i)] for i in range(n)]
    if split is None:
        sizes = [1] * n
    elif split.ndim == 0:
        part = int(split)
        sizes = [min(part, n - i) for i in range(0, n, part)]
    else:
        sizes = ints(split)
    ends = np.cumsum(sizes).tolist()
    return [x[(*key, slice(end - k, end))] for end, k in zip(ends, sizes, strict=True)]


@operator("ConcatFromSequence")
def concat_from_sequence(xs: Value, *, axis: int, new_axis: int = 0) -> Value:
    where = device_of(xs)
    parts = xs if where is None else [tensor(x, where) for x in xs]
    xp = namespace(*parts)
    return xp.stack(parts, axis=axis) if new_axis else xp.concat(parts, axis=axis)


@operator("Optional")
def optional(x: Value = None, *, type: Any = None) -> Value:  # noqa: A002
    return x


@operator("OptionalHasElement")
def optional_has_element(x: Value = None) -> Host:
    return np.asarray(x is not None)


@operator("OptionalGetElement")
def optional_get_element(x: Value) -> Value:
    if x is None:
        raise ModelError("OptionalGetElement: the optional has no element")
    return x
