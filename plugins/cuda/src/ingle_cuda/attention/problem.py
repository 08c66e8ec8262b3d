"""Attention on operands as they lie: what kernels for many and for few queries are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ingle.fusion.device.kernels import HALVES
from ingle.tensor.contract import Aval
from ingle.tensor.operation import Op, infer
from ingle.tensor.ops.neural.attention_dropout import ATTENTION_DROPOUT_GRADIENT
from ingle.tensor.ops.neural.attention_gradients import ATTENTION_GRADIENT

from ..cudnn import Strides, contiguous
from .head_axes import BATCH, along, head_axes, vector

GRADIENTS = frozenset({ATTENTION_GRADIENT, ATTENTION_DROPOUT_GRADIENT})
LARGEST = (1 << 31) - 1
"""Blocks of a grid, and places that kernels count in 32 bits."""


class Problem(NamedTuple):
    """Attention, or its gradient, on operands that lie in some way.

    Attributes:
        gradient: whether it is the gradient.
        dtype: of queries, keys, values and the result.
        mask: its dtype; empty if there is none.
        causal: whether query i sees the keys up to i only.
        lse: whether the logarithm of the sum of exponentials is a second result.
        batch: sizes of the axes of heads of keys and values.
        group: heads of queries that share one of these.
        queries, keys: how many.
        features, columns: of queries and keys, and of values.
        strides: of operands and results in the order of the kernel's pointers, along `batch`, the
            group, places, and elements; behind these, of scores in C order if keys are left out.
        vectors: elements that are loaded at once of operands that have features.
        dropout: with which probability a key is left out; None if none is.
    """

    gradient: bool
    dtype: str
    mask: str
    causal: bool
    lse: bool
    batch: tuple[int, ...]
    group: int
    queries: int
    keys: int
    features: int
    columns: int
    strides: tuple[Strides, ...]
    vectors: tuple[int, ...]
    dropout: float | None = None

    @property
    def pointers(self) -> int:
        """Of operands and results."""
        return len(self.strides) - (self.dropout is not None)

    @property
    def heads(self) -> int:
        """Of keys and values."""
        return math.prod(self.batch)


def lying(
    op: Op, avals: Sequence[Aval], strides: Sequence[Strides] | None = None,
    results: Sequence[Strides] | None = None, offsets: Sequence[int] | None = None,
) -> Problem | None:  # fmt: skip
    """The problem of an operation of attention; None for dtypes, shapes and heads that no kernel
    takes.

    Args:
        op: attention with or without logarithms, or its gradient.
        avals: of its operands.
        strides: of the tensors that have axes; in C order if none are given.
        results: strides of the results, likewise.
        offsets: of the former from a multiple of 16 bytes, in bytes; 0 if none are given.
    """
    gradient = op.operation in GRADIENTS
    dropout: float | None = op.attributes.get("p")
    query, key, value, mask = avals[1:5] if gradient else avals[:4]
    dtype = query.dtype.name
    if dtype != "float32" and dtype not in HALVES:
        return None
    if mask.dtype.name not in ("bool", dtype) or any(0 in a.shape for a in avals):
        return None
    made = infer(op, avals)
    lead = (avals[0] if gradient else made[0]).shape[:-2]
    one_query, one_key, one_value = (_of_one(lead, a) for a in (query, key, value))
    if gradient and (any(one_query) or one_key != one_value):
        return None  # it would be a sum over heads
    places, keys = query.shape[-2], key.shape[-2]
    tensors = [a for a in avals if a.shape]
    given = list(strides or [contiguous(a.shape) for a in tensors])
    written = list(results or [contiguous(a.shape) for a in made])
    # Logarithms have no axis of features.
    flat = len(tensors) - 1 if gradient else len(tensors) + 1
    every = [*tensors, *made]
    found = []
    for n, (aval, steps) in enumerate(zip(every, [*given, *written], strict=True)):
        own, own_steps = (aval.shape, steps) if n != flat else ((*aval.shape, 1), (*steps, 0))
        sizes = (places, keys) if aval is mask else own[-2:]
        found.append(along((*lead, *sizes), own, own_steps))
    if dropout is not None:
        found.append(contiguous((*lead, places, keys)))
    # A gradient has keys for each head of what was broadcast to heads before it.
    shared = one_key if gradient else [k == v == 0 for k, v in zip(found[1], found[2], strict=True)]
    batch, group, found = head_axes(lead, found, shared)
    if len(batch) > BATCH or len(group) > 1:
        return None
    rows = [0, 1, 2, 3, len(tensors) - 2] if gradient else [0, 1, 2]
    shifts = offsets or [0] * len(tensors)
    return Problem(
        gradient, dtype, mask.dtype.name if mask.shape else "", bool(op.attributes["causal"]),
        len(made) == 2, (*[1] * (BATCH - len(batch)), *batch), math.prod(group), places, keys,
        query.shape[-1], value.shape[-1], tuple(found),
        tuple([vector(dtype, every[n].shape[-1], found[n], shifts[n]) for n in rows]), dropout,
    )  # fmt: skip


def _of_one(lead: Sequence[int], aval: Aval) -> list[bool]:
    """For each axis of heads whether a tensor has one head for several."""
    own = (*[1] * (len(lead) + 2 - len(aval.shape)), *aval.shape)
    return [one != size for one, size in zip(own, lead, strict=False)]
