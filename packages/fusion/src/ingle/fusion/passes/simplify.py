"""What nobody needs is left out, and what was asked for twice is computed once."""

from __future__ import annotations

from typing import Any

from ingle.tensor.operation import typed_key

from ..graph import Graph


def simplify(graph: Graph) -> Graph:
    """The same outputs from as few nodes as dead code and common subexpressions allow.

    Operations are pure, random ones included (their place in the stream is an argument), so equal
    operations on equal values are one. Inputs and scalars all stay, in their order.
    """
    needed = _needed(graph)
    new = Graph()
    place: dict[int, int] = {}
    seen: dict[Any, Any] = {}
    for number, value in enumerate(graph.values):
        if value.kind == "input":
            place[number] = new.input(value.aval)
        elif value.kind == "scalar":
            place[number] = new.scalar(value.aval.dtype)
        elif value.kind == "constant":
            key = (value.aval.dtype, typed_key(value.data))
            if key not in seen:
                seen[key] = new.constant(value.data, value.aval.dtype)
            place[number] = seen[key]
    for position, node in enumerate(graph.nodes):
        if not needed[position]:
            continue
        args = tuple([place[a] for a in node.args])
        same = _changes_nothing(graph, node.op.operation.name, node.args, node.results)
        if same is not None:
            place[node.results[0]] = place[same]
            continue
        work = (node.op, args)
        if work not in seen:
            seen[work] = new.node(node.op, args)
        place.update(zip(node.results, seen[work], strict=True))
    new.outputs = tuple([place[o] for o in graph.outputs])
    return new


def _needed(graph: Graph) -> list[bool]:
    wanted = set(graph.outputs)
    needed = [False] * len(graph.nodes)
    for position in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[position]
        if wanted.intersection(node.results):
            needed[position] = True
            wanted.update(node.args)
    return needed


def _changes_nothing(
    graph: Graph, name: str, args: tuple[int, ...], results: tuple[int, ...]
) -> int | None:
    """The argument that a reshape, broadcast or cast to what it is already hands on."""
    kind = graph.values[args[0]].kind if args else "constant"
    if len(args) == 1 and len(results) == 1 and kind in ("input", "result"):
        same = graph.values[args[0]].aval == graph.values[results[0]].aval
        if same and name in ("reshape", "broadcast_to", "astype"):
            return args[0]
    return None
