"""Places in a generator's output, and draws of a few numbers as one operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from .. import ops
from ..contract import Shape
from ..control.known_calls import call_known
from ..device import Device
from ..dispatch import watched
from ..dtypes import DType, uint32, uint64
from ..ops._checks_at_run import is_unread
from ..ops.random.bits import MASK, Place, drawn_at
from ..ops.random.uniform import RANDOM_UNIFORM
from ..programs import writing_down
from ..tensor import Tensor
from ._elementary import inside

FEW = 1 << 13
"""So many elements are drawn by one program. With more of them, drawing all again takes longer
than the operations that draw again what is left."""


class TracedPlace(NamedTuple):
    """A place of which nobody knows the numbers: two 0-d tensors of uint64."""

    key: Tensor
    counter: Tensor

    @classmethod
    def of(cls, place: Place, device: Device) -> TracedPlace:
        """The same place in tensors."""
        return cls(*[ops.full((), n, dtype=uint64, device=device) for n in place])

    def words(self) -> tuple[Tensor, ...]:
        """Low and high half of the key and of the counter."""
        return tuple(half.astype(uint32) for n in self for half in (n & MASK, n >> 32))

    def moved(self, by: int) -> TracedPlace:
        """The place so many blocks behind it."""
        return TracedPlace(self.key, self.counter + by)


AnyPlace = Place | TracedPlace


def uniform_inside(shape: Shape, dtype: DType, place: AnyPlace, device: Device) -> Tensor:
    """Uniform floats inside of (0, 1) from a place."""
    return inside(drawn_at(RANDOM_UNIFORM.op(shape=shape, dtype=dtype), place.words(), device))


Drawing = Callable[..., Tensor]
"""From a dtype, places and parameters to what is drawn."""


def drawn_together(
    drawing: Drawing, dtype: DType, places: Sequence[Place], *given: Tensor, name: str
) -> Tensor:
    """`drawing(dtype, places, *given)`: for a few elements one operation, which is traced once.

    Drawing a thousand numbers again and again costs some microseconds, and each of the hundred
    operations that do it costs as much once more where they are recorded one by one.

    Args:
        drawing: what is traced; it closes over nothing.
        dtype: of the result.
        places: where its numbers are in the stream, all of one key.
        given: the parameters, the largest one first.
        name: of the operation.
    """
    size = given[0].size
    known = not (writing_down() or watched() or any(is_unread(x._handle) for x in given))
    if not (known and 0 < size <= FEW):
        return drawing(dtype, places, *given)
    numbers = [places[0].key, *[p.counter for p in places]]
    state = ops.asarray(numbers, dtype=uint64, device=given[0].device)
    (out,) = call_known(
        _traced,
        (drawing, dtype),
        [state, *given],
        name,
        # With numbers of places what is left is drawn again, not all.
        otherwise=lambda: (drawing(dtype, places, *given),),
    )
    return out


def _traced(facts: tuple[Drawing, DType], state: Tensor, *given: Tensor) -> tuple[Tensor]:
    drawing, dtype = facts
    key, *counters = [state[i] for i in range(state.shape[0])]
    return (drawing(dtype, [TracedPlace(key, c) for c in counters], *given),)
