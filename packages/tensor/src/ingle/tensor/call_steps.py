"""The operations that a call of a public function comes to, on values that are to come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from . import dispatch
from .contract import Scalar
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


_known: WeakValueDictionary[object, CallSteps] = WeakValueDictionary()


def same_steps(
    numbers: Sequence[tuple[int, DType]], constants: Sequence[Scalar],
    steps: Sequence[CallStep], outputs: Sequence[int], alone: bool,
) -> CallSteps:  # fmt: skip
    """The `CallSteps` of these: the same object as before while anybody holds that.

    Calls that are forgotten where there are many, and found out anew when they come again, are told
    by it.
    """
    told = tuple([(typed_key(c.value), c.dtype) for c in constants])
    key = tuple(numbers), told, tuple(steps), tuple(outputs), alone
    found = _known.get(key)
    if found is None:
        found = _known.setdefault(key, CallSteps(numbers, constants, steps, outputs, alone))
    return found
