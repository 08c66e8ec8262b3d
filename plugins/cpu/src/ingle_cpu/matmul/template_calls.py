"""Operations by a template outside of plans: what runs one is made once for each way in which
operands lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.operation import Op

from .entries_call import Located, located, located_in_order

MOST = 1024
"""Calls that are kept."""

T = TypeVar("T")
Make = Callable[[Op, Sequence[Handle | Scalar], Mapping[str, tuple[int, ...]]], T | None]
"""What runs an operation on operands whose strides, by their names, are these, in elements; None
where the template does not take them."""
Place = Callable[[Any, Handle], Located]


class Found(NamedTuple, Generic[T]):
    """What runs an operation.

    Attributes:
        call: made for operands that lie so.
        operands: where they lie, which stay there for as long as this is kept.
    """

    call: T
    operands: tuple[Located, ...]

    @property
    def addresses(self) -> list[int]:
        return [x.address for x in self.operands]


class TemplateCalls(Generic[T]):
    """What runs operations of a template, by how their operands lie.

    Args:
        device: the backend.
        make: what is kept for one way.
        places: where operands are looked for, one after the other: as they lie, or in C order.
    """

    def __init__(
        self, device: Any, make: Make[T], places: Sequence[Place] = (located, located_in_order)
    ) -> None:
        self._device = device
        self._make = make
        self._places = places
        self._known: dict[Any, T | None] = {}

    def find(self, op: Op, inputs: Sequence[Handle | Scalar]) -> Found[T] | None:
        """What runs an operation; None where its operands are not what the template takes."""
        avals = [Aval(x.shape, x.dtype) for x in inputs]
        for place in self._places:
            operands = {
                name: place(self._device, x)
                for name, x in zip(op.operation.tensors, inputs, strict=True)
                if isinstance(x, Handle)
            }
            strides = {name: x.strides for name, x in operands.items()}
            key = op, *avals, *strides.items()
            if key not in self._known:
                if len(self._known) > MOST:
                    self._known.clear()
                self._known[key] = self._make(op, inputs, strides)
            call = self._known[key]
            if call is not None:
                return Found(call, tuple(operands.values()))
        return None
