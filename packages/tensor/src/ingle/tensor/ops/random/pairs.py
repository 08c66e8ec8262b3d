"""Random numbers of 64 bits: the two words of a block of Threefry's output."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...contract import Aval, Shape
from ...device import Device
from ...dispatch import create
from ...dtypes import uint64
from ...errors import ShapeError
from ...operation import Operation, Traits
from .._guarding import guarded
from .._rules import as_shape
from .bits import WORDS, Place, bits_at, drawn_at, reference_bits, samples_of

if TYPE_CHECKING:
    from ...tensor import Tensor


@guarded
def random_pairs(
    shape: int | Sequence[int], place: tuple[int, int], *, device: Device | str | None = None
) -> Tensor:
    """Uniform uint64 numbers: element i has the two words of the block at `counter + i`.

    The first word is the upper half. They are the words of `random_bits` of shape (*shape, 2), from
    one computation of each block.

    Args:
        shape: of the result.
        place: the key and the first counter, each an integer in [0, 2**64).
        device: where to make them.

    >>> from ingle.tensor.ops.random.pairs import random_pairs
    >>> [hex(w) for w in random_pairs(1, (0, 0)).tolist()]
    ['0x6b20015999ba4efe']
    """
    op = RANDOM_PAIRS.op(shape=as_shape(shape, "random_pairs"))
    return create(op, device, Place.of("random_pairs", place).scalars())


def _body(*words: int, shape: Shape) -> Tensor:
    both = bits_at(words, (*shape, 2)).astype(uint64)
    return both[..., 0] << 32 | both[..., 1]


def _rule(*words: Aval, shape: Shape) -> Aval:
    if math.prod(shape) >= 1 << 32:
        raise ShapeError(
            f"random_pairs: {shape} has more than 2**32 elements; draw it in several parts"
        )
    return Aval(shape, uint64)


def reference_pairs(shape: int | Sequence[int], place: tuple[int, int]) -> np.ndarray:
    """The words of `reference_bits` two by two."""
    both = reference_bits((*as_shape(shape, "reference_pairs"), 2), place).astype(np.uint64)
    return np.asarray(both[..., 0] << np.uint64(32) | both[..., 1])


RANDOM_PAIRS = Operation(
    "random_pairs",
    tensors=WORDS,
    statics=("shape",),
    rule=_rule,
    traits=Traits("random", family="random_bits", cost="expensive", exactly_rounded=True),
    body=_body,
    public=random_pairs,
    samples=samples_of(uint64),
    reference=reference_pairs,
)


def pairs_at(
    words: Sequence[int | Tensor], shape: Shape, device: Device | str | None = None
) -> Tensor:
    """Random pairs of words at the place that four words name."""
    return drawn_at(RANDOM_PAIRS.op(shape=shape), words, device)
