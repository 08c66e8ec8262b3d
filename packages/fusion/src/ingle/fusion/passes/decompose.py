"""Composites are written in terms of their bodies, down to what kernels are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.device import call_on, staged_on
from ingle.tensor.dispatch import execute_body
from ingle.tensor.errors import TraceError
from ingle.tensor.operation import Op, Operation, infer
from ingle.tensor.static_values import SymbolicInt
from ingle.tensor.tape import Tape

from ..ir.graph import Graph, read_log
from ..ir.regions import outside
from ..ir.scalar_program import ScalarProgram
from ..record.log import LazyHandle, Log
from ..record.tracing import Tracer
from ..support.time_slices import tick
from .channels_last import ChannelsLast
from .known_places import KnownPlaces
from .repeated_composites import Copies

if TYPE_CHECKING:
    from ..fusion import Fusion
    from ..grouping.legality import Answer, Legality

RECORDED = 4
"""To how many steps of planning it comes to record an operation."""
MOST_NODES = 256
"""A body that is longer than this is left whole: it is a program, no decomposition."""
MOST_STEPS = 2048
"""Likewise of a loop, which gains more from being unrolled: its steps become one plan."""


class _NeedsValueError(Exception):
    """A body reads a value: it can only run whole."""


class _TooLongError(Exception):
    """A body goes on after more operations than may stand in an operation's place."""


class _Unfolding(Tracer):
    """Records what kernels can be generated for, and bodies in place of other operations.

    An operation whose body comes out as something that no kernel is generated for stays whole if
    the backend has a kernel of its own for it, and so does what the device offers to compute whole.

    Args:
        graph: what is decomposed.
        backend: the decorator whose operations bodies use.
        legality: how each operation is computed.
    """

    def __init__(self, graph: Graph, backend: Fusion, legality: Legality) -> None:
        super().__init__(backend)
        self.avals = None  # its log grows shorter again
        self._legality = legality
        self._foreign = 0
        self.position = 0
        """Which node of the graph is being recorded."""
        self.checks: list[tuple[Tensor, FlagText]] = []
        self._bodies: list[_Body] = []
        """Those that are being written, one within the other."""
        self._operations = 0
        self._whole: set[Any] = set()
        self._answers: dict[Any, Answer] = {}
        self._dividing = False
        self._anew = False
        self._copies = Copies(self, self._scalars)
        self._images = ChannelsLast(graph, self.record, legality.device.takes_whole)
        self._known = KnownPlaces()

    def record(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[LazyHandle, ...]:
        tick("writing composites out", RECORDED)
        if self._bodies and self._is_too_long():
            raise _TooLongError
        avals = avals_of(inputs)
        asked = (op, *avals)
        answer = self._answers.get(asked)
        if answer is None:
            answer = self._answers[asked] = self._legality.answer(op, avals)
        way, body = answer
        if way != "custom":
            turned = self._images.written(op, inputs, way == "whole")
            if turned is not None:
                return turned
        if way in ("custom", "whole"):
            return self._left(op, inputs)
        if body is not None:
            operands = [Tensor(x) for x in inputs]  # type: ignore[arg-type]
            result = call_on(self.backend.device, body, *operands)._handle
            self._known.note(op, inputs, result)
            return (result,)  # type: ignore[return-value]
        if way == "generated":
            traits = op.operation.traits
            if traits.family == "gather" or traits.access == "scatter":
                self._check(op, inputs)
            elif traits.starts is not None:
                self._check_piece(op, inputs)
            self._operations += 1
            self._dividing = bool(self._bodies) and traits.laws.by_inverse is not None
            results = super().record(op, inputs)
            self._dividing = False
            self._images.note(op, inputs, results[0])
            self._known.note(op, inputs, results[0])
            return results
        if op.operation.body is None or is_long_loop(op):
            return self._left(op, inputs)
        mark = len(self.written), self._count, len(self.given), len(self.numbers), len(self.checks)
        foreign, operations = self._foreign, self._operations
        if op.operation.traits.inlined:
            return execute_body(op, inputs, self.backend.device)  # type: ignore[return-value]
        if op.operation in [body.operation for body in self._bodies]:
            # Control flow on a promise writes itself down again: it runs whole.
            raise _NeedsValueError
        once = bool(self._bodies) or self._anew or self._images.found
        key = None if once else self._copies.key(op, inputs)
        if key in self._whole:
            return self._left(op, inputs)
        copied = self._copies.written(key, inputs)
        if copied is not None:
            self._known.note_merged(op, copied)
            return copied
        here, checks = self._copies.mark(), self._checked
        most = MOST_NODES if op.operation.loop is None else MOST_STEPS
        # Each result takes some operations: a piece of many is cut out and reshaped.
        end = operations + most + 4 * len(infer(op, inputs))
        self._bodies.append(_Body(op.operation, end, self._known.takes_inside(op, inputs), set()))
        try:
            made = execute_body(op, inputs, self.backend.device)
            if not self._is_too_long() and (
                self._foreign == foreign or not self._legality.device.supports(op, avals)
            ):
                if self._foreign == foreign and self._checked == checks:
                    self._copies.keep(key, inputs, here, made)
                self._known.note_rows(op, inputs, made)
                self._known.note_merged(op, made)
                return made  # type: ignore[return-value]
        except (_NeedsValueError, _TooLongError, TraceError):
            pass
        finally:
            self._bodies.pop()
        if key is not None:
            self._whole.add(key)
        self._rewind(*mark)
        self._foreign, self._operations = foreign, operations
        return self._left(op, inputs)

    @property
    def _checked(self) -> int:
        """How many indices have been checked, or need no check where these operands are."""
        return len(self.checks) + self._known.trusted

    def _is_too_long(self) -> bool:
        body = self._bodies[-1]
        return self._operations + len(body.numbers) > body.end

    def _left(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[LazyHandle, ...]:
        """An operation that stays whole."""
        self._foreign += 1
        self._operations += 1
        return super().record(op, inputs)

    def number(self, scalar: Scalar) -> int:
        """The value of a number: what a body divides by is an input of its kernel.

        It is mostly the size of an axis, and one kernel shall serve all sizes. So are the sizes
        that indices are compared with.
        """
        is_number = type(scalar.value) in (int, float) or isinstance(scalar.value, SymbolicInt)
        is_input = (self._dividing or self._anew) and is_number
        found = Log.number(self, scalar) if is_input else super().number(scalar)
        for body in self._bodies:
            body.numbers.add(found)
        return found

    def _check(self, op: Op, inputs: Sequence[Handle | Scalar]) -> None:
        """Adds a flag that says whether an index is out of range, since kernels cannot raise."""
        if any(body.inside for body in self._bodies):
            return
        axis = op.attributes["axis"]
        size, indices = inputs[0].shape[axis], inputs[1]
        if not isinstance(indices, Handle) or self._known.is_inside(indices, size):
            return
        place = Tensor(indices).astype("int64")
        self._anew = True
        outside = it.logical_or(place >= size, place < -size)
        self._anew = False
        merged = self._known.merged(indices)
        form, parts = self._told(op, inputs) if merged is None else _told_of_axes(merged)
        self.checks.append((it.any(outside), FlagText(form, parts, self.position)))

    def _told(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[str, tuple[Any, ...]]:
        """What is said of indices that lie outside."""
        axis = op.attributes["axis"]
        size = inputs[0].shape[axis]
        name, low = self._called(op)
        form = (
            f"{name}: the indices hold a value outside of {low} to {{1}}, but axis {{2}} "
            "has size {0} (shapes {3}, {4})"
        )
        return form, (size, size - 1, axis, inputs[0].shape, inputs[1].shape)

    def _called(self, op: Op) -> tuple[str, str]:
        """What was called that indexes so, and the form of the first index that it takes."""
        name = op.operation.name
        for body in self._bodies:
            called = body.operation.traits.indices_from_0
            if called is not None:
                return called, "0"
            name = f"{body.operation.name}: {name}"
        return name, "-{0}"

    def _check_piece(self, op: Op, inputs: Sequence[Handle | Scalar]) -> None:
        """Adds the same flag for a piece whose place is computed."""
        if 0 in inputs[0].shape:
            return
        self._anew = True
        wrong = outside(op, inputs)
        self._anew = False
        if wrong is not None:
            piece = infer(op, inputs)[0] if op.operation.traits.access == "slice" else inputs[1]
            form = op.operation.name + ": the piece of shape {} does not lie inside of shape {}"
            parts = (piece.shape, inputs[0].shape)
            self.checks.append((wrong, FlagText(form, parts, self.position)))

    def _rewind(self, log: int, count: int, given: int, numbers: int, checks: int) -> None:
        del self.written[log:], self.given[given:], self.numbers[numbers:], self.sources[given:]
        del self.checks[checks:]
        self._count = count
        self._handles = [r for r in self._handles if (h := r()) is not None and h.number < count]
        self._places = {k: n for k, n in self._places.items() if n < count}
        for key in [k for k, n in self._scalars.items() if n >= count]:
            del self._scalars[key]
        self._copies.forget(count)
        self._images.forget(count)
        self._known.forget(count)

    def finish(self, wanted: LazyHandle) -> None:
        raise _NeedsValueError

    def _locate(self) -> None:
        """Does nothing: the operations of a body belong to no line of the user's code."""


def _told_of_axes(merged: Op) -> tuple[str, tuple[Any, ...]]:
    """What is said where indices of several axes lie outside, which one position stands for."""
    called, axes, sizes = (merged.attributes[name] for name in ("called", "axes", "sizes"))
    return f"{called}: an index lies outside of axes {axes}, which have the sizes {{0}}", (sizes,)


class _Body(NamedTuple):
    """The body of a composite that is being written out.

    Attributes:
        operation: the composite.
        end: how many operations there may be before it is too long.
        inside: whether the indices that it computes need no check.
        numbers: those in it, which count, too: those that stand elsewhere already as well, so that
            a body is as long wherever it stands.
    """

    operation: Operation
    end: int
    inside: bool
    numbers: set[int]


class FlagText(NamedTuple):
    """What is wrong where a flag is set.

    Attributes:
        form, parts: the text, and what stands in its gaps, where sizes may be symbols.
        node: which node of the graph that was decomposed has failed then.
    """

    form: str
    parts: tuple[Any, ...]
    node: int

    @property
    def text(self) -> str:
        """The text with nothing left out."""
        return self.form.format(*self.parts)


class Decomposed(NamedTuple):
    """A graph of what kernels are made of.

    Attributes:
        graph: its inputs are those of the graph that was decomposed, then the constants.
        constants: handles, of the backend below, of what bodies made.
        checks: what to say if a flag is set; the flags are the last outputs.
        scalars: computes the graph's scalars from those of the graph that was decomposed, or None
            where a guard fails.
    """

    graph: Graph
    constants: list[Handle]
    checks: list[FlagText]
    scalars: ScalarProgram


def decompose(
    graph: Graph, examples: Sequence[Any], fusion: Fusion, legality: Legality
) -> Decomposed:
    """The graph with the bodies of composites in their place.

    Args:
        graph: what was recorded.
        examples: its scalars in the run at hand.
        fusion: the decorator whose operations bodies use.
        legality: how each operation is computed.
    """
    unfolding = _Unfolding(graph, fusion, legality)
    tape = Tape()
    known: dict[int, Handle | Scalar] = {}
    for number in graph.inputs:
        known[number] = unfolding.input(graph.values[number].aval)
    for number, value in enumerate(graph.values):
        if value.kind == "constant":
            known[number] = Scalar(value.data, value.aval.dtype)
    for number, example in zip(graph.scalars, examples, strict=True):
        known[number] = Scalar(tape.input(example), graph.values[number].aval.dtype)
    with unfolding.active(), staged_on(fusion):
        for unfolding.position, node in enumerate(graph.nodes):
            results = unfolding.record(node.op, [known[a] for a in node.args])
            known.update(zip(node.results, results, strict=False))
    outputs = [known[o].number for o in graph.outputs]  # type: ignore[union-attr]
    outputs += [flag._handle.number for flag, _ in unfolding.checks]  # type: ignore[attr-defined]
    found = Decomposed(
        read_log(unfolding.written, outputs), list(unfolding.given),
        [check for _, check in unfolding.checks],
        ScalarProgram.of(tape, unfolding.numbers),
    )  # fmt: skip
    for handle in unfolding.living():
        handle.pending_in = None
    return found


def is_long_loop(op: Op) -> bool:
    """Whether an operation repeats a program so often that it stays a loop."""
    if op.operation.loop is None:
        return False
    loop = op.operation.loop(op)
    return loop.length * loop.size > MOST_STEPS


def avals_of(inputs: Sequence[Any]) -> list[Aval]:
    """Shapes and dtypes of operands."""
    return [Aval(x.shape, x.dtype) for x in inputs]
