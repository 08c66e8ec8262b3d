"""Draws by rejection: attempts at numbers, each made again until it is accepted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..contract import Shape
from ..control import while_loop
from ..device import Device
from ..dtypes import DType, int32, int64
from ..ops._checks_at_run import is_unread
from ..ops.random.bits import Place, blocks, drawn_at
from ..ops.random.normal import RANDOM_NORMAL
from ..ops.random.uniform import RANDOM_UNIFORM, words_of
from ..tensor import Tensor
from ._elementary import inside
from ._places import AnyPlace, TracedPlace
from .generator import Generator, draws_from

Attempt = Callable[..., tuple[Tensor, Tensor]]
"""From drawn numbers and parameters along one axis to values and whether each is accepted."""

_Carry = tuple[Tensor, Tensor, Tensor, Tensor]

ROUNDS = 64
"""So many attempts have their places in the stream, whether they are made or not: how far a
generator moves depends on the shape alone. Methods here accept at least three of four, so that
rejecting a number as often has a probability below 1e-38."""
_FEWEST = 64
"""How many are drawn again at least, so that the last few attempts are all of one size."""


def reserved(
    generator: Generator | None, kinds: Sequence[str], shape: Shape, dtype: DType
) -> Place:
    """Takes the places of all attempts from a generator."""
    each = blocks((math.prod(shape),), words_of(dtype))
    return draws_from("random", generator).draw(ROUNDS * len(kinds) * each)


def until_accepted(
    attempt: Attempt,
    kinds: Sequence[str],
    place: AnyPlace,
    *given: Tensor,
    wanted: Tensor | None = None,
) -> Tensor:
    """Draws for parameters of one shape, and again for those elements that were rejected.

    The numbers of an attempt follow each other in the stream, so that the same ones come for what
    is left where its places are known and where everything is drawn at once, as while a function
    is written down.

    Args:
        attempt: takes what is drawn, then the parameters, all along one axis.
        kinds: what it draws for each element, `"uniform"` inside of (0, 1) or `"normal"`.
        place: what was reserved.
        given: the parameters.
        wanted: bools: for which elements; others have some value. All if not given.
    """
    first = given[0]
    shape, size = first.shape, math.prod(first.shape)
    draws = _Draws(kinds, first.dtype, first.device, blocks((size,), words_of(first.dtype)))
    if not size:
        return ops.zeros(shape, dtype=first.dtype, device=first.device)
    flat = [ops.reshape(p, (size,)) for p in given]
    values, accepted = attempt(*draws.at(place, 0, size), *flat)
    left = ~accepted if wanted is None else ops.reshape(wanted, (size,)) & ~accepted
    if isinstance(place, TracedPlace) or is_unread(left._handle):
        values = _all_again(attempt, draws, place, flat, values, left)
    else:
        values = _left_again(attempt, draws, place, flat, values, left)
    return ops.reshape(values, shape)


def may_hold(flags: Tensor) -> bool:
    """Whether some flag is set, or nobody can know."""
    return is_unread(flags._handle) or bool(ops.any(flags))


class _Draws:
    """The numbers of one attempt: one of each kind for each element."""

    def __init__(self, kinds: Sequence[str], dtype: DType, device: Device, each: int) -> None:
        self._kinds = kinds
        self._dtype = dtype
        self._device = device
        self._each = each
        self.blocks = len(kinds) * each
        """How many blocks of the stream an attempt at all elements has."""

    def at(self, start: AnyPlace, number: int, size: int) -> list[Tensor]:
        """The first so many of each kind in an attempt of a number."""
        begin = number * self.blocks
        places = [start.moved(begin + i * self._each) for i in range(len(self._kinds))]
        return list(self._drawn([p.words() for p in places], size))

    def _drawn(self, places: Sequence[Sequence[Any]], size: int) -> Iterator[Tensor]:
        for kind, words in zip(self._kinds, places, strict=True):
            operation = RANDOM_NORMAL if kind == "normal" else RANDOM_UNIFORM
            op = operation.op(shape=(size,), dtype=self._dtype)
            found = drawn_at(op, words, self._device)
            yield found if kind == "normal" else inside(found)


def _left_again(
    attempt: Attempt, draws: _Draws, place: Place, given: list[Tensor], values: Tensor, left: Tensor
) -> Tensor:
    """Attempts at what is left alone."""
    device = values.device
    rest = np.flatnonzero(left.numpy())
    for number in range(1, ROUNDS):
        if not rest.size:
            break
        count, last = rest.size, rest.size - 1
        size = max(1 << last.bit_length(), _FEWEST)
        # The last one is repeated, and its value with it.
        places = ops.asarray(np.pad(rest, (0, size - count), mode="edge"), device=device)
        drawn = draws.at(place, number, size)
        again, accepted = attempt(*drawn, *(ops.take(p, places) for p in given))
        own = ops.minimum(ops.arange(size, device=device), last)
        values = ops.scatter_set(values, places, ops.take(again, own))
        rest = rest[~accepted.numpy()[:count]]
    return values


def _all_again(
    attempt: Attempt,
    draws: _Draws,
    place: AnyPlace,
    given: list[Tensor],
    values: Tensor,
    left: Tensor,
) -> Tensor:
    """Attempts at everything while something is left, whose numbers are the first ones."""
    device, size = values.device, values.shape[0]
    begin = place if isinstance(place, TracedPlace) else TracedPlace.of(place, device)

    def goes_on(carry: _Carry) -> Tensor:
        number, _, left, _ = carry
        return ops.any(left) & (number < ROUNDS)

    def again(carry: _Carry) -> _Carry:
        number, counter, left, values = carry
        counter = counter + draws.blocks
        order = ops.maximum(ops.cumulative_sum(left.astype(int64)) - 1, 0)
        drawn = [ops.take(x, order) for x in draws.at(begin._replace(counter=counter), 0, size)]
        found, accepted = attempt(*drawn, *given)
        return number + 1, counter, left & ~accepted, ops.where(left, found, values)

    one = ops.ones((), dtype=int32, device=device)
    found: Tensor = while_loop(goes_on, again, (one, begin.counter, left, values))[3]
    return found
