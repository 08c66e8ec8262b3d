"""An operation as data: everything that is true of it on any hardware.

A room (a file in `ops/`) builds one `Operation` for each of its functions. Interpreters (autodiff,
fusion, router) read what is written here and never look at a name.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .contract import Aval, Handle, Scalar
from .dtypes import DType
from .errors import DTypeError
from .static_values import Static
from .traits import LAWLESS as LAWLESS
from .traits import Access as Access
from .traits import Cost as Cost
from .traits import Kind as Kind
from .traits import Laws as Laws
from .traits import Traits as Traits
from .traits import Updates as Updates

if TYPE_CHECKING:
    from .device import Device
    from .sample import Draw, Sample

Rule = Callable[..., Aval | tuple[Aval, ...]]

Batch = tuple[str, ...] | Callable[..., Any]
Training = Callable[["Op", tuple[bool, ...], "Device"], "tuple[Op, Sequence[Handle | Scalar]]"]

OPERATIONS: dict[str, Operation] = {}
"""Every operation by name, in the order of their definition."""

LATE_ROOMS = (
    "ingle.tensor.control.ruling", "ingle.tensor.ops.convolution.channels_last",
    "ingle.tensor.ops.convolution.window_products", "ingle.tensor.ops.neural.attention_dropout",
    "ingle.tensor.ops.neural.attention_gradients",
    "ingle.tensor.ops.pooling.max_gradients",
)  # fmt: skip
"""Modules of operations that are loaded at first use: an import of all operations imports them."""


@dataclass(frozen=True, slots=True)
class VjpRule:
    """One gradient function, with what it asks for read off its parameters' names."""

    wrt: tuple[int, ...]
    joint: bool
    function: Callable[..., Any]
    wants: tuple[tuple[str, Literal["input", "output", "aval", "static", "needs"], int], ...]


class Loop(NamedTuple):
    """A program that an operation runs once for each slice of some of its inputs.

    The inputs are the carries, then what is sliced along its first axis, then what is the same in
    each step; the outputs are the last carries, then what the steps make, stacked.

    Attributes:
        carries, sequences: how many inputs are carried and sliced.
        length: how many steps there are.
        reverse: whether the last slice comes first.
        size: how many operations a step has.
        of_length: the operation with another number of steps.
    """

    carries: int
    sequences: int
    length: int
    reverse: bool
    size: int
    of_length: Callable[[int], Op]


class Operation:
    """One operation: shape rule, gradient rules, traits, body, samples and reference.

    Args:
        name: the public name, unique.
        tensors: names of the inputs, in order; with `variadic` the last one stands for any
            number of them, and gradient rules see and return a tuple for it.
        statics: names of the attributes, which are part of an operation's identity.
        rule: `(*avals, **statics) -> Aval` (a tuple for several outputs); raises on bad input.
        traits: see `Traits`.
        outputs: names of the outputs, for gradient rules; with `many_outputs` the last one stands
            for any number of them, as many as the shape rule says.
        vjp: gradient rules. A key is an input's name, or a tuple of names for a rule that returns
            a tuple. A rule's first parameter is the cotangent (a tuple of them, with None for the
            missing ones, when there are several outputs); the others name what it needs and so
            what is saved: an input, an output, a static, `NAME_aval` for shape and dtype only,
            `needs` for which of its inputs are wanted. Functions of what they name alone: a pass
            that comes again may repeat what they did. None: not differentiable; an empty mapping:
            the gradient is zero everywhere.
        body: the operation in terms of other operations, `(*tensors, **statics)`.
        loop: what it repeats, by its op, if it runs a program once for each slice of its inputs:
            a plan of it may run some steps at a time.
        training: another operation with the same inputs that also returns what the gradient rule
            wants; autodiff runs it instead. The rule of the whole is then written there. Or, for an
            operation with many outputs, a function `(op, needs, device)` that returns the op to run
            instead, whose further outputs the rule here sees, and inputs to append.
        batch: how it runs over a batch axis in front of some of its inputs, for `vmap`: the names
            of attributes that hold axes, where moving these by one is all (none, where leading
            axes are a stack anyhow); or a rule `(batched, *tensors, **statics)`, whose first
            argument says which inputs have the axis, and whose results all have it. None:
            elementwise operations broadcast, reductions move their axis, others run their body.
        public: the function that users call.
        samples: inputs on which the testkit checks it.
        reference: the same function on float64 NumPy arrays, or `"module:attribute"` of one;
            it takes what `public` takes. For a call that it does not take it raises what NumPy
            does: `ValueError`, `TypeError` or `IndexError`.
    """

    __slots__ = (
        "_plain",
        "batch",
        "body",
        "loop",
        "many_outputs",
        "name",
        "outputs",
        "public",
        "reference",
        "rule",
        "samples",
        "statics",
        "tensors",
        "training",
        "traits",
        "variadic",
        "vjp",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        *,
        tensors: tuple[str, ...],
        rule: Rule,
        traits: Traits,
        statics: tuple[str, ...] = (),
        outputs: tuple[str, ...] = ("out",),
        variadic: bool = False,
        many_outputs: bool = False,
        vjp: Mapping[str | tuple[str, ...], Callable[..., Any]] | None = None,
        body: Callable[..., Any] | None = None,
        loop: Callable[[Op], Loop] | None = None,
        training: Operation | Training | None = None,
        batch: Batch | None = None,
        public: Callable[..., Any] | None = None,
        samples: Callable[[Draw], Iterable[Sample]] | None = None,
        reference: Callable[..., Any] | str | None = None,
    ) -> None:
        if name in OPERATIONS:
            raise ValueError(f"an operation named {name!r} exists already")
        self.name = name
        self.tensors = tensors
        self.statics = statics
        self.outputs = outputs
        self.variadic = variadic
        self.many_outputs = many_outputs
        self.rule = rule
        self.traits = traits
        self.body = body
        self.loop = loop
        self.training = training
        self.batch = batch
        self.public = public
        self.samples = samples
        self.reference = reference
        self.vjp = None if vjp is None else tuple(self._read(k, f) for k, f in vjp.items())
        self._plain = Op(self, {}) if not statics else None
        OPERATIONS[name] = self

    def __repr__(self) -> str:
        return f"<operation {self.name}>"

    def _read(self, wrt: str | tuple[str, ...], function: Callable[..., Any]) -> VjpRule:
        joint = isinstance(wrt, tuple)
        names = wrt if isinstance(wrt, tuple) else (wrt,)
        wants: list[tuple[str, Any, int]] = []
        for parameter in _parameters(function)[1:]:
            if parameter in self.tensors:
                wants.append((parameter, "input", self.tensors.index(parameter)))
            elif parameter in self.outputs:
                wants.append((parameter, "output", self.outputs.index(parameter)))
            elif parameter in self.statics:
                wants.append((parameter, "static", 0))
            elif parameter.endswith("_aval") and parameter[:-5] in self.tensors:
                wants.append((parameter, "aval", self.tensors.index(parameter[:-5])))
            elif parameter == "needs":
                wants.append((parameter, "needs", 0))
            else:
                raise ValueError(
                    f"the gradient rule of {self.name} asks for {parameter!r}, which is neither an "
                    f"input {self.tensors}, an output {self.outputs} nor a static {self.statics}"
                )
        return VjpRule(tuple(self.tensors.index(n) for n in names), joint, function, tuple(wants))

    def places(self, position: int, count: int) -> tuple[int, ...]:
        """Which of `count` inputs the name at a position of `tensors` stands for."""
        if self.variadic and position == len(self.tensors) - 1:
            return tuple(range(position, count))
        return (position,)

    def op(self, **attributes: Any) -> Op:
        """The operation with its attributes, interned."""
        if self._plain is not None:
            return self._plain
        key = (self.name, *[typed_key(attributes[name]) for name in self.statics])
        return _interned.get(key) or _intern(self, attributes)


class Op:
    """An operation with its static attributes: what a backend executes.

    Ops are interned, so they are compared by identity; `key` is their content, for what outlives
    the process. One that fell out of the bounded table stays valid wherever it is held.
    """

    __slots__ = ("attributes", "key", "operation")

    def __init__(self, operation: Operation, attributes: Mapping[str, Any]) -> None:
        self.operation = operation
        self.attributes = attributes
        self.key = (operation.name, *(typed_key(attributes[n]) for n in operation.statics))

    def __repr__(self) -> str:
        inside = ", ".join(f"{k}={v!r}" for k, v in self.attributes.items())
        return f"{self.operation.name}({inside})"


def _parameters(function: Callable[..., Any]) -> Sequence[str]:
    """The names of a function's parameters; a signature says the same, and takes ten times as
    long."""
    if type(function) is not FunctionType or hasattr(function, "__wrapped__"):
        return tuple(inspect.signature(function).parameters)
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def typed_key(value: Any) -> Any:
    """A hashable key in which `1`, `1.0` and `True` differ and NaN equals itself."""
    kind = type(value)
    if kind is int or kind is bool or kind is str or value is None or isinstance(value, DType):
        return (kind, value)
    if kind is tuple:
        return (kind, *[(int, v) if type(v) is int else typed_key(v) for v in value])
    if kind is float:
        return (kind, struct.pack("<d", value))
    if kind is complex:
        return (kind, struct.pack("<dd", value.real, value.imag))
    if isinstance(value, Static):
        return (kind, value)
    if isinstance(value, int):
        return (int, int(value))
    if isinstance(value, (float, complex)):  # NumPy's, which derive from Python's
        return typed_key(float(value) if isinstance(value, float) else complex(value))
    raise TypeError(
        f"a static attribute must be a number, a string, a dtype, None or a tuple of these, "
        f"got {value!r} of type {kind.__name__}"
    )


_LIMIT = 1 << 15
_interned: dict[Any, Op] = {}


def _intern(operation: Operation, attributes: Mapping[str, Any]) -> Op:
    op = Op(operation, attributes)
    if len(_interned) >= _LIMIT:
        _interned.clear()
    return _interned.setdefault(op.key, op)


def _refuse_storage(operation: Operation, avals: Sequence[Aval | Any]) -> None:
    traits = operation.traits
    stored = next((a.dtype for a in avals if a.dtype.is_storage), None)
    if stored is not None and not (traits.storage or traits.kind == "movement"):
        raise DTypeError(
            f"{operation.name}: got {', '.join(f'{a.dtype}{list(a.shape)}' for a in avals)}, but "
            f"nothing is computed in {stored}, which only stores values; cast it first with "
            "x.astype('float32')"
        )


_avals: dict[Any, tuple[Aval, ...]] = {}


def infer(op: Op, avals: Sequence[Aval | Any]) -> tuple[Aval, ...]:
    """The outputs' shapes and dtypes by the room's rule; cached, so bad input is checked once."""
    # Every operation passes here, most of them with few operands.
    key: tuple[Any, ...]
    if len(avals) == 2:
        a, b = avals
        key = (op, a.shape, a.dtype, b.shape, b.dtype)
    elif len(avals) == 1:
        key = (op, avals[0].shape, avals[0].dtype)
    elif len(avals) == 3:
        a, b, c = avals
        key = (op, a.shape, a.dtype, b.shape, b.dtype, c.shape, c.dtype)
    else:
        key = (op, *[part for a in avals for part in (a.shape, a.dtype)])
    found = _avals.get(key)
    if found is None:
        found = infer_anew(op, avals)
        if len(_avals) >= _LIMIT:
            _avals.clear()
        _avals[key] = found
    return found


def infer_anew(op: Op, avals: Sequence[Aval | Any]) -> tuple[Aval, ...]:
    """What `infer` returns, without a look into what is known: of sizes that nobody else has."""
    _refuse_storage(op.operation, avals)
    got = op.operation.rule(*[Aval(a.shape, a.dtype) for a in avals], **op.attributes)
    return (got,) if isinstance(got, Aval) else got
