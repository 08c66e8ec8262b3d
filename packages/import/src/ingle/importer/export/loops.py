"""Branches, loops and scans of a program as those of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingle.tensor import bool_, int64
from ingle.tensor.contract import Aval, Scalar
from ingle.tensor.programs import Program

from ..onnx.reading import onnx_package
from ..onnx.values import NUMBERS
from .rules import Call
from .writer import Writer

Emit = Callable[..., list[str]]
Loop = Callable[[Call, Any, Emit], list[str]]


def _port(name: str, aval: Aval) -> Any:
    helper = onnx_package().helper
    return helper.make_tensor_value_info(name, NUMBERS[aval.dtype.dtype], list(aval.shape))


def _graph(
    outer: Writer, program: Program, own: Sequence[int], values: Sequence[str], emit: Emit,
    extra: Callable[[Writer, list[str]], list[tuple[str, Aval]]] | None = None,
    first: Sequence[tuple[str, Aval]] = (),
) -> Any:  # fmt: skip
    """A program as an inner graph.

    Args:
        own: which of its inputs are the graph's; the others come from around it, by `values`.
        extra: makes of the results what the graph returns; the results themselves if not given.
        first: inputs before its own.
    """
    onnx = onnx_package()
    w = Writer(outer=outer)
    names = list(values)
    for i in own:
        names[i] = w.name("inner")
    results = emit(w, program, names)
    ends = extra(w, results) if extra else list(zip(results, program.results, strict=True))
    outputs = []
    for name, aval in ends:
        copy = w.node("Identity", name)
        outputs.append(_port(copy, aval))
    return onnx.helper.make_graph(
        w.nodes, w.name("body"),
        [*(_port(n, a) for n, a in first), *(_port(names[i], program.avals[i]) for i in own)],
        outputs, [onnx.numpy_helper.from_array(v, n) for n, v in w.used_constants().items()],
    )  # fmt: skip


def _call(c: Call, op: Any, emit: Emit) -> list[str]:
    return emit(c.w, op.attributes["body"], c.inputs)


def _cond(c: Call, op: Any, emit: Emit) -> list[str]:
    then, otherwise = (
        _graph(c.w, op.attributes[side], (), c.inputs[1:], emit) for side in ("then", "otherwise")
    )
    return c.w.nodes_of("If", c.inputs[:1], len(c.results), then_branch=then, else_branch=otherwise)


def _scan(c: Call, op: Any, emit: Emit) -> list[str]:
    body: Program = op.attributes["body"]
    carries, sequences = op.attributes["carries"], op.attributes["sequences"]
    backward = int(bool(op.attributes["reverse"]))
    if not sequences:
        return _counted(c, op, emit)
    own = list(range(carries + sequences))
    graph = _graph(c.w, body, own, c.inputs, emit)
    state = _state(c, carries)
    return c.w.nodes_of(
        "Scan", [*state, *c.inputs[carries : carries + sequences]], len(c.results), body=graph,
        num_scan_inputs=sequences, scan_input_directions=[backward] * sequences,
        **(
            {"scan_output_directions": [backward] * (len(c.results) - carries)}
            if len(c.results) > carries
            else {}
        ),
    )  # fmt: skip


def _while(c: Call, op: Any, emit: Emit) -> list[str]:
    """A `Loop` without a limit: the condition is computed before it, and at the end of a step."""
    test, body = op.attributes["condition"], op.attributes["body"]
    count = len(body.outputs)
    state = _state(c, count)

    def ends(w: Writer, results: list[str]) -> list[tuple[str, Aval]]:
        (going,) = emit(w, test, [*results, *c.inputs[count:]])
        return [(going, test.results[0]), *zip(results, body.results, strict=True)]

    graph = _graph(c.w, body, range(count), c.inputs, emit, ends, _counter(c.w))
    (first,) = emit(c.w, test, [*state, *c.inputs[count:]])
    return c.w.nodes_of("Loop", ["", first, *state], count, body=graph)


def _counted(c: Call, op: Any, emit: Emit) -> list[str]:
    """A scan over nothing is a `Loop` of so many steps."""
    body, carries = op.attributes["body"], op.attributes["carries"]
    length, backward = op.attributes["length"], bool(op.attributes["reverse"])

    def ends(w: Writer, results: list[str]) -> list[tuple[str, Aval]]:
        going = w.constant(True), Aval((), bool_)
        return [going, *zip(results, body.results, strict=True)]

    graph = _graph(c.w, body, range(carries), c.inputs, emit, ends, _counter(c.w))
    inputs = [c.w.constant(length, np.int64), c.w.constant(True), *_state(c, carries)]
    found = c.w.nodes_of("Loop", inputs, len(c.results), body=graph)
    if not backward:
        return found
    order = c.w.constant(np.arange(length)[::-1], np.int64)
    return [*found[:carries], *(c.w.node("Gather", x, order, axis=0) for x in found[carries:])]


def _counter(w: Writer) -> list[tuple[str, Aval]]:
    """What a `Loop` hands to its body before the state: the step's number, and whether to go on."""
    return [(w.name("step"), Aval((), int64)), (w.name("going"), Aval((), bool_))]


def _state(c: Call, count: int) -> list[str]:
    """The first values of a carry; numbers of the program are made tensors of their own."""
    return [
        c.w.node("Identity", n) if isinstance(g, Scalar) else n
        for n, g in zip(c.inputs[:count], c.given[:count], strict=True)
    ]


def _ruled(c: Call, op: Any, emit: Emit) -> list[str]:
    """What a function with a gradient of its own computes."""
    return emit(c.w, op.attributes["forward"], c.inputs)[: len(c.results)]


LOOPS: dict[str, Loop] = {
    "call_program": _call, "ruled_call": _ruled, "cond": _cond, "scan": _scan,
    "while_loop": _while,
}  # fmt: skip
