"""Keys of stored plans: the graph, and everything else that had a part in making one.

A plan that is found under its key is run without looking at how it came about, so the key has to
change with whatever could have led to another plan: the graph with its numbers and their types, the
device with its settings, and the code of Ingle's packages, since passes and the bodies of
operations are code. Operations whose bodies or lowerings are somebody else's have no key: what
such code calls is not known without running it.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import sys
from collections.abc import Iterator, Sequence
from types import CellType
from typing import Any

import numpy as np

from ingle.tensor.contract import Scalar
from ingle.tensor.operation import Op, Operation
from ingle.tensor.programs.program import Program

from ..errors import GraphFormatError
from ..ir.graph import Graph, LogEntry
from ..ir.serialization import written_value
from ..record.ambient_state import ambient
from ..support.source_digest import folder_digest
from ..symbolic.form import SIZED
from .custom_kernels import registered

_DIGEST = 20


def key_of(graph: Graph, examples: Sequence[Any], surroundings: str) -> str | None:
    """The key of a graph's plan; None if it has none.

    Args:
        graph: as it was recorded.
        examples: numbers that it is planned for, of which the types count.
        surroundings: what the device says that plans depend on.
    """
    if any(map(_is_ours, registered())):
        return None  # bodies of other operations may come to these
    types = [type(x).__name__ for x in examples]
    try:
        parts = [_written(graph), surroundings, sources_digest(), repr(ambient()), repr(types)]
    except (GraphFormatError, OSError):
        return None
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=_DIGEST).hexdigest()


def key_of_log(
    log: Sequence[LogEntry], outputs: Sequence[int], numbers: Sequence[Any], surroundings: str
) -> str | None:
    """The key of a log whose numbers may be others; None if it has none."""
    if any(map(_is_ours, registered())):
        return None
    try:
        entries = [f"{_digest(e[0])}{e[1:]}" if type(e[0]) is Op else f"{e[0]}{e[1:]}" for e in log]
        rest = surroundings, sources_digest(), repr((ambient(), tuple(outputs)))
    except (GraphFormatError, OSError):
        return None
    types = " ".join([type(n).__name__ for n in numbers])
    text = "\0".join((*entries, types, *rest))
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST).hexdigest()


def key_of_form(graph: Graph, surroundings: str) -> str | None:
    """The key of plans for all sizes of graphs like one; None if they have none.

    Args:
        graph: one of them; see `form_of`.
        surroundings: what the device says that plans depend on.
    """
    if any(map(_is_ours, registered())):
        return None
    values = []
    for kind, (shape, dtype), data in graph.values:
        values.append(f"{kind}{dtype.name}{len(shape)}")
        values.append(type(data).__name__ if kind == "constant" else repr(data))
    try:
        nodes = [f"{_digest(op, sized=False)}{args}{results}" for op, args, results in graph.nodes]
        rest = surroundings, sources_digest(), repr(ambient())
    except (GraphFormatError, OSError):
        return None
    ends = repr((graph.inputs, graph.scalars, graph.outputs, graph.donors))
    text = "\0".join((*values, *nodes, ends, *rest))
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST).hexdigest()


def _written(graph: Graph) -> str:
    """A graph as text; equal texts are equal graphs."""
    values = []
    known: dict[Any, str] = {}  # layers have the same shapes
    for kind, aval, data in graph.values:
        if kind == "constant":
            number = json.dumps(written_value(data))
            values.append(f"c{aval[1].name}{number}{type(data).__name__}")
            continue
        text = known.get((kind, aval))
        if text is None:
            text = known[kind, aval] = f"{kind[0]}{aval[1].name}{aval[0]}"
        values.append(text)
    nodes = [f"{_digest(op)}{args}{results}" for op, args, results in graph.nodes]
    rest = graph.inputs, graph.scalars, graph.outputs, graph.donors
    return "\n".join([*values, *nodes, repr(rest)])


@functools.lru_cache(maxsize=1 << 13)
def _digest(op: Op, sized: bool = True) -> str:
    """An operation with its attributes, or all but the sizes among them.

    Raises:
        GraphFormatError: an attribute cannot be written, or the operation is made of code of which
            nobody knows what it depends on.
    """
    if not _is_ours(op.operation):
        raise GraphFormatError(f"{op.operation.name} is not one of Ingle's own operations")
    attributes = [
        _said(op.attributes[name] if sized or name not in SIZED else _unsized(op.attributes[name]))
        for name in op.operation.statics
    ]
    text = json.dumps([op.operation.name, attributes], separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST).hexdigest()


def _unsized(value: Any) -> Any:
    """An attribute with a word in place of each size."""
    if isinstance(value, tuple):
        return tuple(map(_unsized, value))
    return "size" if type(value) is int else value


def _said(value: Any) -> Any:
    """An attribute as JSON, with digests in the place of programs: layers have the same steps."""
    if isinstance(value, Program):
        return {"program": _digest_of_program(value)}
    if isinstance(value, tuple):
        return [_said(one) for one in value]
    return written_value(value)


@functools.lru_cache(maxsize=1 << 10)
def _digest_of_program(program: Program) -> str:
    steps = [f"{_digest(s.op)} {s.results} {list(map(_operand, s.inputs))}" for s in program.steps]
    inputs = [f"{aval.shape} {aval.dtype.name}" for aval in program.inputs]
    text = "\n".join([*inputs, *steps, repr(tuple(program.outputs))])
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST).hexdigest()


def _operand(x: int | Scalar) -> str:
    return json.dumps([x.dtype.name, written_value(x.value)]) if isinstance(x, Scalar) else str(x)


@functools.cache
def _is_ours(operation: Operation) -> bool:
    """Whether all that a plan calls of an operation is among the hashed sources."""
    called = [f for f in (operation.rule, operation.body) if f is not None]
    return all(module.split(".")[0] == "ingle" for f in called for module in _modules(f, set()))


def _modules(function: Any, seen: set[int]) -> Iterator[str]:
    """The modules that a function's code is in, with those of functions that it closes over."""
    if id(function) in seen:
        return
    seen.add(id(function))
    if isinstance(function, functools.partial):
        for one in (function.func, *function.args, *function.keywords.values()):
            yield from _modules(one, seen)
    elif isinstance(function, CellType):
        try:
            yield from _modules(function.cell_contents, seen)
        except ValueError:  # empty
            return
    elif inspect.isfunction(function):
        yield function.__module__
        for cell in function.__closure__ or ():
            yield from _modules(cell, seen)
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            yield from _modules(wrapped, seen)
    elif callable(function) and not isinstance(function, (type, Operation)):
        yield getattr(function, "__module__", None) or type(function).__module__


@functools.cache
def sources_digest() -> str:
    """A digest of the code of Ingle's packages, and the versions of what they compute with.

    Raises:
        OSError: their sources cannot be read.
    """
    digests = [
        folder_digest(folder) for folder in sorted(sys.modules[__name__.split(".")[0]].__path__)
    ]
    return repr((digests, sys.version, np.__version__, sys.byteorder))
