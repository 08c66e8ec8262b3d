"""Plans of kernels alone that serve all sizes of a form: what of them sizes decide is computed.

A plan for one size is a schedule with offsets in memory and executables, which takes as long to
make as hundreds of runs on few elements. Where a graph comes in a new size at each call, as in any
loop over sequences of several lengths, only numbers change between these plans. They are
polynomials of the sizes, for all sizes that answer the questions of the passes alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from ingle.tensor.contract import Aval, Handle
from ingle.tensor.dtypes import DType

from ..ir.scalar_program import Host
from ..ir.views import View
from ..schedule.schedule import Schedule
from ..support.source_location import Line
from ..symbolic.decompositions import SymbolicDecomposition, WrittenOut
from ..symbolic.sequences import Generalization
from .plan_data import Check, kernel_run, outputs_of


class SizedRun(NamedTuple):
    """What one size comes to.

    Attributes:
        scalars: what the kernels take, from the numbers of the graph; None where a guard fails.
        own: what the run makes.
        arena: how many bytes of memory the kernels share.
        outputs: the numbers of values, as `PlanData` has them.
        sized: what the device takes of the launches; see `SizedPlan.sizes`.
        checks: what may go wrong.
    """

    scalars: Callable[[Sequence[Any]], Sequence[Any] | None]
    own: Sequence[Aval]
    arena: int
    outputs: Sequence[tuple[int, View | None]]
    sized: Any
    checks: Sequence[Check]


SizedCall = Callable[[Sequence[Handle], Sequence[Any]], "list[Handle] | None"]
"""A graph of certain sizes: runs on tensors and numbers; None if these take a plan."""


class SizedPlan(Protocol):
    """The kernels of a plan for all sizes, on a device; made by its `sized_plan`.

    Attributes:
        sizes: what of them sizes decide, as tuples in which symbols occur.
    """

    sizes: tuple[Any, ...]

    def call(
        self, plan: AnySizePlan, run: SizedRun, made_by: str, lines: Sequence[Line]
    ) -> SizedCall | None:
        """What runs it for certain sizes; None if it takes so long that it shall be a plan.

        Args:
            plan: whose kernels they are.
            run: what these sizes come to.
            made_by: what large results are made by, for messages.
            lines: of the user's code, for each node of the graph, if they are known.
        """
        ...


class AnySizePlan:
    """A plan for all sizes; made by `any_size_plan` of the pipeline.

    Args:
        device: which runs it.
        decomposition: of the graph, for all its sizes.
        general: the decomposed graph for all of them.
        schedule: of that graph.
        written: the decomposed graph of an example.

    Attributes:
        kernels: the device's.
        roots: the numbers of the values that are their buffers, behind the arena.
        inputs: how many there are.
        products: positions of the inputs whose order of axes in memory decides bits.
    """

    def __init__(
        self, device: Any, decomposition: SymbolicDecomposition, general: Generalization,
        schedule: Schedule, written: WrittenOut,
    ) -> None:  # fmt: skip
        graph, rest = schedule.graph, written.rest
        self.inputs = len(graph.inputs)
        numbers = {n: i for i, n in enumerate((*graph.inputs, *schedule.own))}
        (calls,) = schedule.steps
        assert isinstance(calls, list)
        launches, self.roots = kernel_run(schedule, calls, numbers)
        scalars = tuple([graph.values[s].aval.dtype.name for s in graph.scalars])
        self.kernels: SizedPlan = device.sized_plan(launches, 1 + len(self.roots), scalars)
        self.products = tuple([i for i in rest.products if i < self.inputs])
        self._decomposition = decomposition
        self._general = general
        self._dtypes: list[DType] = [graph.values[v].aval.dtype for v in schedule.own]
        outputs = outputs_of(schedule, numbers)
        self._outputs = [number for number, _ in outputs]
        self._count = len(outputs) - len(rest.checks)
        self._named = _NamedScalars(written, general.sources)
        self._sizes = general.inquiry.function(
            (
                general.sizes,
                tuple([graph.values[v].aval.shape for v in schedule.own]),
                schedule.arena,
                tuple([view for _, view in outputs]),
                self.kernels.sizes,
            )
        )

    def call(self, numbers: Sequence[Any], made_by: str, lines: Sequence[Line]) -> SizedCall | None:
        """What runs a graph of the form, as `at` and `SizedPlan` say; None if that is a plan."""
        run = self.at(numbers)
        return None if run is None else self.kernels.call(self, run, made_by, lines)

    def serves(self, numbers: Sequence[Any]) -> bool:
        """Whether it holds for a decomposed graph.

        Args:
            numbers: of that graph.
        """
        return self._general.answer(self._sizes, numbers) is not None

    def at(self, numbers: Sequence[Any]) -> SizedRun | None:
        """What becomes of a graph of the form; None if it does not answer alike.

        Args:
            numbers: its sizes; see `form_of`.
        """
        written = self._decomposition.at(numbers)
        if written is None:
            return None
        found = self._general.answer(self._sizes, written.form.numbers)
        if found is None:
            return None
        shapes, arena, views, sized = found
        outputs = list(zip(self._outputs, views, strict=True))
        count = self._count
        return SizedRun(
            self._named.at(written),
            [Aval(s, d) for s, d in zip(shapes, self._dtypes, strict=True)],
            arena,
            outputs[:count],
            sized,
            [
                Check(number, check.text, check.node)
                for (number, _), check in zip(outputs[count:], written.rest.checks, strict=True)
            ],
        )


class _NamedScalars:
    """Computes what kernels take without writing a function for each size.

    Args:
        written: the decomposed graph of an example, whose results have the same names.
        sources: for each number that the kernels take its place among the results, or behind these
            among the graph's constants.
    """

    def __init__(self, written: WrittenOut, sources: Sequence[int]) -> None:
        program = written.rest.scalars
        self._sources = sources
        self._results = len(program.results)
        names = [r for r in program.results if isinstance(r, str)]
        self._host: Host = program._replace(results=tuple(names)).function()
        self._plain = not names and not program.lines
        places = iter(range(len(names)))
        self._places = [next(places) if isinstance(r, str) else -1 for r in program.results]

    def at(self, written: WrittenOut) -> Callable[[Sequence[Any]], Sequence[Any] | None]:
        """What computes them for one size."""
        results, constants = written.rest.scalars.results, written.constants
        places, host, first = self._places, self._host, self._results
        # From here on the numbers that are known are known as they are.
        known = [
            (places[k], results[k][0] if places[k] < 0 else None)
            if k < first
            else (-1, constants[k - first])
            for k in self._sources
        ]
        if self._plain:
            numbers = tuple([number for _, number in known])
            return lambda given: numbers

        def scalars(given: Sequence[Any]) -> Sequence[Any] | None:
            made = host(*given)
            return None if made is None else [n if at < 0 else made[at] for at, n in known]

        return scalars
