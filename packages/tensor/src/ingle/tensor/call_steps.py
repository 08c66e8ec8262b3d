"""The operations that a call of a public function comes to, on values that are to come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

from . import dispatch
from .contract import Backend, Handle, Scalar
from .dtypes import DType
from .operation import Op, typed_key

if TYPE_CHECKING:
    from .tensor import Tensor

Result: TypeAlias = "Tensor | tuple[Tensor, ...]"


class CallStep(NamedTuple):
    """One operation of a known call.

    Attributes:
        op: the operation.
        places: which values it takes.
    """

    op: Op
    places: tuple[int, ...]


class CallSteps:
    """The operations of a call, on values: what is given, in order; `constants`; the results of
    each step.

    Attributes:
        numbers: which of what is given is a number, and the dtype that it takes.
        constants: numbers that are always the same.
        steps: the operations in order.
        outputs: which values the function returns.
        alone: whether it returns a tensor, not a tuple.
        ready: what the backend runs them by, with the version of what that follows from.
    """

    __slots__ = ("__weakref__", "alone", "constants", "numbers", "outputs", "ready", "steps")

    def __init__(
        self, numbers: Sequence[tuple[int, DType]], constants: Sequence[Scalar],
        steps: Sequence[CallStep], outputs: Sequence[int], alone: bool,
    ) -> None:  # fmt: skip
        self.numbers = tuple(numbers)
        self.constants = tuple(constants)
        self.steps = tuple(steps)
        self.outputs = tuple(outputs)
        self.alone = alone
        self.ready: tuple[Any, Any] = (None, None)

    def run(self, backend: Any, values: list[Any]) -> Result:
        """What the function returns.

        Args:
            backend: that of all handles, which is a `Prepares`, too.
            values: the handles and numbers of the call; the others are appended.
        """
        for place, dtype in self.numbers:
            values[place] = Scalar(values[place], dtype)
        values += self.constants
        made = backend.take_steps(self, values)
        return dispatch.wrap(made[0]) if self.alone else tuple(map(dispatch.wrap, made))


_known: WeakKeyDictionary[Backend, WeakValueDictionary[object, CallSteps]] = WeakKeyDictionary()


def same_steps(
    backend: Backend, given: Sequence[Any], numbers: Sequence[tuple[int, DType]],
    constants: Sequence[Scalar], steps: Sequence[CallStep], outputs: Sequence[int], alone: bool,
) -> CallSteps:  # fmt: skip
    """The `CallSteps` of these: the same object as before while anybody holds that.

    Calls that are forgotten where there are many, and found out anew when they come again, are told
    by it. What a backend runs steps by, and what it has recorded of them, is of operands of one
    shape and dtype, so that others are another call, also where the operations are the same.

    Args:
        backend: of all operands.
        given: handles of the shapes and dtypes that the call takes, and what else it takes.
    """
    told = tuple([(typed_key(c.value), c.dtype) for c in constants])
    operands = tuple([(x.shape, x.dtype) if isinstance(x, Handle) else None for x in given])
    key = operands, tuple(numbers), told, tuple(steps), tuple(outputs), alone
    known = _known.setdefault(backend, WeakValueDictionary())
    found = known.get(key)
    if found is None:
        found = known.setdefault(key, CallSteps(numbers, constants, steps, outputs, alone))
    return found
