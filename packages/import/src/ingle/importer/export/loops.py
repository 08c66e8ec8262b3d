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
from .dynamic_sizes import Variant, fixed, inside, known_sizes_of
from .rules import Call
from .writer import Size, Writer

Emit = Callable[..., list[str]]
Loop = Callable[[Call, Any, Emit, Sequence[Variant]], list[str]]
Port = tuple[str, Aval, tuple[Size | None, ...]]
"""What a graph takes or returns: its name, what it is, and its shape."""


def _port(name: str, aval: Aval, shape: tuple[Size | None, ...]) -> Any:
    sizes = [n if isinstance(n, int) else None for n in shape]
    return onnx_package().helper.make_tensor_value_info(name, NUMBERS[aval.dtype.dtype], sizes)


def _results(names: Sequence[str], program: Program, others: Sequence[Variant]) -> list[Port]:
    return [
        (name, aval, known_sizes_of(aval, [v.program.results[i] for v in others], others))
        for i, (name, aval) in enumerate(zip(names, program.results, strict=True))
    ]


def _own(op: Any, name: str, others: Sequence[Variant]) -> tuple[Program, list[Variant]]:
    """A program that an operation runs, and the same for other dynamic sizes."""
    program = op.attributes[name]
    return program, inside(program, others, lambda v: v.op.attributes[name])


def _graph(
    outer: Writer, program: Program, others: Sequence[Variant], own: Sequence[int],
    values: Sequence[str], emit: Emit,
    extra: Callable[[Writer, list[str]], list[Port]] | None = None, first: Sequence[Port] = (),
) -> Any:  # fmt: skip
    """A program as an inner graph.

    Args:
        others: it for other dynamic sizes.
        own: which of its inputs are the graph's; the others come from around it, by `values`.
        extra: makes of the results what the graph returns; the results themselves if not given.
        first: inputs before its own.
    """
    onnx = onnx_package()
    w = Writer(outer=outer)
    names = list(values)
    for i in own:
        names[i] = w.name("inner")
    results = emit(w, program, names, others)
    ends = extra(w, results) if extra else _results(results, program, others)
    outputs = [_port(w.node("Identity", name), aval, shape) for name, aval, shape in ends]
    avals = program.avals
    inputs = [
        (names[i], avals[i], known_sizes_of(avals[i], [v.program.avals[i] for v in others], others))
        for i in own
    ]
    return onnx.helper.make_graph(
        w.nodes, w.name("body"),
        [_port(*port) for port in (*first, *inputs)], outputs,
        [onnx.numpy_helper.from_array(v, n) for n, v in w.used_constants().items()],
    )  # fmt: skip


def _call(c: Call, op: Any, emit: Emit, others: Sequence[Variant]) -> list[str]:
    body, there = _own(op, "body", others)
    return emit(c.w, body, c.inputs, there)


def _cond(c: Call, op: Any, emit: Emit, others: Sequence[Variant]) -> list[str]:
    then, otherwise = (
        _graph(c.w, *_own(op, side, others), (), c.inputs[1:], emit)
        for side in ("then", "otherwise")
    )
    return c.w.nodes_of("If", c.inputs[:1], len(c.results), then_branch=then, else_branch=otherwise)


def _scan(c: Call, op: Any, emit: Emit, others: Sequence[Variant]) -> list[str]:
    body, there = _own(op, "body", others)
    carries, sequences = op.attributes["carries"], op.attributes["sequences"]
    backward = int(bool(op.attributes["reverse"]))
    if not sequences:
        return _counted(c, op, emit, others)
    own = list(range(carries + sequences))
    graph = _graph(c.w, body, there, own, c.inputs, emit)
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


def _while(c: Call, op: Any, emit: Emit, others: Sequence[Variant]) -> list[str]:
    """A `Loop` without a limit: the condition is computed before it, and at the end of a step."""
    (test, tests), (body, there) = (_own(op, name, others) for name in ("condition", "body"))
    count = len(body.outputs)
    state = _state(c, count)

    def ends(w: Writer, results: list[str]) -> list[Port]:
        (going,) = emit(w, test, [*results, *c.inputs[count:]], tests)
        return [(going, test.results[0], ()), *_results(results, body, there)]

    graph = _graph(c.w, body, there, range(count), c.inputs, emit, ends, _counter(c.w))
    (first,) = emit(c.w, test, [*state, *c.inputs[count:]], tests)
    return c.w.nodes_of("Loop", ["", first, *state], count, body=graph)


def _counted(c: Call, op: Any, emit: Emit, others: Sequence[Variant]) -> list[str]:
    """A scan over nothing is a `Loop` of so many steps."""
    (body, there), carries = _own(op, "body", others), op.attributes["carries"]
    backward = bool(op.attributes["reverse"])
    length = fixed(c.statics["length"], "scan", "the number of steps")

    def ends(w: Writer, results: list[str]) -> list[Port]:
        return [(w.constant(True), Aval((), bool_), ()), *_results(results, body, there)]

    graph = _graph(c.w, body, there, range(carries), c.inputs, emit, ends, _counter(c.w))
    inputs = [c.w.constant(length, np.int64), c.w.constant(True), *_state(c, carries)]
    found = c.w.nodes_of("Loop", inputs, len(c.results), body=graph)
    if not backward:
        return found
    order = c.w.constant(np.arange(length)[::-1], np.int64)
    return [*found[:carries], *(c.w.node("Gather", x, order, axis=0) for x in found[carries:])]


def _counter(w: Writer) -> list[Port]:
    """What a `Loop` hands to its body before the state: the step's number, and whether to go on."""
    return [(w.name("step"), Aval((), int64), ()), (w.name("going"), Aval((), bool_), ())]


def _state(c: Call, count: int) -> list[str]:
    """The first values of a carry; numbers of the program are made tensors of their own."""
    return [
        c.w.node("Identity", n) if isinstance(g, Scalar) else n
        for n, g in zip(c.inputs[:count], c.given[:count], strict=True)
    ]


def _ruled(c: Call, op: Any, emit: Emit, others: Sequence[Variant]) -> list[str]:
    """What a function with a gradient of its own computes."""
    forward, there = _own(op, "forward", others)
    return emit(c.w, forward, c.inputs, there)[: len(c.results)]


LOOPS: dict[str, Loop] = {
    "call_program": _call, "ruled_call": _ruled, "cond": _cond, "scan": _scan,
    "while_loop": _while,
}  # fmt: skip
