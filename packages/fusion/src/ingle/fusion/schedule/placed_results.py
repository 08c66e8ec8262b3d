"""Results of a device's own operations that are written where the next kernel would copy them.

Attention gives its heads one after the other, and what follows wants them side by side; the
gradients of queries, keys and values are three arrays, and what follows wants rows of all three.
A library can mostly write any strides. So this looks at calls that copy all of such a result into
a part of another value, and from there perhaps into a third. Where the device agrees, the result
lies there from the start, whatever else it computes whole reads it there, and the copies go.

Adding zero to a result, which makes 0.0 of -0.0, counts as a copy: no library says what the signs
of its zeros are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from ..ir.graph import Graph
from ..ir.places import Box, Placement, place_of
from ..kernel.nest import Map, Row
from ..lowering.nests import NestCall
from ..lowering.operands import Argument
from ..passes.concat_of_pads import ADDITION
from .joined_in_place import bound_values
from .schedule import Call, HostStep, KernelSequence, arguments_of
from .whole_calls import WholeCall, whole_calls

if TYPE_CHECKING:
    from ..runtime.device import KernelDevice

MOST_WRITES = 64
"""Calls that write one value, up to which each is held against each."""


class _CopiedResult(NamedTuple):
    """A call that copies all of a value.

    Attributes:
        number: of the call.
        source: the value.
        place: where to.
    """

    number: int
    source: int
    place: Placement


class Placed(NamedTuple):
    """A sequence without the copies of what is written into its place at once.

    Attributes:
        sequence: its calls.
        whole: the device's own operations that are calls, by their position.
    """

    sequence: KernelSequence
    whole: dict[int, WholeCall]


def device_calls(device: KernelDevice, sequence: KernelSequence) -> Placed:
    """The device's own operations that its executables do.

    Args:
        device: says which by `launches_whole`, and by `places_results` whether that looks at where
            results lie.
        sequence: whose sizes are numbers.
    """
    takes = getattr(device, "launches_whole", None)
    if takes is None:
        return Placed(sequence, {})
    made = whole_calls(sequence)
    if device.places_results:
        return placed_results(sequence, made, takes)
    return Placed(sequence, {n: call for n, call in made.items() if takes(call)})


def placed_results(
    sequence: KernelSequence, made: Mapping[int, WholeCall], takes: Callable[[WholeCall], bool]
) -> Placed:
    """The calls of which the device takes as many as it can.

    Args:
        sequence: whose sizes are numbers.
        made: the device's own operations as calls, by position, with results in C order.
        takes: whether the device does a call, wherever its results lie.
    """
    return _PlaceSearch(sequence, made, takes).placed()


class _PlaceSearch:
    def __init__(
        self, sequence: KernelSequence, made: Mapping[int, WholeCall],
        takes: Callable[[WholeCall], bool],
    ) -> None:  # fmt: skip
        self._sequence = sequence
        self._made = dict(made)
        self._takes = takes
        self._answers: dict[WholeCall, bool] = {}
        self._copies = _copies(sequence, self._made)

    def placed(self) -> Placed:
        """Withdraws places until everybody agrees with those that are left."""
        while True:
            self._withdraw(bound_values(self._sequence, self._made))
            while self._withdraw(self._touched_by_kernels()):
                pass
            moved = {n: self._moved(call) for n, call in self._made.items()}
            wrong = [n for n, call in moved.items() if call is None or not self._asked(call)]
            if not wrong:
                break
            for position in wrong:
                plain = self._made[position]
                if moved[position] == plain:  # the backend's own step, whose values are bound
                    del self._made[position]
                elif not self._withdraw([a.root for a in plain.outputs]):
                    self._withdraw([a.root for a in plain.operands])
        gone = {copy.number for copy in self._copies.values()}
        calls = [call for n, call in enumerate(self._sequence.calls) if n not in gone]
        whole = {n: call for n, call in moved.items() if call is not None}
        return Placed(self._sequence._replace(calls=calls), whole)

    def _asked(self, call: WholeCall) -> bool:
        if call not in self._answers:
            self._answers[call] = self._takes(call)
        return self._answers[call]

    def _withdraw(self, roots: Iterable[int]) -> bool:
        """Gives values memory of their own; whether one had a place."""
        found = [root for root in roots if self._copies.pop(root, None) is not None]
        return bool(found)

    def _touched_by_kernels(self) -> set[int]:
        """Values that kernels read or write, but for the copies that go."""
        gone = {copy.number for copy in self._copies.values()}
        return {
            argument.root
            for number, call in enumerate(self._sequence.calls)
            if number not in gone and not isinstance(call, HostStep)
            for argument in arguments_of(call)
        }

    def _moved(self, call: WholeCall) -> WholeCall | None:
        """A call that finds values where they are now; None if no strides say where."""
        tensors = [a for a, n in zip(call.avals, call.numbers, strict=True) if n is None]
        shapes = [aval.shape for aval in (*tensors, *call.results)]
        arguments = [
            self._argument(argument, shape)
            for argument, shape in zip(call.arguments, shapes, strict=True)
        ]
        found = tuple([a for a in arguments if a is not None])
        return call._replace(arguments=found) if len(found) == len(arguments) else None

    def _argument(self, argument: Argument, shape: tuple[int, ...]) -> Argument | None:
        while (copy := self._copies.get(argument.root)) is not None:
            found = copy.place.of(shape, argument.strides, argument.offset)
            if found is None:
                return None
            strides, offset = found
            argument = argument._replace(root=copy.place.target, strides=strides, offset=offset)
        return argument


def _copies(sequence: KernelSequence, made: Mapping[int, WholeCall]) -> dict[int, _CopiedResult]:
    """Copies of what whole calls give, and of what such copies fill, by the value that is copied.

    None of them writes where another call writes, too.
    """
    given = {a.root for call in made.values() for a in call.outputs}
    found: dict[int, _CopiedResult] = {}
    filled: set[int] = set()
    for number, call in enumerate(sequence.calls):
        copy = _copy_of(sequence.graph, number, call, given)
        if copy is None or copy.source in found:
            continue
        if copy.source in given or copy.source in filled:
            found[copy.source] = copy
            filled.add(copy.place.target)
    meeting = _meeting(sequence, made, filled)
    return {source: copy for source, copy in found.items() if copy.number not in meeting}


def _copy_of(
    graph: Graph, number: int, call: Call | HostStep, given: Container[int]
) -> _CopiedResult | None:
    """What a call copies, if it does nothing else.

    Args:
        given: results of libraries, to which a zero may be added.
    """
    if not isinstance(call, NestCall) or len(call.arguments) != 2 or call.scalars or call.fixed:
        return None
    source, target = call.arguments
    stages, operands = call.nest.stages, call.nest.operands
    if source.output or not target.output or source.offset or len(stages) != 1:
        return None
    if any(operand.row_base is not None for operand in operands):
        return None
    before, after = (graph.values[a.root].aval for a in (source, target))
    if before.dtype is not after.dtype or math.prod(call.sizes) != math.prod(before.shape):
        return None
    (stage,) = stages
    plain = isinstance(stage, (Map, Row)) and [i.name for i in stage.code] == ["load"]
    if not plain and not (source.root in given and _adds_zero(graph, call)):
        return None
    strides = call.strides
    place = place_of(target.root, call.sizes, strides[0], strides[1], target.offset)
    return None if place is None else _CopiedResult(number, source.root, place)


def _adds_zero(graph: Graph, call: NestCall) -> bool:
    """Whether a call of one operand adds 0 to it, perhaps moves it, and does nothing else."""
    nodes = [graph.nodes[position] for position in call.nodes]
    added = [node for node in nodes if node.op.operation.traits.family != "movement"]
    if len(added) != 1 or added[0].op is not ADDITION:
        return False
    numbers = [graph.values[a] for a in added[0].args if graph.values[a].kind == "constant"]
    return len(numbers) == 1 and bool(numbers[0].data == 0)


def _meeting(
    sequence: KernelSequence, made: Mapping[int, WholeCall], targets: Container[int]
) -> set[int]:
    """The numbers of calls that write, in some values, where another call may write."""
    written: dict[int, list[tuple[int, Box]]] = {}
    for number, call in enumerate(sequence.calls):
        for root, box in _written(sequence.graph, call, made):
            if root in targets:
                written.setdefault(root, []).append((number, box))
    found: set[int] = set()
    for boxes in written.values():
        if len(boxes) > MOST_WRITES:
            found.update([number for number, _ in boxes])
            continue
        for (number, box), (other, there) in combinations(boxes, 2):
            if box.meets(there):
                found.update((number, other))
    return found


def _written(
    graph: Graph, call: Call | HostStep, made: Mapping[int, WholeCall]
) -> Iterator[tuple[int, Box]]:
    """The values that a call writes, and where."""
    if isinstance(call, HostStep):
        whole = made.get(call.position)
        if whole is not None:
            for argument, aval in zip(whole.outputs, whole.results, strict=True):
                yield argument.root, Box(aval.shape, argument.strides, argument.offset)
        return
    nest = isinstance(call, NestCall)
    sizes = call.sizes if nest else (*call.batch, *call.sizes[:2])  # type: ignore[union-attr]
    for k, argument in enumerate(arguments_of(call)):
        if not argument.output:
            continue
        if isinstance(call, NestCall) and call.nest.operands[k].row_base is not None:
            count = math.prod(graph.values[argument.root].aval.shape)
            yield argument.root, Box((count,), (1,), 0)  # it may be anywhere
        else:
            strides = call.strides[k] if nest else argument.strides  # type: ignore[union-attr]
            yield argument.root, Box(sizes, strides, argument.offset)
