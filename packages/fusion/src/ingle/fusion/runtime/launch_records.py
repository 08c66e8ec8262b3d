"""Launches as JSON: kernels with their loops and code, which are tuples all through.

Kernels that occur more than once stand there once. What is read is checked to be tuples of the same
kinds with numbers and names in them; the compiler finds out whether they make sense.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ingle.tensor.contract import Aval, Scalar
from ingle.tensor.dtypes import as_dtype
from ingle.tensor.operation import Op

from ..ir.serialization import attributes_of, op_named, read_value, written_value
from ..kernel.code import Instruction
from ..kernel.nest import Dots, Extend, Fold, Map, Nest, Operand, Reduce, Row
from ..kernel.validation import validate
from ..lowering.contraction import ContractionCall, Windows
from ..lowering.nests import NestCall
from ..lowering.operands import Argument
from ..schedule.whole_calls import WholeCall
from .device import BufferOffset as Pointer
from .device import Launch

_KINDS: tuple[type[Any], ...] = (
    Launch, NestCall, ContractionCall, Argument, Pointer, Nest, Operand, Reduce, Map, Row,
    Instruction, Windows, Fold, Dots, WholeCall, Extend,
)  # fmt: skip
_NUMBERS: dict[type[Any], int] = {kind: n for n, kind in enumerate(_KINDS)}
_SHARED = frozenset({Nest, Instruction, NestCall, ContractionCall, WholeCall})
_TUPLE, _SAME, _OP, _AVAL, _SCALAR = -1, -2, -3, -4, -5
_PLAIN = frozenset({type(None), int, str, bool})
"""What stands for itself: most of what there is, so that it gets no call of its own."""


def written_launches(launches: Sequence[Launch]) -> str:
    """Launches as JSON.

    What is the very same object in several, as parts of layers that were planned once are, is
    written out once and then repeated as text.

    Raises:
        TypeError: they hold something that is no data.
    """
    shared: list[str] = []
    places: dict[str, int] = {}
    known: dict[int, str] = {}
    plain = {None: "null", True: "true", False: "false"}
    texts: dict[str, str] = {}

    def write(x: Any) -> str:
        kind = type(x)
        if kind is tuple or kind in _NUMBERS:
            return refer(x) if kind in _SHARED else made(x, _NUMBERS.get(kind, _TUPLE))
        if kind is str:
            return texts.setdefault(x, json.dumps(x))
        if kind is Op:
            content: list[Any] = [_OP, x.operation.name, attributes_of(x)]
        elif kind is Aval:
            content = [_AVAL, list(x.shape), x.dtype.name]
        elif kind is Scalar:
            content = [_SCALAR, written_value(x.value), x.dtype.name]
        else:
            raise TypeError(f"a launch holds {x!r} of type {kind.__name__}")
        return json.dumps(content, separators=(",", ":"), allow_nan=False)

    def made(x: Any, number: int) -> str:
        parts = [str(number)]
        for v in x:  # without a call for most of what there is
            kind = type(v)
            if kind is int:
                parts.append(str(v))
            elif kind is bool or v is None:
                parts.append(plain[v])
            elif kind is str:
                parts.append(texts.get(v) or write(v))
            else:
                text = known.get(id(v))
                if text is None:
                    text = known[id(v)] = write(v)
                parts.append(text)
        return f"[{','.join(parts)}]"

    def refer(x: Any) -> str:
        content = made(x, _NUMBERS[type(x)])
        place = places.setdefault(content, len(shared))
        if place == len(shared):
            shared.append(content)
        return f"[{_SAME},{place}]"

    listed = [write(launch) for launch in launches]
    return f"[[{','.join(listed)}],[{','.join(shared)}]]"


def read_launches(said: Any) -> list[Launch]:
    """The launches that `written_launches` has written.

    Raises:
        ValueError: it is something else.
    """
    listed, content = said
    shared: list[Any] = []

    def read(x: Any) -> Any:
        if type(x) is not list or not x or type(x[0]) is not int:
            raise ValueError("a launch holds something strange")
        head, *rest = x
        if head == _SAME:
            (place,) = rest
            if not 0 <= place < len(shared):
                raise ValueError("a launch refers to what is not there")
            return shared[place]
        if head == _OP:
            return op_named(*rest)
        if head == _AVAL:
            shape, dtype = rest
            return Aval(tuple(map(int, shape)), as_dtype(dtype))
        if head == _SCALAR:
            value, dtype = rest
            return Scalar(read_value(value), as_dtype(dtype))
        if head == _TUPLE:
            return tuple([r if type(r) in _PLAIN else read(r) for r in rest])
        if not 0 <= head < len(_KINDS) or len(rest) != len(_KINDS[head]._fields):
            raise ValueError("a launch holds something of an unknown kind")
        made = _KINDS[head](*[r if type(r) in _PLAIN else read(r) for r in rest])
        if type(made) is Nest:
            validate(made)
        return made

    for one in content:
        shared.append(read(one))
    launches = [read(one) for one in listed]
    if not all(type(x) is Launch and _fits(x) for x in launches):
        raise ValueError("there is something else among the launches")
    return launches


def _fits(launch: Launch) -> bool:
    call = launch.call
    if launch.fixed and len(launch.fixed) != len(launch.scalars):
        return False
    if type(call) is NestCall:
        return len(launch.pointers) == len(call.arguments) == len(call.nest.operands)
    if type(call) is WholeCall:
        return len(launch.pointers) == len(call.arguments)
    return type(call) is ContractionCall and len(launch.pointers) == 2 + len(call.operands)
