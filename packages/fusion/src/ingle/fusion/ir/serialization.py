"""Graphs as text: what crosses to another process, and what export reads.

The text is JSON: a format version, the values and operations in their order, and the numbers of
the outputs. Operations go by name, so the reader must have the package that brings them. Numbers
keep their type and every bit of their value (NaN excepted, of which there is one).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from ingle.tensor.contract import Aval, Scalar
from ingle.tensor.dtypes import DType, as_dtype
from ingle.tensor.errors import IngleError
from ingle.tensor.operation import OPERATIONS, Op
from ingle.tensor.programs.program import Program, Step

from ..errors import GraphFormatError
from .graph import Graph, LogEntry, constant_entry, read_log

VERSION = 1

_NONSENSE = (
    ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError,
    MemoryError,
)  # fmt: skip
"""What JSON of another form than a graph's leads to."""


def dumps(graph: Graph) -> str:
    """The text of a graph; `loads` reads it.

    >>> import ingle.tensor as it
    >>> from ingle.fusion import graph_of
    >>> text = dumps(graph_of(lambda x: it.exp(x) * 2.0, it.ones((2, 3))))
    >>> print(loads(text))
    %0: input float32[2, 3]
    %2 = 2.0: float32
    %1: float32[2, 3] = exp() on %0
    %3: float32[2, 3] = multiply() on %1, %2
    return %3
    """
    entries = [_written(e) for e in _log_of(graph)]
    content = {"ingle-graph": VERSION, "entries": entries, "outputs": list(graph.outputs)}
    return json.dumps(content, separators=(",", ":"), allow_nan=False)


def loads(text: str) -> Graph:
    """The graph of a text, checked by the operations' shape rules.

    Raises:
        GraphFormatError: the text is no graph, of another version, or names an operation that is
            not installed.

    >>> import ingle.tensor as it
    >>> from ingle.fusion import dumps, graph_of, loads
    >>> graph = graph_of(lambda x: it.exp(x) + 1.0, it.ones(3))
    >>> [node.op.operation.name for node in loads(dumps(graph)).nodes]
    ['exp', 'add']
    """
    try:
        content = json.loads(text)
        version = content["ingle-graph"]
        if version != VERSION:
            raise GraphFormatError(
                f"the graph is written in version {version!r} of the format, and this release "
                f"reads version {VERSION}: use the release that wrote it, or write it anew"
            )
        log = [_read(e) for e in content["entries"]]
        graph = read_log(log, content["outputs"])
        known = range(len(graph.values))
        if not all(number in known for number in graph.outputs):
            raise GraphFormatError(
                f"the graph returns values {list(graph.outputs)}, but it has {len(known)}"
            )
    except GraphFormatError:
        raise
    except IngleError as error:
        raise GraphFormatError(f"the graph holds a call that is not right: {error}") from error
    except _NONSENSE as error:
        raise GraphFormatError(f"this is not the text of a graph: {error!r}") from error
    return graph


def _log_of(graph: Graph) -> list[LogEntry]:
    """What `read_log` makes the graph of."""
    makers = {node.results[0]: node for node in graph.nodes}
    entries: list[LogEntry] = []
    for number, value in enumerate(graph.values):
        if value.kind == "input":
            entries.append(("input", *value.aval))
        elif value.kind == "scalar":
            entries.append(("scalar", value.aval.dtype))
        elif value.kind == "constant":
            entries.append(constant_entry(value.data, value.aval.dtype))
        elif number in makers:
            entries.append((makers[number].op, *makers[number].args))
    return entries


def _written(entry: LogEntry) -> list[Any]:
    head = entry[0]
    if head == "input":
        return ["input", list(entry[1]), entry[2].name]
    if head == "scalar":
        return ["scalar", entry[1].name]
    if head == "constant":
        return ["constant", entry[1].name, written_value(entry[3])]
    return [head.operation.name, attributes_of(head), *entry[1:]]


def _read(entry: Sequence[Any]) -> LogEntry:
    match entry:
        case ["input", list(shape), str(dtype)]:
            return ("input", tuple(map(int, shape)), as_dtype(dtype))
        case ["scalar", str(dtype)]:
            return ("scalar", as_dtype(dtype))
        case ["constant", str(dtype), number]:
            return constant_entry(read_value(number), as_dtype(dtype))
        case [str(name), dict(attributes), *numbers] if all(type(n) is int for n in numbers):
            return (op_named(name, attributes), *numbers)
    raise GraphFormatError(f"a graph has no entry like {entry!r}")


def op_named(name: str, attributes: dict[str, Any]) -> Op:
    operation = OPERATIONS.get(name)
    if operation is None:
        raise GraphFormatError(
            f"the graph holds the operation {name!r}, which is not known here: import the package "
            "that brings it first"
        )
    if set(attributes) != set(operation.statics):
        raise GraphFormatError(
            f"{name}: the graph has the attributes {sorted(attributes)}, and the operation has "
            f"{sorted(operation.statics)}: it was written with another release"
        )
    return operation.op(**{k: read_value(v) for k, v in attributes.items()})


def attributes_of(op: Op) -> dict[str, Any]:
    return {name: written_value(op.attributes[name]) for name in op.operation.statics}


def written_value(x: Any) -> Any:
    """A static attribute or a number as JSON."""
    match x:
        case None | bool() | str():
            return x
        case DType():
            return {"dtype": x.name}
        case float():
            return float(x) if math.isfinite(x) else {"float": str(float(x))}
        case int():
            return int(x)
        case complex():
            return {"complex": str(x)}
        case tuple():
            return [written_value(e) for e in x]
        case Program():
            return {"program": _program(x)}
    raise GraphFormatError(f"{x!r} of type {type(x).__name__} cannot be written into a graph")


def read_value(x: Any) -> Any:
    match x:
        case list():
            return tuple([read_value(e) for e in x])
        case {"dtype": str(name)}:
            return as_dtype(name)
        case {"float": str(text)}:
            return float(text)
        case {"complex": str(text)}:
            return complex(text)
        case {"program": dict(content)}:
            return _read_program(content)
        case dict():
            raise GraphFormatError(f"a graph has no value like {x!r}")
    return x


def _program(program: Program) -> dict[str, Any]:
    steps = [
        [s.op.operation.name, attributes_of(s.op), s.results, *[_operand(x) for x in s.inputs]]
        for s in program.steps
    ]
    inputs = [[list(a.shape), a.dtype.name] for a in program.inputs]
    return {"inputs": inputs, "steps": steps, "outputs": list(program.outputs)}


def _operand(x: int | Scalar) -> Any:
    return [x.dtype.name, written_value(x.value)] if isinstance(x, Scalar) else x


def _read_program(content: dict[str, Any]) -> Program:
    inputs = [Aval(tuple(shape), as_dtype(dtype)) for shape, dtype in content["inputs"]]
    steps = [
        Step(op_named(name, attributes), tuple([_read_operand(x) for x in operands]), results)
        for name, attributes, results, *operands in content["steps"]
    ]
    return Program.of(inputs, steps, content["outputs"])


def _read_operand(x: Any) -> int | Scalar:
    return x if isinstance(x, int) else Scalar(read_value(x[1]), as_dtype(x[0]))
