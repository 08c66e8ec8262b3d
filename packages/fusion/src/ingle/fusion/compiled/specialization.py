"""One recording of a compiled function: where its inputs come from and where its results go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ingle.tensor import Tensor
from ingle.tensor.cell import Cell
from ingle.tensor.contract import Backend, Handle
from ingle.tensor.interruptions import is_from_outside
from ingle.tensor.pytree import unflatten
from ingle.tensor.structure import epoch
from ingle.tensor.tape import Tape
from ingle.tensor.transactions import (
    Scope,
    call_alone,
    commit_lock,
    commit_writes,
    commits,
    current_scope,
)

from ..ir.graph import Graph
from ..record.log import LazyHandle
from ..runtime.plan_cache import Executable
from ..support.source_location import Line
from .attribute_reads import Noted, Place
from .snapshots import Snapshot

MOST_EPOCHS = 64
MOST_READINGS = 8

Number = "int | float"
Source = "int | Cell[Any] | Handle"


@dataclass(frozen=True, slots=True)
class Result:
    """One thing that a run returns or writes.

    Attributes:
        kind: `"tensor"`: an output of the plan; `"number"`: a result of the arithmetic on numbers;
            `"argument"`: what came in; `"fixed"`: the same thing every time.
        data: the position, or the thing.
    """

    kind: str
    data: Any


class Missed(Exception):  # noqa: N818 (no error: another recording is needed)
    """A guard failed: this recording does not hold for this call. Says which."""


@dataclass(eq=False, slots=True)
class Specialization:
    """A recording that can be run.

    Attributes:
        signature: equal for recordings of the same work.
        lines: for each part of the log in the signature, who asked for it.
        graph: the tensors' part.
        host: computes the numbers' part: from numbers among the arguments and cells to the plan's
            scalars and what else is returned or written; None where a guard fails.
        tape: the same computation as it was recorded, and `spelled`, the names of its
            results there.
        scalars: how many of the host's results are the plan's.
        sources: for each input of the plan: the position among the arguments, the place in one,
            the cell, or the handle itself.
        numbers: for each input of the host the position among the arguments, or the cell; and
            `kinds`, the types that they had.
        fixed: cells whose contents are constants, with these.
        results: the leaves of what the function returns.
        tree: the structure of what the function returns.
        writes: what is written to which cell.
        rebound: positions and places of tensors among the arguments that get another value, with
            that.
        shown: the shapes and dtypes of what cells and places held.
        backends: those that the handles of what cells and places held are of.
        wrap: makes a handle of the device's own backend of one of the backend below.
        readings: attributes of objects that it holds for; one of these lists does.
        executable: runs the graph.
        fast: does all this for positional arguments; see `binding`.
        epochs: the epochs of structure for which this is known to hold.
        sample: what the host computes of numbers that are shown so.
        verified: whether a second recording was equal.
    """

    signature: tuple[Any, ...]
    lines: list[Line]
    graph: Graph
    host: Callable[..., tuple[Any, ...] | None]
    tape: Tape
    spelled: list[str]
    scalars: int
    sources: list[Any]
    numbers: list[Any]
    kinds: list[type]
    fixed: list[tuple[Cell[Any], Snapshot]]
    results: list[Result]
    tree: Any
    writes: list[tuple[Cell[Any], Result]]
    rebound: list[tuple[int | Place, Result]]
    shown: dict[Cell[Any] | Place, Any]
    backends: dict[Cell[Any] | Place, Backend]
    wrap: Callable[[Handle], Handle]
    readings: list[list[Noted]]
    executable: Executable | None = None
    epochs: set[int] = field(default_factory=set)
    verified: bool = False
    fast: Callable[[Sequence[Any]], Any] | None = None
    sample: tuple[list[str], tuple[Any, ...]] | None = None

    def run(self, leaves: Sequence[Any], *, fresh: bool = False) -> Any:
        """Runs the plan on these arguments.

        Calls that write cells run one after the other, each from what the one before has left:
        `commit_lock` is held from where cells are known to be what was read until they are written.

        Args:
            leaves: of the arguments.
            fresh: whether this was recorded just now, so that attributes are what they were.

        Raises:
            Missed: the recording does not hold for them.
        """
        if any(is_twice(place, self.sources, leaves) for place, _ in self.rebound):
            raise Missed("which tensors among the arguments are the same")
        scope = current_scope()
        while True:
            begun = commits.count
            if not fresh and not self.unchanged(leaves):
                raise Missed(self._changed(leaves))
            computed, given = self._computed(leaves, scope), self._given(leaves, scope)
            if scope is not None:
                outputs = self._outputs(given, computed)
                scope.writes.update(self._written(outputs, computed))
                break
            with commit_lock:
                # A group of writes that was committed meanwhile may have been read in part.
                if commits.count != begun:
                    continue
                if self.writes:
                    step = partial(self._step, leaves, given, computed)
                    found = call_alone([*self.stepped()], step)
                    if found is None:
                        continue
                    outputs = found
                    break
            outputs = self._outputs(given, computed)
            break
        for place, result in self.rebound:
            found_at(place, leaves)._rebind(self.wrap(outputs[result.data]))
        results = [self.result_of(r, outputs, computed, leaves) for r in self.results]
        return unflatten(self.tree, results)

    def planned(self, leaves: Sequence[Any]) -> bool:
        """Whether there is a plan for these arguments, which is made if it can be.

        Only a plan knows what it may write over. In a group of writes none is written over.
        """
        prepared = getattr(self.executable, "prepared", None)
        if prepared is None or current_scope() is not None:
            return False
        return bool(prepared(self._computed(leaves, None)[: self.scalars]))

    def stepped(self) -> dict[Cell[Any], int]:
        """The cells that others may step meanwhile, generators of random numbers, with their places
        among the numbers."""
        written = {cell for cell, _ in self.writes}
        places = {n: i for i, n in enumerate(self.numbers) if isinstance(n, Cell)}
        return {c: i for c, i in places.items() if c.step_lock is not None and c in written}

    def _step(
        self, leaves: Sequence[Any], given: list[Handle], computed: tuple[Any, ...]
    ) -> list[Handle] | None:
        """Runs and writes; None if a cell was stepped since it was read."""
        if self.stepped() and self._computed(leaves, None) != computed:
            return None
        outputs = self._outputs(given, computed)
        commit_writes(self._written(outputs, computed))
        return outputs

    def hold(self, now: int) -> None:
        """Notes that this is what is recorded in an epoch; of too many it forgets the others."""
        if len(self.epochs) >= MOST_EPOCHS:
            self.epochs.clear()
        self.epochs.add(now)

    def hold_for(self, readings: list[Noted]) -> None:
        """Notes attributes with which this was recorded as well."""
        self.readings = [readings, *self.readings[: MOST_READINGS - 1]]

    def unchanged(self, leaves: Sequence[Any]) -> bool:
        """Whether what was read of objects is as it was."""
        for some in self.readings:
            for reading in some:
                if not reading.holds(leaves):
                    break
            else:
                return True
        return False

    def why_not(self, leaves: Sequence[Any]) -> str | None:
        """Which of its guards does not hold for these arguments, if one does not."""
        scope = current_scope()
        try:
            if epoch() not in self.epochs:
                return "attributes of modules"
            if not self.unchanged(leaves):
                return self._changed(leaves)
            self._computed(leaves, scope)
            self._given(leaves, scope)
        except Missed as missed:
            return str(missed)
        return None

    def inputs(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], list[Handle]]:
        """What the plan would be run with: numbers and handles."""
        scope = current_scope()
        return self._computed(leaves, scope)[: self.scalars], self._given(leaves, scope)

    def _changed(self, leaves: Sequence[Any]) -> str:
        return next((r.told for r in self.readings[0] if not r.holds(leaves)), "an attribute")

    def _computed(self, leaves: Sequence[Any], scope: Scope | None) -> tuple[Any, ...]:
        for cell, value in self.fixed:
            if not value.holds(_raw(cell, scope)):
                raise Missed("what a cell holds, which is neither a tensor nor a number,")
        numbers = [leaves[n] if type(n) is int else _raw(n, scope) for n in self.numbers]
        if list(map(type, numbers)) != self.kinds:
            raise Missed("the type of a number")
        if self.sample is not None and self.sample[0] == list(map(repr, numbers)):
            return self.sample[1]  # known from recording it, without compiling the arithmetic
        try:
            computed = self.host(*numbers)
        except Exception as error:
            if is_from_outside(error):
                raise
            # The function itself says what is wrong with these numbers.
            raise Missed("a number for which arithmetic fails") from None
        if computed is None:
            raise Missed(_Unmet(self.tape, numbers))
        return computed

    def _given(self, leaves: Sequence[Any], scope: Scope | None) -> list[Handle]:
        given: list[Handle] = []
        for source in self.sources:
            if type(source) is int:
                handle = leaves[source]._handle
            elif isinstance(source, (Cell, Place)):
                if isinstance(source, Cell):
                    value, what = _raw(source, scope), "what a cell holds"
                else:
                    value, what = source.find(leaves), f"attribute {source.names[-1]!r}"
                if not isinstance(value, Tensor):
                    raise Missed(f"the type of {what}")
                handle = value._handle
                if handle.backend is not self.backends[source]:
                    raise Missed(f"the device of {what}")
                if (handle.shape, handle.dtype) != self.shown[source]:
                    raise Missed(f"the shape or dtype of {what}")
            else:
                handle = source
            given.append(handle.computed() if type(handle) is LazyHandle else handle)
        return given

    def _outputs(self, given: list[Handle], computed: tuple[Any, ...]) -> list[Handle]:
        assert self.executable is not None, "an entry is run after it was planned"
        run = self.executable
        if not self.writes:
            run = getattr(run, "begin", run)
        return run(given, computed[: self.scalars])

    def result_of(
        self, result: Result, outputs: Sequence[Handle], computed: Sequence[Any],
        leaves: Sequence[Any] = (),
    ) -> Any:  # fmt: skip
        if result.kind == "tensor":
            return Tensor(self.wrap(outputs[result.data]))
        if result.kind == "argument":
            return leaves[result.data]
        return computed[result.data] if result.kind == "number" else result.data

    def _written(
        self, outputs: Sequence[Handle], computed: Sequence[Any]
    ) -> list[tuple[Cell[Any], Any]]:
        return [(cell, self.result_of(r, outputs, computed)) for cell, r in self.writes]


class _Unmet:
    """Tells which guard on numbers was not met, if somebody asks."""

    def __init__(self, tape: Tape, numbers: Sequence[Any]) -> None:
        self._tape, self._numbers = tape, numbers

    def __str__(self) -> str:
        guard = self._tape.failing(self._numbers)
        where = None if guard is None else self._tape.guarded.get(guard)
        return (
            "a number" if where is None else f"a number that Python takes the value of at {where}"
        )


def found_at(place: int | Place, leaves: Sequence[Any]) -> Any:
    """What is at a position or place among the arguments."""
    return place.find(leaves) if isinstance(place, Place) else leaves[place]


def is_twice(place: int | Place, places: Iterable[Any], leaves: Sequence[Any]) -> bool:
    """Whether the tensor at a place is at another one, too; only positions and places count."""
    known = [p for p in places if type(p) in (int, Place)]
    return sum([found_at(p, leaves) is found_at(place, leaves) for p in known]) > 1


def _raw(cell: Cell[Any], scope: Scope | None) -> Any:
    return cell._value if scope is None else scope.read(cell)
