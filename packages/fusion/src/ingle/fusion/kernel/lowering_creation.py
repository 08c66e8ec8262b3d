"""Operations that make elements from their number: constants, ranges, random bits."""

from __future__ import annotations

from collections.abc import Sequence

from ingle.tensor.operation import Op
from ingle.tensor.ops.random.bits import PARITY, ROTATIONS

from .code import INTEGERS
from .expression import Expression, where
from .lowering_plain import Rule


def _full(op: Op, x: Sequence[Expression], out: str) -> Expression:
    return x[1].cast(out)


def _iota(op: Op, x: Sequence[Expression], out: str) -> Expression:
    at, start, step = x
    if start.dtype not in INTEGERS:
        return (at.cast("float64") * step + start).cast(out)
    # Modulo 2**64, where each that fits its dtype is exact.
    whole = at * step.cast("int64") + start.cast("int64")
    return whole.cast("uint64").cast(out) if out.startswith("uint") else whole.cast(out)


def _random_bits(op: Op, x: Sequence[Expression], out: str) -> Expression:
    """Words 2i and 2i + 1 are those of the block at the counter + i."""
    at = x[0]
    words = _block(at >> 1, x[1:])
    return where((at & 1).differs(0), words[1], words[0])


def _random_pairs(op: Op, x: Sequence[Expression], out: str) -> Expression:
    first, second = _block(x[0], x[1:])
    return first.cast("uint64") << 32 | second.cast("uint64")


def _block(number: Expression, place: Sequence[Expression]) -> tuple[Expression, Expression]:
    """The two words of the block so many behind the place that a key and a counter name."""
    key_low, key_high, low, high = place
    counter = number.cast("uint64") + low.cast("uint64")
    x0 = counter.cast("uint32")
    x1 = (counter >> 32).cast("uint32") + high
    return _threefry((key_low, key_high), x0, x1)


def _threefry(
    key: tuple[Expression, Expression], x0: Expression, x1: Expression
) -> tuple[Expression, Expression]:
    keys = (key[0], key[1], (key[0] ^ key[1]) ^ PARITY)
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for group in range(5):
        for turn in ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = ((x1 << turn) | (x1 >> (32 - turn))) ^ x0
        x0 = x0 + keys[(group + 1) % 3]
        x1 = x1 + (keys[(group + 2) % 3] + (group + 1))
    return x0, x1


RULES: dict[str, Rule] = {
    "full": _full,
    "iota": _iota,
    "random_bits": _random_bits,
    "random_pairs": _random_pairs,
}
