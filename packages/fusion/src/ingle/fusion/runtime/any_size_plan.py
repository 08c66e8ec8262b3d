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
from ingle.tensor.dtypes import as_dtype

from ..ir.scalar_program import Host, ScalarProgram
from ..ir.views import View
from ..passes.decompose import FlagText
from ..schedule.schedule import Schedule
from ..support.source_location import Line
from ..symbolic.answers import Answers
from ..symbolic.decompositions import Remainder, SymbolicDecomposition
from ..symbolic.generalization import Generalization
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


class AnySizeData(NamedTuple):
    """All of a plan for all sizes but the device's kernels, as data.

    Attributes:
        decomposition: what comes of a graph's numbers: those of the decomposed one, its constants,
            results of its arithmetic, parts of its checks.
        answers: what comes of the decomposed graph's numbers: the shapes of `dtypes`, bytes of the
            arena, views that outputs are, and what the device takes; see `SizedPlan.sizes`.
        scalars: the arithmetic of the decomposed graph of an example.
        checks: likewise.
        sources: for each number that the kernels take its place among the results of `scalars`, or
            behind these among the decomposed graph's constants.
        inputs: how many there are.
        roots: the numbers of the values that are the kernels' buffers, behind the arena.
        products: positions of the inputs whose order of axes in memory decides bits.
        dtypes: of what the run makes.
        outputs: numbers of values; the last ones are flags of `checks`.
        taken: the dtypes of the numbers that the kernels take.
    """

    decomposition: Answers
    answers: Answers
    scalars: ScalarProgram
    checks: tuple[FlagText, ...]
    sources: tuple[int, ...]
    inputs: int
    roots: tuple[int, ...]
    products: tuple[int, ...]
    dtypes: tuple[str, ...]
    outputs: tuple[int, ...]
    taken: tuple[str, ...]


def any_size_plan_of(
    device: Any, decomposition: SymbolicDecomposition, general: Generalization, schedule: Schedule,
    rest: Remainder,
) -> AnySizePlan:  # fmt: skip
    """A plan for all sizes.

    Args:
        device: which runs it.
        decomposition: of the graph, for all its sizes.
        general: the decomposed graph for all of them.
        schedule: of that graph.
        rest: what else the plan takes of the decomposed graph of an example.
    """
    graph = schedule.graph
    count = len(graph.inputs)
    numbers = {n: i for i, n in enumerate((*graph.inputs, *schedule.own))}
    (calls,) = schedule.steps
    assert isinstance(calls, list)
    launches, roots = kernel_run(schedule, calls, numbers)
    taken = tuple([graph.values[s].aval.dtype.name for s in graph.scalars])
    kernels: SizedPlan = device.sized_plan(launches, 1 + len(roots), taken)
    outputs, own = outputs_of(schedule, numbers), [graph.values[v].aval for v in schedule.own]
    answers = general.answers(
        tuple([aval.shape for aval in own]), schedule.arena, tuple([view for _, view in outputs]),
        kernels.sizes,
    )  # fmt: skip
    data = AnySizeData(
        decomposition.answers, answers, rest.scalars, rest.checks, tuple(general.sources), count,
        roots, tuple([i for i in rest.products if i < count]),
        tuple([aval.dtype.name for aval in own]), tuple([number for number, _ in outputs]), taken,
    )  # fmt: skip
    return AnySizePlan(data, kernels)


class AnySizePlan:
    """A plan for all sizes.

    Args:
        data: everything of it but the device's kernels.
        kernels: those.

    Attributes:
        data, kernels: likewise.
    """

    def __init__(self, data: AnySizeData, kernels: SizedPlan) -> None:
        self.data = data
        self.kernels = kernels
        self._decomposed = data.decomposition.function()
        self._answered = data.answers.function()
        self._dtypes = [as_dtype(name) for name in data.dtypes]
        self._count = len(data.outputs) - len(data.checks)
        self._named = _NamedScalars(data.scalars, data.sources)

    def call(self, numbers: Sequence[Any], made_by: str, lines: Sequence[Line]) -> SizedCall | None:
        """What runs a graph of the form, as `at` and `SizedPlan` say; None if that is a plan."""
        run = self.at(numbers)
        return None if run is None else self.kernels.call(self, run, made_by, lines)

    def serves(self, numbers: Sequence[Any]) -> bool:
        """Whether it holds for a decomposed graph.

        Args:
            numbers: of that graph.
        """
        return self._answered(numbers) is not None

    def at(self, numbers: Sequence[Any]) -> SizedRun | None:
        """What becomes of a graph of the form; None if it does not answer alike.

        Args:
            numbers: its sizes; see `form_of`.
        """
        decomposed = self._decomposed(numbers)
        if decomposed is None:
            return None
        inside, constants, results, parts = decomposed
        found = self._answered(inside)
        if found is None:
            return None
        shapes, arena, views, sized = found
        outputs = list(zip(self.data.outputs, views, strict=True))
        count, checks = self._count, zip(self.data.checks, parts, strict=True)
        return SizedRun(
            self._named.at(results, constants),
            [Aval(s, d) for s, d in zip(shapes, self._dtypes, strict=True)],
            arena,
            outputs[:count],
            sized,
            [
                Check(number, check._replace(parts=its).text, check.node)
                for (number, _), (check, its) in zip(outputs[count:], checks, strict=True)
            ],
        )


class _NamedScalars:
    """Computes what kernels take without writing a function for each size.

    Args:
        program: that of an example, whose results have the same names.
        sources: as `AnySizeData` has them.
    """

    def __init__(self, program: ScalarProgram, sources: Sequence[int]) -> None:
        self._sources = sources
        self._results = len(program.results)
        names = [r for r in program.results if isinstance(r, str)]
        self._host: Host = program._replace(results=tuple(names)).function()
        self._plain = not names and not program.lines
        places = iter(range(len(names)))
        self._places = [next(places) if isinstance(r, str) else -1 for r in program.results]

    def at(
        self, results: Sequence[Any], constants: Sequence[Any]
    ) -> Callable[[Sequence[Any]], Sequence[Any] | None]:
        """What computes them for one size, of which the program's results and the decomposed
        graph's constants are known."""
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
