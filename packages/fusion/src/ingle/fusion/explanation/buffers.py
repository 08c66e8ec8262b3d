"""The memory that kernels of a plan read and write, as `explain` numbers and names it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ingle.tensor.cell import Cell

from ..compiled.specialization import Specialization
from ..ir.graph import Graph
from ..ir.views import Views


class Buffer(NamedTuple):
    """Memory that kernels of a plan read or write.

    Attributes:
        role: `"between"` kernels, `"result"`, or what the function is given or has at hand, such as
            `"argument x"` or `"parameter"`.
        shape, dtype: of the value in it.
        written: whether it is the new value of what its role names.
    """

    role: str
    shape: tuple[int, ...]
    dtype: str
    written: bool = False

    def __str__(self) -> str:
        shape = times(self.shape) or "scalar"
        role = "" if self.role == "between" else f"{self.role}  "
        return f"{'new ' if self.written else ''}{role}{self.dtype} {shape}"


def times(sizes: Sequence[int]) -> str:
    """Sizes with the sign of a product between them."""
    return "\u00d7".join(map(str, sizes))


class Buffers:
    """Numbers the memory of a plan as kernels ask for it.

    Args:
        graph, views: the plan's.
        found: memory that other plans have asked for, which comes first.

    Attributes:
        found: the memory that was asked for, by its numbers.
        roles: of values by number, with whether they are written.
    """

    def __init__(self, graph: Graph, views: Views, found: list[Buffer] | None = None) -> None:
        self.found: list[Buffer] = [] if found is None else found
        self.graph = graph
        self.views = views
        self.roles: dict[int, tuple[str, bool]] = {}
        self._numbers: dict[int, int] = {}

    def name(self, entry: Specialization, arguments: Sequence[str]) -> None:
        """Names inputs and results after a recording, with whose the plan's begin.

        Args:
            entry: the recording.
            arguments: what the function calls its arguments, by position; empty if they are
                containers.
        """
        for result in entry.results:
            if result.kind == "tensor":
                self.roles[self._output(result.data)] = ("result", False)
        for cell, result in entry.writes:
            if result.kind == "tensor":
                self.roles[self._output(result.data)] = (_name(cell, arguments), True)
        for value, source in zip(self.graph.inputs, entry.sources, strict=False):
            self.roles[value] = (_name(source, arguments), False)

    def tell(self, value: int, role: str, written: bool) -> None:
        """Says what a value is."""
        self.roles[self.views.of(value).root] = role, written

    def is_same(self, value: int, number: int) -> None:
        """Says that a value is in memory that has a number."""
        self._numbers[self.views.of(value).root] = number

    def number_of(self, value: int) -> int | None:
        """The number of a value's memory, if a kernel has asked for it."""
        return self._numbers.get(self.views.of(value).root)

    def _output(self, position: int) -> int:
        return self.views.of(self.graph.outputs[position]).root

    def numbers(self, values: Iterable[int]) -> tuple[int, ...]:
        """The numbers of the memory in which these values lie; numbers of the host have none."""
        roots = dict.fromkeys(self.views.of(value).root for value in values)
        kept = [r for r in roots if self.graph.values[r].kind not in ("constant", "scalar")]
        return tuple([self._number(root) for root in kept])

    def _number(self, root: int) -> int:
        if root not in self._numbers:
            self._numbers[root] = len(self.found)
            aval = self.graph.values[root].aval
            kept = "constant" if self.graph.values[root].kind == "input" else "between"
            role, written = self.roles.get(root, (kept, False))
            shape = tuple([int(size) for size in aval.shape])
            self.found.append(Buffer(role, shape, aval.dtype.name, written))
        return self._numbers[root]


def _name(source: Any, arguments: Sequence[str]) -> str:
    if isinstance(source, int):
        return f"argument {arguments[source]}" if source < len(arguments) else "argument"
    return type(source).__name__.lower() if isinstance(source, Cell) else "tensor"
