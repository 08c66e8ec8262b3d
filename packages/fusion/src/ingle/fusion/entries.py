"""One recording of a compiled function: where its inputs come from and where its results go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ingle.tensor import Tensor
from ingle.tensor.cell import Cell, Scope, current_scope, land
from ingle.tensor.contract import Handle
from ingle.tensor.pytree import unflatten

from .graph import Graph
from .lines import Line
from .plans import Executable
from .recorder import LazyHandle

MOST_EPOCHS = 64

Number = "int | float"
Source = "int | Cell[Any] | Handle"


@dataclass(frozen=True, slots=True)
class Result:
    """One thing that a run returns or writes.

    Attributes:
        kind: `"tensor"`: an output of the plan; `"number"`: a result of the arithmetic on numbers;
            `"fixed"`: the same thing every time.
        data: the position, or the thing.
    """

    kind: str
    data: Any


class Missed(Exception):  # noqa: N818 (no error: another recording is needed)
    """A guard failed: this recording does not hold for these numbers."""


@dataclass(eq=False, slots=True)
class Entry:
    """A recording that can be run.

    Attributes:
        signature: equal for recordings of the same work.
        lines: for each part of the log in the signature, who asked for it.
        graph: the tensors' part.
        host: computes the numbers' part: from numbers among the arguments and cells to the plan's
            scalars and what else is returned or written; None where a guard fails.
        lines_of_host: the same computation as lines of a tape, and `spelled`, the names of its
            results there.
        scalars: how many of the host's results are the plan's.
        sources: for each input of the plan: the position among the arguments, the cell, or the
            handle itself.
        numbers: for each input of the host the position among the arguments, or the cell.
        fixed: cells whose contents are constants, with these.
        results: the leaves of what the function returns.
        tree: the structure of what the function returns.
        writes: what is written to which cell.
        executable: runs the graph.
        avals: the shapes and dtypes of what cells held.
        wrap: makes a handle of the device's own backend of one of the backend below.
        fast: does all this for positional arguments; see `binding`.
        epochs: the epochs of structure for which this is known to hold.
        verified: whether a second recording was equal.
    """

    signature: tuple[Any, ...]
    lines: list[Line]
    graph: Graph
    host: Callable[..., tuple[Any, ...] | None]
    lines_of_host: list[str]
    spelled: list[str]
    scalars: int
    sources: list[Any]
    numbers: list[Any]
    fixed: list[tuple[Cell[Any], Any]]
    results: list[Result]
    tree: Any
    writes: list[tuple[Cell[Any], Result]]
    avals: dict[Cell[Any], Any]
    wrap: Callable[[Handle], Handle]
    executable: Executable | None = None
    epochs: set[int] = field(default_factory=set)
    verified: bool = False
    fast: Callable[[Sequence[Any]], Any] | None = None

    def run(self, leaves: Sequence[Any]) -> Any:
        """Runs the plan on these arguments.

        Raises:
            Missed: the recording does not hold for them.
        """
        scope = current_scope()
        for cell, value in self.fixed:
            if _raw(cell, scope) is not value:
                raise Missed
        computed = self._computed(leaves, scope)
        assert self.executable is not None, "an entry is run after it was planned"
        outputs = self.executable(self._given(leaves, scope), computed[: self.scalars])
        self._write(scope, outputs, computed)
        return unflatten(self.tree, [self._result(r, outputs, computed) for r in self.results])

    def hold(self, now: int) -> None:
        """Notes that this is what is recorded in an epoch; of too many it forgets the others."""
        if len(self.epochs) >= MOST_EPOCHS:
            self.epochs.clear()
        self.epochs.add(now)

    def holds(self, leaves: Sequence[Any]) -> bool:
        """Whether its guards on numbers hold for these arguments."""
        try:
            self._computed(leaves, current_scope())
        except Missed:
            return False
        return True

    def inputs(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], list[Handle]]:
        """What the plan would be run with: numbers and handles."""
        scope = current_scope()
        return self._computed(leaves, scope)[: self.scalars], self._given(leaves, scope)

    def _computed(self, leaves: Sequence[Any], scope: Scope | None) -> tuple[Any, ...]:
        numbers = [leaves[n] if type(n) is int else _raw(n, scope) for n in self.numbers]
        computed = self.host(*numbers)
        if computed is None:
            raise Missed
        return computed

    def _given(self, leaves: Sequence[Any], scope: Scope | None) -> list[Handle]:
        given: list[Handle] = []
        for source in self.sources:
            if type(source) is int:
                handle = leaves[source]._handle
            elif isinstance(source, Cell):
                handle = _raw(source, scope)._handle
                if (handle.shape, handle.dtype) != self.avals[source]:
                    raise Missed
            else:
                handle = source
            given.append(handle.computed() if type(handle) is LazyHandle else handle)
        return given

    def _result(self, result: Result, outputs: Sequence[Handle], computed: Sequence[Any]) -> Any:
        if result.kind == "tensor":
            return Tensor(self.wrap(outputs[result.data]))
        return computed[result.data] if result.kind == "number" else result.data

    def _write(
        self, scope: Scope | None, outputs: Sequence[Handle], computed: Sequence[Any]
    ) -> None:
        values = [(cell, self._result(r, outputs, computed)) for cell, r in self.writes]
        if scope is not None:
            scope.writes.update(values)
            return
        land(values)


def _raw(cell: Cell[Any], scope: Scope | None) -> Any:
    return cell._value if scope is None else scope.read(cell)
