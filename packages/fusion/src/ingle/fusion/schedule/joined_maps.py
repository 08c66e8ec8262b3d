"""Maps over equal loops that write parts of one value, as one map.

The halves of a rotary embedding are such: both read the same two halves of a row, and each is a
part of what is joined. A grouping of operations makes two kernels of them, since results of one
kernel have one shape each and lie each in its own value. Calls know memory: neighbours of equal
sizes that write different places of one value and read something in common become one, which reads
that once. On a GPU such a kernel takes less time than a launch.

Neighbours whose elements take turns, as those of the even and the odd columns of an image do,
become one whatever they read. Kernels may then store both by whole vectors, where each alone would
store every second element.
"""

from __future__ import annotations

from itertools import combinations, product
from typing import NamedTuple

from ..ir.places import Box
from ..kernel.code import SIZES, Code, CodeBuilder, Instruction
from ..kernel.nest import Map, Operand
from ..lowering.nests import NestCall
from ..lowering.row_lengths import with_row_length
from .schedule import Call, HostStep, KernelSequence

MOST_OPERANDS = 16
MOST_INSTRUCTIONS = 256
"""Of a map that others join."""


def joined_maps(sequence: KernelSequence) -> KernelSequence:
    """The calls, neighbours that write parts of one value as one.

    Args:
        sequence: whose sizes are numbers.
    """
    calls: list[Call | HostStep] = []
    for call in sequence.calls:
        before = calls[-1] if calls else None
        one = None
        if isinstance(before, NestCall) and isinstance(call, NestCall):
            one = _together(before, call)
        if one is None:
            calls.append(call)
        else:
            calls[-1] = one
    return sequence._replace(calls=calls)


def _together(one: NestCall, other: NestCall) -> NestCall | None:
    """Two calls as one; None if they have to stay two."""
    if one.sizes != other.sizes or not (_is_plain(one) and _is_plain(other)):
        return None
    if _shell(one) != _shell(other) or not _meet_in_reads_alone(one, other):
        return None
    code = sum([len(call.nest.stages[0].code) for call in (one, other)])
    if len(one.arguments) + len(other.arguments) > MOST_OPERANDS or code > MOST_INSTRUCTIONS:
        return None
    return _Joined(one, other).call()


def _is_plain(call: NestCall) -> bool:
    """Whether a call is one map that writes nothing but parts of one value, at known places."""
    nest = call.nest
    if len(nest.stages) != 1 or not isinstance(nest.stages[0], Map) or nest.stages[0].columns:
        return False
    if call.fixed or nest.lanes != "inner" or nest.ragged or nest.scattered or nest.prefetched:
        return False
    if any(operand.row_base is not None for operand in nest.operands):
        return False
    if any(instruction.name == "gather" for instruction in nest.stages[0].code):
        return False
    return len({a.root for a in call.arguments if a.output}) == 1


def _shell(call: NestCall) -> object:
    """A nest but for what it computes, and what follows from that and from its strides."""
    return call.nest._replace(
        operands=(), scalars=(), stages=(), row_length=0, one_block=False, long_rows=False
    )


def _meet_in_reads_alone(one: NestCall, other: NestCall) -> bool:
    """Whether calls write different places of one value that neither reads, and read one alike or
    take turns."""
    calls = one, other
    written = [{a.root for a in call.arguments if a.output} for call in calls]
    read = [
        {place for place, a in zip(_places(call), call.arguments, strict=True) if not a.output}
        for call in calls
    ]
    if written[0] != written[1] or written[0] & {place.root for place in read[0] | read[1]}:
        return False
    boxes = [
        Box(call.sizes, strides, argument.offset)
        for call in calls
        for argument, strides in zip(call.arguments, call.strides, strict=True)
        if argument.output
    ]
    if any(a.meets(b) for a, b in combinations(boxes, 2)):
        return False
    outputs = [
        [p for p, a in zip(_places(call), call.arguments, strict=True) if a.output]
        for call in calls
    ]
    return bool(read[0] & read[1]) or any(
        a.turns_with(b) or b.turns_with(a) for a, b in product(*outputs)
    )


class _LoopOperand(NamedTuple):
    """What loops see of a value: an operand of both calls if it is of both.

    Attributes:
        root, offset: see `Argument`.
        strides: along the loops.
        operand: of the nest, but for what follows from strides.
    """

    root: int
    offset: int
    strides: tuple[int, ...]
    operand: Operand

    def turns_with(self, other: _LoopOperand) -> bool:
        """Whether the elements of another output lie between those of this one, each behind it."""
        if (self.root, self.strides) != (other.root, other.strides) or self.strides[-1] != 2:
            return False
        sizes = {SIZES[place.operand.dtype] for place in (self, other)}
        return other.offset == self.offset + 1 and len(sizes) == 1


def _output_and_offset(place: _LoopOperand) -> tuple[bool, int]:
    """Outputs last, in the order in which they lie."""
    return place.operand.output, place.offset if place.operand.output else 0


def _places(call: NestCall) -> list[_LoopOperand]:
    """Those of a call's operands."""
    return [
        _LoopOperand(
            argument.root,
            argument.offset,
            strides,
            operand._replace(apart=0, backward=False, alike=None, beside=None),
        )
        for argument, strides, operand in zip(
            call.arguments, call.strides, call.nest.operands, strict=True
        )
    ]


class _Joined:
    """Two calls as one: what both read is an operand once, and outputs come last."""

    def __init__(self, one: NestCall, other: NestCall) -> None:
        self._calls = one, other
        seen = {
            place: argument
            for call in (other, one)
            for place, argument in zip(_places(call), call.arguments, strict=True)
        }
        self._arguments = {
            place: seen[place]
            for place in sorted([*_places(one), *_places(other)], key=_output_and_offset)
        }
        self._number = {place: number for number, place in enumerate(self._arguments)}
        self._scalars = list(dict.fromkeys([*one.scalars, *other.scalars]))
        self._builder = CodeBuilder(exact=True)
        self._roots: list[int] = []
        self._stored: list[int] = []

    def call(self) -> NestCall:
        for call in self._calls:
            self._append(call)
        code, roots = self._builder.finish(*self._roots)
        stores = tuple(zip(self._stored, roots, strict=True))
        one, other = self._calls
        dtypes = dict(zip(one.scalars, one.nest.scalars, strict=True))
        dtypes |= dict(zip(other.scalars, other.nest.scalars, strict=True))
        strides = tuple([place.strides for place in self._arguments])
        nest = one.nest._replace(
            operands=self._operands(),
            scalars=tuple([dtypes[n] for n in self._scalars]), stages=(Map(code, stores),),
        )  # fmt: skip
        return one._replace(
            nest=with_row_length(nest, one.sizes, strides), strides=strides,
            arguments=tuple(self._arguments.values()), scalars=tuple(self._scalars),
            nodes=tuple(dict.fromkeys([*one.nodes, *other.nodes])),
        )  # fmt: skip

    def _operands(self) -> tuple[Operand, ...]:
        """Those of the loops; outputs know which one they take turns with."""
        found: list[Operand] = []
        places = list(self._arguments)
        for number, place in enumerate(places):
            before = (
                k for k in range(number)
                if place.operand.output and places[k].operand.output and found[k].beside is None
                and places[k].turns_with(place)
            )  # fmt: skip
            found.append(place.operand._replace(beside=next(before, None)))
        return tuple(found)

    def _append(self, call: NestCall) -> None:
        """Adds the code and the stores of a call."""
        number = [self._number[place] for place in _places(call)]

        def placed(instruction: Instruction) -> int | None:
            name, dtype, args, value = instruction
            if name == "load":
                return self._builder.append(name, dtype, args, number[value])
            if name == "scalar":
                at = self._scalars.index(call.scalars[value])
                return self._builder.append(name, dtype, args, at)
            return None

        (stage,) = call.nest.stages
        code: Code = stage.code
        places = self._builder.inline(code, placed)
        assert isinstance(stage, Map)
        for operand, root in stage.stores:
            self._stored.append(number[operand])
            self._roots.append(places[root])
