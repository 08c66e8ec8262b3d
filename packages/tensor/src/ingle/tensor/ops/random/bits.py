"""Random bits: Threefry-2x32 with 20 rounds, a counter-based generator.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011), and its library
Random123. A block is 64 random bits, a function of a 64-bit key and a 64-bit counter alone, so any
element can be computed anywhere, in any order, again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from ...contract import Aval, Handle, Scalar, Shape
from ...device import Device
from ...dispatch import create, run
from ...dtypes import DType, uint32
from ...errors import ArgumentError, ShapeError
from ...operation import Op, Operation, Traits
from ...sample import Draw, Sample
from .._guarding import guarded
from .._rules import as_shape

if TYPE_CHECKING:
    from ...tensor import Tensor

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
MASK = 0xFFFFFFFF
_WHOLE = (1 << 64) - 1


class Place(NamedTuple):
    """Where in the generator's output a draw begins: the key and the counter of its first block."""

    key: int
    counter: int

    @classmethod
    def of(cls, name: str, place: object) -> Place:
        """A place from what the user of a function gave."""
        pair = tuple(place) if isinstance(place, (list, tuple)) else ()
        if len(pair) != 2 or not all(isinstance(n, int) and 0 <= n < 1 << 64 for n in pair):
            raise ArgumentError(
                f"{name}: place must be a key and a counter, integers from 0 below 2**64, got "
                f"{place!r:.60}"
            )
        return cls(*pair)

    def moved(self, by: int) -> Place:
        """The place so many blocks behind it."""
        return Place(self.key, (self.counter + by) & _WHOLE)

    def words(self) -> tuple[int, int, int, int]:
        """Low and high half of the key and of the counter."""
        return (self.key & MASK, self.key >> 32, self.counter & MASK, self.counter >> 32)

    def scalars(self) -> tuple[Scalar, ...]:
        """The words as weak scalars: they change with every draw and are never static."""
        return tuple(Scalar(w, uint32) for w in self.words())


WORDS = ("key_low", "key_high", "counter_low", "counter_high")


def blocks(shape: Shape, words: int = 1) -> int:
    """How many blocks of two words a draw of `words` words an element uses up."""
    return (math.prod(shape) * words + 1) // 2


@guarded
def random_bits(
    shape: int | Sequence[int], place: tuple[int, int], *, device: Device | str | None = None
) -> Tensor:
    """Uniform uint32 words from a place in Threefry's output.

    Elements 2i and 2i + 1, in row-major order, are the words of the block at `counter + i`.

    Args:
        shape: of the result.
        place: the key and the first counter, each an integer in [0, 2**64).
        device: where to make them.

    >>> import ingle.tensor as it
    >>> [hex(w) for w in it.random_bits(2, (0, 0)).tolist()]
    ['0x6b200159', '0x99ba4efe']
    """
    op = RANDOM_BITS.op(shape=as_shape(shape, "random_bits"))
    return create(op, device, Place.of("random_bits", place).scalars())


def threefry(key: tuple[int, int], x0: Any, x1: Any) -> tuple[Any, Any]:
    """Threefry-2x32-20 of counters `x0`, `x1`: uint32 tensors or arrays that wrap around."""
    keys = (key[0], key[1], PARITY ^ key[0] ^ key[1])
    x0 = x0 + keys[0]
    x1 = x1 + keys[1]
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = ((x1 << rotation) | (x1 >> (32 - rotation))) ^ x0
        x0 = x0 + keys[(group + 1) % 3]
        x1 = x1 + ((keys[(group + 2) % 3] + group + 1) & MASK)
    return x0, x1


def _body(
    key_low: int, key_high: int, counter_low: int, counter_high: int, *, shape: Shape
) -> Tensor:
    from ..creation.ranges import arange
    from ..movement.joining import stack
    from ..movement.shapes import reshape

    count = math.prod(shape)
    low = arange(blocks(shape), dtype=uint32) + counter_low
    high = (low < counter_low).astype(uint32) + counter_high
    pairs = stack(threefry((key_low, key_high), low, high), axis=-1)
    return reshape(reshape(pairs, (-1,))[:count], shape)


def _rule(*words: Aval, shape: Shape) -> Aval:
    if math.prod(shape) >= 1 << 33:
        raise ShapeError(
            f"random_bits: {shape} has more than 2**33 elements; draw it in several parts"
        )
    return Aval(shape, uint32)


def samples_of(dtype: DType) -> Callable[[Draw], Iterator[Sample]]:
    """Shapes and places for an operation that draws words of a dtype."""

    def samples(draw: Draw) -> Iterator[Sample]:
        if draw.dtype is dtype:
            yield Sample(((3, 5), (0x0123456789ABCDEF, 7)), gradient=False, exact=True)
            yield Sample(((8,), (1, (1 << 32) - 2)), gradient=False, exact=True, label="carry")
            yield Sample(((0, 3), (1, 0)), gradient=False, exact=True)
            yield Sample(((), (5, 5)), gradient=False, exact=True)

    return samples


def reference_bits(shape: int | Sequence[int], place: tuple[int, int]) -> np.ndarray:
    """Block by block in Python integers, from the paper's definition; slow, for tests."""
    size = as_shape(shape, "reference_bits")
    key, counter = place
    k = [key & MASK, key >> 32]
    k.append(PARITY ^ k[0] ^ k[1])
    words: list[int] = []
    for i in range(blocks(size)):
        c = (counter + i) & ((1 << 64) - 1)
        x = [(c + k[0]) & MASK, ((c >> 32) + k[1]) & MASK]
        for r in range(20):
            turn = ROTATIONS[(r // 4) % 2][r % 4]
            x[0] = (x[0] + x[1]) & MASK
            x[1] = (((x[1] << turn) & MASK) | (x[1] >> (32 - turn))) ^ x[0]
            if r % 4 == 3:
                s = r // 4 + 1
                x = [(x[0] + k[s % 3]) & MASK, (x[1] + k[(s + 1) % 3] + s) & MASK]
        words += x
    return np.array(words[: math.prod(size)], np.uint32).reshape(size)


RANDOM_BITS = Operation(
    "random_bits",
    tensors=WORDS,
    statics=("shape",),
    rule=_rule,
    traits=Traits("random", family="random_bits", cost="expensive", exactly_rounded=True),
    body=_body,
    public=random_bits,
    samples=samples_of(uint32),
    reference=reference_bits,
)


def bits_at(
    words: Sequence[int | Tensor], shape: Shape, device: Device | str | None = None
) -> Tensor:
    """Random bits at the place that four words name, numbers or 0-d uint32 tensors."""
    return drawn_at(RANDOM_BITS.op(shape=shape), words, device)


def drawn_at(op: Op, words: Sequence[int | Tensor], device: Device | str | None) -> Tensor:
    """The result of an operation that draws at the place that four words name."""
    inputs = as_words(words)
    if any(isinstance(w, Handle) for w in inputs):
        return run(op, inputs)[0]
    return create(op, device, cast("list[Scalar]", inputs))


def as_words(words: Sequence[int | Tensor]) -> list[Handle | Scalar]:
    """The words of a place as operands."""
    return [Scalar(w, uint32) if isinstance(w, int) else w._handle for w in words]
