"""Runs a graph node by node; inner graphs are called by the operators that own them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ingle.tensor import Device
from ingle.tensor.errors import IngleError

from ..errors import ModelError
from .graph import Graph, Node
from .values import Value, kind

Lookup = Callable[[str], Value]


class Body:
    """An inner graph with the values around it, as a function.

    Attributes:
        outputs: what it returns.
    """

    __slots__ = ("_around", "_device", "_graph", "outputs")

    def __init__(self, graph: Graph, around: Lookup, device: Device | None) -> None:
        self.outputs = graph.outputs
        self._graph = graph
        self._around = around
        self._device = device

    def __call__(self, *inputs: Value) -> list[Value]:
        return run(self._graph, inputs, self._around, self._device)


def run(
    graph: Graph, inputs: Sequence[Value], around: Lookup, device: Device | None
) -> list[Value]:
    """The outputs of a graph.

    Args:
        graph: its operators are known.
        inputs: as many as it has, in order.
        around: gives what is named outside: weights, and values of outer graphs.
        device: where new tensors go if no input says so.
    """
    if len(inputs) != len(graph.inputs):
        raise ModelError(
            f"graph {graph.name!r} takes {len(graph.inputs)} inputs "
            f"({', '.join(map(str, graph.inputs))}), got {len(inputs)}"
        )
    values = dict(zip((p.name for p in graph.inputs), inputs, strict=True))
    held: Mapping[str, Any] = graph.initializers

    def look_up(name: str) -> Value:
        if name in values:
            return values[name]
        return held[name] if name in held else around(name)

    for node in graph.nodes:
        results = _run_node(node, look_up, device)
        for name, value in zip(node.outputs, results, strict=False):
            if name:
                values[name] = value
        for name in node.last:
            values.pop(name, None)
    return [look_up(p.name) for p in graph.outputs]


def _run_node(node: Node, look_up: Lookup, device: Device | None) -> tuple[Value, ...]:
    inputs = [look_up(name) if name else None for name in node.inputs]
    attributes = {name: _bound(a, look_up, device) for name, a in node.attributes.items()}
    assert node.operator is not None
    try:
        results = node.operator(inputs, attributes, len(node.outputs), device)
    except IngleError as error:
        error.add_note(f"at {node} of {_told(node, inputs)}")
        raise
    except (
        ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError,
    ) as error:  # fmt: skip
        raise ModelError(f"{node} of {_told(node, inputs)}: {error}") from error
    if len(results) < len(node.outputs):
        raise ModelError(
            f"{node} gives {len(results)} results, and {len(node.outputs)} are asked of it"
        )
    return tuple(np.asarray(v) if isinstance(v, np.generic) else v for v in results)


def _bound(attribute: Any, look_up: Lookup, device: Device | None) -> Any:
    return Body(attribute, look_up, device) if isinstance(attribute, Graph) else attribute


def _told(node: Node, inputs: Sequence[Value]) -> str:
    return (
        ", ".join(f"{n}: {kind(v)}" for n, v in zip(node.inputs, inputs, strict=True)) or "nothing"
    )
