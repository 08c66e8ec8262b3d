"""Graphs without their composites, written out once for all graphs of a form.

Bodies of composites are Python that computes with sizes, as passes do, and decides by them. So they
run on symbols, too, and their `Inquiry` notes what was asked. A body that needs a size as a number,
to make a table of it or a float, holds for that size only; one that refuses symbols raises. Graphs
of such a form are decomposed one by one.

What the bodies write for symbols is compared with what they wrote for the examples. Elsewhere a
size may happen to be equal to a number of the code: these stay two constants of the graph.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from ingle.tensor.locks import renewed
from ingle.tensor.operation import typed_key

from ..ir.graph import Graph
from ..ir.scalar_program import ScalarProgram
from ..passes.decompose import FlagText
from .families import Families
from .form import Form, form_of
from .generalization import Generalization
from .samples import Samples

MOST_MADE, IN_VAIN = 16, 4
"""Decompositions that are kept for a form, and how many may serve a single size until no more are
made."""


NEARBY = 6
"""How many sizes nearby are looked at: of some of them bodies make something else."""


class Remainder(NamedTuple):
    """What a plan takes of a decomposed graph besides its kernels.

    Attributes:
        scalars, checks: as those of `Decomposed`.
        tensors: the constants that bodies made, as handles.
        products: positions of the inputs whose order of axes in memory decides bits.
    """

    scalars: ScalarProgram
    checks: tuple[FlagText, ...]
    tensors: tuple[Any, ...]
    products: tuple[int, ...]


class WrittenOut(NamedTuple):
    """A decomposed graph in numbers.

    Attributes:
        form: of the graph.
        constants: the numbers that are part of it, in order.
        rest: what a plan takes of it besides.
    """

    form: Form
    constants: tuple[Any, ...]
    rest: Remainder


def written_out(graph: Graph, rest: Remainder) -> WrittenOut:
    """A decomposed graph in numbers.

    Args:
        graph: the decomposed graph.
        rest: what a plan takes of it besides.
    """
    return WrittenOut(form_of(graph), constants_of(graph), rest)


def constants_of(graph: Graph) -> tuple[Any, ...]:
    """The numbers that are part of a graph, in order."""
    return tuple([v.data for v in graph.values if v.kind == "constant"])


class SymbolicDecomposition:
    """A decomposition in which sizes are symbols.

    Args:
        general: the graph for all of its form, before it is decomposed.
        example: what comes of it, in which symbols stand for sizes.

    Attributes:
        answers: what comes of numbers: the decomposed graph's numbers and constants, results of
            its arithmetic, parts of its checks.
        is_of_one_size: whether it may hold for a single value of a symbol only.
    """

    def __init__(self, general: Generalization, example: WrittenOut) -> None:
        self._example = example
        (_, numbers), constants, rest = example
        self.is_of_one_size = general.inquiry.is_settled
        parts = tuple([check.parts for check in rest.checks])
        self.answers = general.answers(numbers, constants, rest.scalars.results, parts)
        self._answering = self.answers.function()

    def at(self, numbers: Sequence[Any]) -> WrittenOut | None:
        """What comes of a graph of the form with these numbers, if they answer alike."""
        found = self._answering(numbers)
        if found is None:
            return None
        inside, constants, results, parts = found
        form, _, rest = self._example
        checks = zip(rest.checks, parts, strict=True)
        rest = rest._replace(
            scalars=rest.scalars._replace(results=results),
            checks=tuple([check._replace(parts=its) for check, its in checks]),
        )
        return WrittenOut(Form(form.skeleton, inside), constants, rest)

    def writes(self, numbers: Sequence[Any], written: WrittenOut) -> bool:
        """Whether a graph with these numbers comes to one that was decomposed by itself, value by
        value. Where sizes are equal by chance, that one has fewer numbers: equal ones are one."""
        found = self.at(numbers)
        return found is not None and found.form == written.form

    def nearby(self, numbers: Sequence[Any]) -> list[tuple[Any, ...]]:
        """What numbers a few graphs come to, decomposed, that are a little larger or smaller than
        one with these. They are examples of how sizes vary, each in its own way: real ones are few,
        and may have relations by chance."""
        values = [numbers[k] for k in self.answers.symbols]
        sizes, found = self.answers.program.function(), list[tuple[Any, ...]]()
        for turn in range(NEARBY):
            made = sizes(*[max(1, value + _step(turn, k)) for k, value in enumerate(values)])
            if made is not None:
                found.append(made[1])
        return found


Example = tuple[tuple[Any, ...], WrittenOut]
"""A graph's numbers, and the graph decomposed by itself."""


class Decompositions:
    """Decompositions of graphs of one form."""

    def __init__(self) -> None:
        self._lock = renewed(self, "_lock")
        self._made: list[SymbolicDecomposition] = []
        self._samples = Samples[WrittenOut]()
        self._failed = 0

    def found(self, numbers: Sequence[Any]) -> WrittenOut | None:
        """What comes of a graph with these numbers, if one that was made holds for it."""
        for made in self._made:
            found = made.at(numbers)
            if found is not None:
                return found
        return None

    def serving(self, numbers: Sequence[Any]) -> SymbolicDecomposition | None:
        """The one that holds for a graph with these numbers, if one that was made does."""
        return next((made for made in self._made if made.at(numbers) is not None), None)

    @property
    def may_serve(self) -> bool:
        """Whether it is worth while to make one for all sizes."""
        return self._failed < IN_VAIN

    @property
    def serves(self) -> bool:
        """Whether there is one for all sizes, and there will be one for others in time."""
        return bool(self._made) and self.may_serve

    def note(self, numbers: tuple[Any, ...], written: WrittenOut) -> list[Example]:
        """Makes an example of a graph that was decomposed by itself.

        Returns:
            The examples that a decomposition for all sizes is to be made of, this one last; none
            if it is not worth while.
        """
        with self._lock:
            if not self.may_serve:
                return []
            alike = self._samples.alike(numbers, written, len(written.form.skeleton[1]))
            self._samples.forget([known for known, _ in alike])
            return alike

    def keep(self, made: SymbolicDecomposition | None, examples: Sequence[Example]) -> None:
        """Has a decomposition serve the next graphs, if it agrees with those of its examples that
        it holds for, and may hold for others; None: none can be made."""
        with self._lock:
            if made is None:
                self._failed = IN_VAIN
            elif _agrees(made, examples):
                self._made = [made, *self._made[: MOST_MADE - 1]]
                self._failed = 0
            else:
                self._failed += 1


def _step(turn: int, symbol: int) -> int:
    """By how much a symbol is larger nearby: the steps of no two lie on a line."""
    return (5 * (turn + 1) * (turn + 2 + 3 * symbol) + symbol * symbol) % 13 - 4


def _agrees(made: SymbolicDecomposition, examples: Sequence[Example]) -> bool:
    found = [(made.at(numbers), written) for numbers, written in examples]
    served = [(one, other) for one, other in found if one is not None]
    enough = len(served) > made.is_of_one_size
    return enough and all(_content(one) == _content(other) for one, other in served)


def _content(written: WrittenOut) -> Hashable:
    """Equal for what is the same, number by number."""
    scalars, checks, _, products = written.rest
    results = [r if isinstance(r, str) else typed_key(r) for r in scalars.results]
    texts = [(check.node, check.text) for check in checks]
    return (
        written.form, typed_key(written.constants), scalars.given, scalars.lines, tuple(results),
        tuple(texts), products,
    )  # fmt: skip


def symbolic_decomposition(
    general: Generalization, decomposed: Graph, rest: Remainder
) -> SymbolicDecomposition | None:
    """The decomposition of all graphs of one form; None where numbers vary that are no sizes, or
    bodies bring tensors of their own.

    Args:
        general: the graph for all of them.
        decomposed: what comes of its graph.
        rest: what a plan takes of that besides.
    """
    if rest.tensors or rest.scalars.functions or general.varies:
        return None
    return SymbolicDecomposition(general, written_out(decomposed, rest))


_of: WeakKeyDictionary[Any, Families[Decompositions]] = WeakKeyDictionary()


def decompositions_of(device: Any) -> Families[Decompositions]:
    """The decompositions that were made for a device, by the forms of graphs."""
    return _of.setdefault(device, Families(Decompositions))
