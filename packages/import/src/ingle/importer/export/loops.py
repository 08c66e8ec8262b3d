"""Branches, loops and scans of a program as those of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingle.tensor.contract import Aval, Scalar
from ingle.tensor.programs import Program

from ..errors import UnsupportedError
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
    own = list(range(carries + sequences))
    graph = _graph(c.w, body, own, c.inputs, emit)
    state = [
        c.w.node("Identity", n) if isinstance(g, Scalar) else n
        for n, g in zip(c.inputs[:carries], c.given[:carries], strict=True)
    ]
    if not sequences:
        raise UnsupportedError("export: a scan without anything to go over is not supported")
    return c.w.nodes_of(
        "Scan", [*state, *c.inputs[carries : carries + sequences]], len(c.results), body=graph,
        num_scan_inputs=sequences, scan_input_directions=[backward] * sequences,
        **(
            {"scan_output_directions": [backward] * (len(c.results) - carries)}
            if len(c.results) > carries
            else {}
        ),
    )  # fmt: skip


LOOPS: dict[str, Loop] = {"call_program": _call, "cond": _cond, "scan": _scan}
