"""Collects the nodes and constants of an ONNX graph, with names that occur once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..onnx.reading import onnx_package
from ..onnx.values import NUMBERS


@dataclass(frozen=True)
class Dim:
    """A size that is not known: a number plus multiples of named ones, or of their product.

    Attributes:
        constant: what is added; the factor of a product.
        parts: named sizes with how often each counts.
        product: whether the parts are multiplied.
    """

    constant: int
    parts: tuple[tuple[str, int], ...]
    product: bool = False


Size = int | Dim


def _read(nodes: Sequence[Any]) -> Iterator[str]:
    """The names that nodes read, those of their inner graphs too."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            yield from _read(attribute.g.node)


@dataclass
class Writer:
    """A graph that is being written.

    Attributes:
        nodes: what is computed.
        constants: arrays by name.
        places: the input and axis that each named size is read from.
        outer: the writer of the graph around it, for bodies of loops and branches.
    """

    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    places: dict[str, tuple[str, int]] = field(default_factory=dict)
    outer: Writer | None = None
    _taken: set[str] = field(default_factory=set)
    _known: dict[tuple[object, ...], str] = field(default_factory=dict)
    _sizes: dict[object, str] = field(default_factory=dict)

    def name(self, wish: str) -> str:
        """A name that nothing has yet, in this graph and around it."""
        root = self
        while root.outer is not None:
            root = root.outer
        name, n = wish, 1
        while name in root._taken:
            n += 1
            name = f"{wish}_{n}"
        root._taken.add(name)
        return name

    def constant(self, array: Any, dtype: Any = None) -> str:
        """The name of a constant; equal small ones are one."""
        value = np.asarray(array, dtype)
        key = (value.tobytes(), value.shape, value.dtype.name)
        if value.size < 64 and key in self._known:
            return self._known[key]
        name = self.name("constant")
        self.constants[name] = value
        self._known[key] = name
        return name

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Adds a node and gives the name of its first result."""
        return self.nodes_of(kind, inputs, outputs, **attributes)[0]

    def nodes_of(
        self, kind: str, inputs: Sequence[str], outputs: int, **attributes: Any
    ) -> list[str]:
        """Adds a node and gives the names of all its results."""
        names = [self.name(kind.lower()) for _ in range(outputs)]
        helper = onnx_package().helper
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], **attributes))
        return names

    def cast(self, x: str, dtype: np.dtype) -> str:
        """The same numbers in another dtype."""
        return self.node("Cast", x, to=NUMBERS[dtype])

    def size(self, dim: Size) -> str:
        """A size as a tensor of one element."""
        if isinstance(dim, int):
            return self.constant([dim], np.int64)
        if dim in self._sizes:
            return self._sizes[dim]
        total: str | None = None if dim.product else self.constant([dim.constant], np.int64)
        if dim.product and dim.constant != 1:
            total = self.constant([dim.constant], np.int64)
        for name, count in dim.parts:
            source, axis = self.place(name)
            part = self.node("Shape", source, start=axis, end=axis + 1)
            if count != 1 and not dim.product:
                part = self.node("Mul", part, self.constant([count], np.int64))
            kind = "Mul" if dim.product else "Add"
            total = part if total is None else self.node(kind, total, part)
        assert total is not None
        self._sizes[dim] = total
        return total

    def reshape(self, x: str, sizes: Sequence[Size]) -> str:
        """The same elements in another shape; a size of 0 is one, where it would be the input's."""
        none = {"allowzero": 1} if 0 in sizes else {}
        return self.node("Reshape", x, self.shape(sizes), **none)

    def expand(self, x: str, sizes: Sequence[Size], dtype: np.dtype) -> str:
        """Repeated to a shape. Runtimes give one element where 1 becomes 0: none are made anew."""
        if 0 not in sizes:
            return self.node("Expand", x, self.shape(sizes))
        nothing = onnx_package().numpy_helper.from_array(np.zeros(1, dtype))
        return self.node("ConstantOfShape", self.shape(sizes), value=nothing)

    def used_constants(self) -> dict[str, np.ndarray]:
        """The constants that some node reads."""
        used = set(_read(self.nodes))
        return {name: value for name, value in self.constants.items() if name in used}

    def place(self, name: str) -> tuple[str, int]:
        """The input and the axis that a named size is read from."""
        if name in self.places:
            return self.places[name]
        assert self.outer is not None
        return self.outer.place(name)

    def number(self, dim: Dim, dtype: np.dtype) -> str:
        """A size as a number of another dtype."""
        return self.cast(self.node("Squeeze", self.size(dim)), dtype)

    def arange(self, count: Size) -> str:
        """The numbers from 0 on, in int64."""
        if isinstance(count, int):
            return self.constant(np.arange(count), np.int64)
        zero, one = (self.constant(n, np.int64) for n in (0, 1))
        return self.node("Range", zero, self.node("Squeeze", self.size(count)), one)

    def shape(self, sizes: Sequence[Size]) -> str:
        """Sizes as one tensor."""
        if all(isinstance(n, int) for n in sizes):
            return self.constant(list(sizes), np.int64)
        return self.node("Concat", *[self.size(n) for n in sizes], axis=0)
