"""Where the values of a loop's plan lie in each of its runs: a table of addresses.

A plan that is kernels alone runs many times in one native call, with a row of addresses for each
run: slices are read where they lie, what is stacked is written into its place, and a carry that the
plan may write over stays where it is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ingle.tensor.contract import Aval, Handle
from ingle.tensor.dtypes import uint8
from ingle.tensor.errors import OutOfRangeError
from ingle.tensor.operation import Loop

from ..ir.views import View
from .device import Turns
from .pending_checks import checks_of

if TYPE_CHECKING:
    from .device import KernelDevice, NativeExecutable, Ordered
    from .plan_codegen import LinearPlan


class OutputPlace(NamedTuple):
    """Where an output lies: the number of a value of the plan, and how many bytes into it."""

    number: int
    offset: int
    whole: bool


class LoopPlaces(NamedTuple):
    """Where a plan's values lie from one run to the next.

    Attributes:
        carries, stacked: of the outputs.
        twice: numbers of carries in two places, since a run reads what the one before it wrote.
        once: of what else the plan makes. Some of these are carries, too, which are written where
            they were read.
    """

    carries: Sequence[OutputPlace]
    stacked: Sequence[OutputPlace]
    twice: Sequence[int]
    once: Sequence[int]


def loop_places(linear: LinearPlan, loop: Loop) -> LoopPlaces | None:
    """Where values can lie; None where an output is elsewhere than in memory of its own."""
    first = linear.inputs + len(linear.constants)
    found: list[OutputPlace] = []
    for number, view in linear.outputs:
        if first <= number:
            aval = linear.own[number - first]
            place = _place(number, aval, view)
            if place is None:
                return None
        elif view is None and number == len(found) < loop.carries:
            place = OutputPlace(number, 0, True)  # a carry that no step changes
        else:
            return None
        found.append(place)
    carries, stacked = found[: loop.carries], found[loop.carries :]
    numbers = [place.number for place in stacked]
    if len(set(numbers)) < len(numbers) or not all(place.whole for place in stacked):
        return None
    # The next run would find what it wrote over in another carry of the same value.
    alone = {n for n, count in Counter([c.number for c in carries]).items() if count == 1}
    over = {n for n, given in linear.donors.items() if carries[given] == OutputPlace(n, 0, True)}
    kept = over & alone
    flags = {n for n, _ in linear.checks}
    own = [n for n in range(first, first + len(linear.own)) if n not in (*numbers, *flags)]
    twice = {place.number for place in carries} - kept
    return LoopPlaces(
        carries, stacked, [n for n in own if n in twice], [n for n in own if n not in twice]
    )


def _place(number: int, aval: Aval, view: View | None) -> OutputPlace | None:
    if view is None:
        return OutputPlace(number, 0, True)
    if not view.contiguous:
        return None
    whole = math.prod(view.shape) == math.prod(aval.shape)
    return OutputPlace(number, view.offset * aval.dtype.itemsize, whole)


class AddressLayout(NamedTuple):
    """The part of the addresses of a chunk's values that is the same in all its runs.

    Attributes:
        first: the number of the first value that the plan makes.
        strides: of each value, by number, how far it moves from one slice to the next; 0 for the
            last one, which is the memory that the kernels share.
        flags: numbers of the values that say that an index is out of range.
        executables: each with the numbers of its buffers, and those of what it may keep, or None.
    """

    first: int
    strides: np.ndarray
    flags: Sequence[int]
    executables: Sequence[tuple[NativeExecutable, np.ndarray, Sequence[int | None]]]


def address_layout(
    linear: LinearPlan, places: LoopPlaces, loop: Loop, given: Sequence[Aval],
    outputs: Sequence[Aval],
) -> AddressLayout:  # fmt: skip
    """The layout of the addresses of a chunk's values.

    Args:
        linear: the chunk's plan.
        places: where its results lie.
        loop: which it is a chunk of.
        given, outputs: what is known of the chunk's inputs and outputs.
    """
    first = linear.inputs + len(linear.constants)
    strides = np.zeros(first + len(linear.own) + 1, np.int64)
    for number in range(loop.carries, loop.carries + loop.sequences):
        strides[number] = row_bytes(given[number])
    # The plan may make them in another shape, such as without the axis of a single step.
    for place, aval in zip(places.stacked, outputs[loop.carries :], strict=True):
        strides[place.number] = row_bytes(aval)
    flags = sorted({n for n, _ in linear.checks if n >= first})
    shared = loop.carries + loop.sequences  # what comes from there on is the same in all turns
    executables = [
        (s, np.array((-1, *roots)), [
            n if shared <= n < first else None
            for n in (roots[buffer - 1] for buffer in s.prepacks)
        ])
        for s, roots in linear.executables
    ]  # fmt: skip
    return AddressLayout(first, strides, flags, executables)


class AddressedPlan(NamedTuple):
    """A plan of some steps of a loop that runs by addresses: kernels alone.

    Attributes:
        kernels: the plan, which is kernels alone.
        scalars: the plan's.
        places: where its values lie.
        layout: which addresses that makes.
    """

    kernels: LinearPlan
    scalars: Any
    places: LoopPlaces
    layout: AddressLayout


def loop_memory(
    device: KernelDevice, plan: AddressedPlan, given: Sequence[Ordered], made: Sequence[Ordered]
) -> LoopMemory:
    """Memory for the values of a plan of some steps of a loop.

    Args:
        device: which runs it.
        plan: of the steps.
        given: the loop's inputs.
        made: memory for what is stacked.
    """
    linear, places, layout = plan.kernels, plan.places, plan.layout

    def empty(number: int) -> Ordered:
        return device.empty(linear.own[number - layout.first])

    holders = dict(zip([place.number for place in places.stacked], made, strict=True))
    holders |= {number: empty(number) for number in (*places.twice, *places.once)}
    seconds = {number: empty(number) for number in places.twice}
    # The plan writes there while nobody else may.
    arena = device.empty(Aval((linear.arena,), uint8)) if linear.arena else None
    return LoopMemory(device, plan, [*given, *linear.constants], holders, seconds, arena)


class LoopMemory:
    """Where the values of a plan of some steps of a loop lie in each of its turns; made by
    `loop_memory`.

    Addresses are a table with a row for each turn and a column for each value, by number.

    Args:
        device: which runs the plan.
        plan: of the steps.
        known: the values that all turns have in common, by number.
        holders: memory of the others, by number.
        seconds: the same of carries in two places, for every other turn.
        arena: memory that kernels of a turn share.
    """

    def __init__(
        self, device: KernelDevice, plan: AddressedPlan, known: Sequence[Ordered],
        holders: dict[int, Ordered], seconds: dict[int, Ordered], arena: Ordered | None,
    ) -> None:  # fmt: skip
        self._device = device
        self._scalars = plan.scalars
        self._linear = plan.kernels
        self._places = plan.places
        self._layout = plan.layout
        self._known = known
        self._holders = holders
        self._seconds = seconds
        self._arena = arena

    def _first_turn(self) -> np.ndarray:
        """The addresses of a turn, but for its slices and carries."""
        start = np.zeros(len(self._layout.strides), np.int64)
        start[: self._layout.first] = [handle.address for handle in self._known]
        for number, handle in self._holders.items():
            start[number] = handle.address
        if self._arena is not None:
            start[-1] = self._arena.address
        return start

    def run(
        self, turns: int, rows: tuple[int, int], carried: Sequence[tuple[Ordered, int]]
    ) -> list[tuple[Ordered, int]]:
        """Runs the chunk some times.

        Args:
            turns: how often.
            rows: the first slice of the first turn, and how many the next turn's is away from it.
            carried: the handles that the carries lie in, and how many bytes into them.

        Returns:
            The carries behind the last turn.

        Raises:
            OutOfRangeError: an index is out of range in some turn, where the device does not find
                that out later.
        """
        device, linear, layout = self._device, self._linear, self._layout
        first, away = rows
        at = np.arange(first, first + away * turns, away)[:, None] * layout.strides
        at += self._first_turn()
        for number, handle in self._seconds.items():
            at[1::2, number] = handle.address
        for number, place in enumerate(self._places.carries):
            if place.number >= linear.inputs:
                at[1:, number] = at[:-1, place.number] + place.offset
        at[0, : len(carried)] = [handle.address + offset for handle, offset in carried]
        flags = [self._flag(number, at) for number in layout.flags]
        runs = [
            Turns(
                s, np.ascontiguousarray(at[:, roots]),
                [None if n is None else self._known[n] for n in prepacks],
            )
            for s, roots, prepacks in layout.executables
        ]  # fmt: skip
        if runs:  # none where all carries stay as they are
            device.run_turns(runs, self._scalars)
        if linear.checks:
            self._check([self._flags_of(number, flags) for number, _ in linear.checks])
        return [
            self._after(carry, place, at[-1], turns)
            for carry, place in zip(carried, self._places.carries, strict=True)
        ]

    def _flag(self, number: int, at: np.ndarray) -> Ordered:
        """Memory for a flag of each turn."""
        aval = self._linear.own[number - self._layout.first]
        made = self._device.empty(Aval((len(at), *aval.shape), aval.dtype))
        at[:, number] = made.address + np.arange(len(at)) * row_bytes(made)
        return made

    def _flags_of(self, number: int, flags: Sequence[Ordered]) -> Ordered:
        """A flag of all turns: one bool for each, or one that none of them changes."""
        if number < self._layout.first:
            return self._known[number]
        return flags[self._layout.flags.index(number)]

    def _check(self, flags: Sequence[Ordered]) -> None:
        """Raises what is wrong, or has the device read it while others go on."""
        device = self._device
        texts = [text for _, text in self._linear.checks]
        line = checks_of(device)
        if line is None:
            for flag, text in zip(flags, texts, strict=True):
                if True in device.download(flag):
                    raise OutOfRangeError(text)
            return
        line.begin(flags, texts, [*self._holders.values(), *self._seconds.values()])

    def _after(
        self, carry: tuple[Ordered, int], place: OutputPlace, at: np.ndarray, turns: int
    ) -> tuple[Ordered, int]:
        number = place.number
        if number < self._linear.inputs:
            return carry
        other = self._seconds.get(number)
        handle = self._holders[number] if other is None or turns % 2 else other
        return handle, int(at[number]) - handle.address + place.offset


def row_bytes(handle: Handle | Aval) -> int:
    return math.prod(handle.shape[1:]) * handle.dtype.itemsize
