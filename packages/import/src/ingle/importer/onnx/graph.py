"""A graph of ONNX as plain data: nodes whose operators are found and attributes decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .registry import Operator

Dim = int | str | None
"""A size, its name, or None for one that nothing is known of."""


@dataclass(frozen=True)
class Port:
    """An input or output of a graph.

    Attributes:
        name: by which nodes use it.
        kind: `tensor`, `sequence`, `optional`, `map` or `sparse`.
        dtype: NumPy's, of a tensor; None where it is not said.
        shape: None where even the number of axes is not said.
    """

    name: str
    kind: str = "tensor"
    dtype: np.dtype | None = None
    shape: tuple[Dim, ...] | None = None

    @staticmethod
    def parse(text: str) -> Port:
        """The port of which `text` is the description.

        >>> from ingle.importer.onnx.graph import Port
        >>> Port.parse("x: float32[n, ?, 3]")
        Port(name='x', kind='tensor', dtype=dtype('float32'), shape=('n', None, 3))
        """
        name, _, told = text.rpartition(": ")
        kind, bracket, rest = told.partition("[")
        if not bracket:
            return Port(name, kind)
        dtype = None if kind == "?" else np.dtype(object if kind == "string" else kind)
        if rest == "...]":
            return Port(name, dtype=dtype)
        sizes = [n for n in rest.removesuffix("]").split(", ") if n]
        shape = tuple(int(n) if n.isdecimal() else None if n == "?" else n for n in sizes)
        return Port(name, dtype=dtype, shape=shape)

    def __str__(self) -> str:
        if self.kind != "tensor":
            return f"{self.name}: {self.kind}"
        dtype = "?" if self.dtype is None else self.dtype
        dtype = "string" if dtype == np.dtype(object) else dtype
        shape = (
            "..."
            if self.shape is None
            else ", ".join("?" if n is None else str(n) for n in self.shape)
        )
        return f"{self.name}: {dtype}[{shape}]"


@dataclass
class Node:
    """One operator at work.

    Attributes:
        kind, domain: of the operator.
        name: the node's own, or one made of its kind and place.
        inputs: names of values; empty for an optional one that is not given.
        outputs: names for results; empty for those that nobody uses.
        attributes: decoded; a graph is a `Graph`.
        operator: what computes it.
        last: names that nobody uses behind it.
    """

    kind: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    operator: Operator | None = None
    last: tuple[str, ...] = ()

    @property
    def graphs(self) -> Iterator[Graph]:
        """The graphs among its attributes."""
        for value in self.attributes.values():
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, Graph):
                    yield one

    def __str__(self) -> str:
        return f"node {self.name!r} ({self.domain + '.' if self.domain else ''}{self.kind})"


@dataclass
class Graph:
    """Nodes in an order in which they can run, with what goes in and out."""

    name: str
    inputs: list[Port]
    outputs: list[Port]
    nodes: list[Node]
    initializers: dict[str, np.ndarray] = field(default_factory=dict)

    def walk(self) -> Iterator[Node]:
        """Every node, those of inner graphs behind their owner."""
        for node in self.nodes:
            yield node
            for graph in node.graphs:
                yield from graph.walk()

    def free_names(self) -> set[str]:
        """Names that it takes from around it."""
        known = {p.name for p in self.inputs} | self.initializers.keys()
        free: set[str] = set()
        for node in self.nodes:
            free |= uses(node) - known
            known.update(node.outputs)
        return free | ({p.name for p in self.outputs} - known)


def uses(node: Node) -> set[str]:
    """Names of values that a node reads, itself or in its inner graphs."""
    names = {n for n in node.inputs if n}
    for graph in node.graphs:
        names |= graph.free_names()
    return names


def note_last_uses(graph: Graph) -> None:
    """Fills in `Node.last`, so that values are given up as soon as nobody needs them."""
    needed = {p.name for p in graph.outputs}
    for node in reversed(graph.nodes):
        used = uses(node)
        node.last = tuple(sorted((used | {n for n in node.outputs if n}) - needed))
        needed |= used
        for inner in node.graphs:
            note_last_uses(inner)


Reader = Callable[[str], Any]
