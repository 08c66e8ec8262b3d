"""Plans of kernels alone that serve all sizes of a form: what of them sizes decide is computed.

A plan for one size is a schedule with offsets in memory and executables, which takes as long to
make as hundreds of runs on few elements. Where a graph comes in a new size at each call, as in any
loop over sequences of several lengths, only numbers change between these plans. They are
polynomials of the sizes, for all sizes that answer the questions of the passes alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import DType

from ..ir.scalar_program import Host
from ..ir.views import View
from ..schedule.schedule import Schedule
from ..symbolic.decompositions import SymbolicDecomposition, WrittenOut
from ..symbolic.sequences import Generalization, at_sizes, with_sizes
from .device import Launch
from .plan_data import Check, kernel_run, outputs_of


class SizedRun(NamedTuple):
    """What one size comes to.

    Attributes:
        scalars: what the kernels take, from the numbers of the graph; None where a guard fails.
        own: what the run makes.
        arena: how many bytes of memory the kernels share.
        outputs: the numbers of values, as `PlanData` has them.
        launches: the kernels.
        checks: what may go wrong.
    """

    scalars: Callable[[Sequence[Any]], Sequence[Any] | None]
    own: Sequence[Aval]
    arena: int
    outputs: Sequence[tuple[int, View | None]]
    launches: Sequence[Launch]
    checks: Sequence[Check]


class AnySizePlan:
    """A plan for all sizes; made by `any_size_plan` of the pipeline.

    Args:
        decomposition: of the graph, for all its sizes.
        general: the decomposed graph for all of them.
        schedule: of that graph.
        written: the decomposed graph of an example.

    Attributes:
        launches: the kernels, where sizes are symbols.
        roots: the numbers of the values that are their buffers, behind the arena.
        scalars: the dtypes of the numbers that kernels take.
        inputs: how many there are.
        products: positions of the inputs whose order of axes in memory decides bits.
    """

    def __init__(
        self, decomposition: SymbolicDecomposition, general: Generalization, schedule: Schedule,
        written: WrittenOut,
    ) -> None:  # fmt: skip
        graph, rest = schedule.graph, written.rest
        self.inputs = len(graph.inputs)
        numbers = {n: i for i, n in enumerate((*graph.inputs, *schedule.own))}
        (calls,) = schedule.steps
        assert isinstance(calls, list)
        launches, self.roots = kernel_run(schedule, calls, numbers)
        parts = [with_sizes(launch.call) for launch in launches]
        self.launches = [
            launch._replace(call=call) for launch, (call, _) in zip(launches, parts, strict=True)
        ]
        self.scalars = tuple([graph.values[s].aval.dtype.name for s in graph.scalars])
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
                tuple(
                    [
                        (part, launch.pointers)
                        for launch, (_, part) in zip(launches, parts, strict=True)
                    ]
                ),
            )
        )

    def at(self, numbers: Sequence[Any]) -> SizedRun | None:
        """What runs a graph of the form; None if it does not answer alike.

        Args:
            numbers: its sizes; see `form_of`.
        """
        written = self._decomposition.at(numbers)
        if written is None:
            return None
        found = self._general.answer(self._sizes, written.form.numbers)
        if found is None:
            return None
        shapes, arena, views, launches = found
        outputs = list(zip(self._outputs, views, strict=True))
        count = self._count
        return SizedRun(
            self._named.at(written),
            [Aval(s, d) for s, d in zip(shapes, self._dtypes, strict=True)],
            arena,
            outputs[:count],
            [
                launch._replace(call=at_sizes(launch.call, part), pointers=pointers)
                for launch, (part, pointers) in zip(self.launches, launches, strict=True)
            ],
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
