"""What a public function comes to, found by calling it with tensors that have no value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import dispatch
from .call_steps import CallStep, CallSteps, same_steps
from .contract import Aval, Backend, Handle, Scalar
from .device import call_staged
from .dtypes import DType
from .errors import TraceError
from .operation import Op, infer


def steps_of(
    backend: Backend, function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any],
    weak: bool, is_body: bool = False,
) -> CallSteps | None:  # fmt: skip
    """What a call comes to; None where that is not operations alone whose results it returns.

    Args:
        backend: of all tensors.
        function, args, options: the call.
        weak: whether numbers of the type `float` may have another value in the next call.
        is_body: whether it is of the body of any operation, which may look at whether there are
            values.

    Raises:
        Exception: what is wrong with the call; a `TraceError` where it looks at values.
    """
    probe = _CallProbe(backend, weak, _Unread if is_body else _Unknown)
    stood = [probe.stand_in(x) for x in args]
    named = {name: probe.stand_in(x) for name, x in options.items()}
    made = call_staged(probe, function, *stood, **named)
    alone = type(made) is dispatch.tensor_type
    returned = [made] if alone else made
    if not alone and type(made) is not tuple:
        return None
    # A value is known by the object that stands for it: handles, numbers and scalars alike.
    places = {id(x): n for n, x in enumerate(probe.given)}
    numbers: dict[int, DType] = {}
    constants: dict[int, Scalar] = {}
    for _, inputs in probe.steps:
        for x in inputs:
            if type(x) is not Scalar:
                continue
            place = places.get(id(x.value))
            if place is None:
                constants[id(x)] = x
            elif numbers.setdefault(place, x.dtype) is x.dtype:
                places[id(x)] = place
            else:
                return None
    if any(type(x) is float and n not in numbers for n, x in enumerate(probe.given)):
        return None  # it decides something else
    places |= {key: len(probe.given) + n for n, key in enumerate(constants)}
    count = len(probe.given) + len(constants)
    places |= {id(x): count + n for n, x in enumerate(probe.made)}
    outputs = [places.get(id(x._handle), -1) for x in returned]
    if not returned or min(outputs) < count:
        return None
    steps = [CallStep(op, tuple([places[id(x)] for x in inputs])) for op, inputs in probe.steps]
    pairs, extra = [*numbers.items()], [*constants.values()]
    return same_steps(backend, probe.given, pairs, extra, steps, outputs, alone)


class _Unknown(Handle):
    """A shape and a dtype; the object stands for a value."""

    __slots__ = ()

    abstract = True

    def __init__(self, backend: Backend, aval: Aval) -> None:
        self.backend = backend
        self.shape, self.dtype = aval


class _Unread(_Unknown):
    """Likewise, where nobody may ask whether there is a value."""

    __slots__ = ()

    @property
    def abstract(self) -> bool:  # type: ignore[override]
        raise TraceError("the body looks at whether there are values")


class _CallProbe:
    """Notes what it is asked to execute, above all other backends, and computes nothing.

    Attributes:
        given: what stands for handles and numbers of the call, in order.
        steps: the operations, each with its inputs.
        made: what stands for their results.
    """

    level = 1 << 30

    def __init__(self, below: Backend, weak: bool, unknown: type[_Unknown]) -> None:
        self._weak = weak
        self._unknown = unknown
        self.inner = below
        self.device = below.device
        self.name = f"probe({below.name})"
        self.given: list[_Unknown | float] = []
        self.steps: list[tuple[Op, Sequence[Handle | Scalar]]] = []
        self.made: list[_Unknown] = []

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        if op.operation.traits.dynamic_shape:
            raise self._refused(f"{op.operation.name} looks at values")
        if any(x.backend is not self and type(x) is not Scalar for x in inputs):
            raise self._refused(f"{op.operation.name} takes a tensor that is no argument")
        self.steps.append((op, inputs))
        results = [self._unknown(self, aval) for aval in infer(op, inputs)]
        self.made += results
        return tuple(results)

    def upload(self, array: Any) -> Handle:
        raise self._refused("the function makes a tensor of numbers")

    def download(self, handle: Handle) -> Any:
        raise self._refused("the function looks at values")

    def synchronize(self) -> None:
        """Nothing is computed."""

    def supports(self, op: Op, avals: Sequence[Aval]) -> bool:
        return self.inner.supports(op, avals)

    def _refused(self, reason: str) -> TraceError:
        return TraceError(f"{reason}, so its calls cannot be known before they run")

    def stand_in(self, x: Any) -> Any:
        """What stands in the call for one of its arguments."""
        kind = type(x)
        if kind is dispatch.tensor_type or hasattr(kind, "__ingle_tensor__"):
            handle = self._unknown(self, Aval(x.shape, x.dtype))
            self.given.append(handle)
            return dispatch.wrap(handle)
        if kind is float and self._weak:
            number = x * 1.0  # an object of its own, by which it is found
            self.given.append(number)
            return number
        if kind is list or kind is tuple:
            return kind([self.stand_in(part) for part in x])
        return x
