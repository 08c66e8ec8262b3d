"""Plans of kernels alone, written out as one Python function each.

A small plan takes a few microseconds, as long as it would take to go through lists of its steps. So
what one run does is written down once: inputs put in order, memory made, each segment called with
the addresses of its buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ingle.tensor.contract import Aval, Handle
from ingle.tensor.errors import OutOfRangeError

from ..ir.views import View

if TYPE_CHECKING:
    from ingle.tensor.cell import Cell

    from .device import KernelDevice, Ordered, Segment

Run = Callable[..., list[Handle]]


class DonationState:
    """How far a run has come that writes over its inputs.

    Attributes:
        outputs: what it returns, from before its last kernels run.
        done: set right before the native call of these. What a handler of signals raises from then
            on comes behind the call: the outputs have their values, and have to be kept.
        job: the run in the background that the outputs wait for, if there is one.
        restores: whether what is written over belongs to whoever holds it again if a run in the
            background fails.
    """

    __slots__ = ("done", "job", "outputs", "restores")

    def __init__(self, restores: bool = False) -> None:
        self.done = False
        self.outputs: list[Handle] = []
        self.job: BackgroundJob | None = None
        self.restores = restores


class BackgroundJob(Protocol):
    """A run in the background."""

    def wrote(self, before: Sequence[tuple[Cell[Any], Any]]) -> None:
        """Is told what cells held that have its outputs now, since it may still fail."""
        ...


class LinearPlan(NamedTuple):
    """A plan of kernels alone.

    Attributes:
        inputs: how many there are; the first values.
        constants: the values after them.
        own: what the plan makes; the values after those.
        arena: how many bytes of memory the segments share.
        segments: each with the numbers of the values that are its buffers.
        checks: numbers of flags, and what is wrong where one is set.
        outputs: numbers of values, and where the output is a view of one, that view.
        donors: for values that the plan makes the input in whose memory they may lie. The last
            segment is then the one that writes such values.
    """

    inputs: int
    constants: Sequence[Ordered]
    own: Sequence[Aval]
    arena: int
    segments: Sequence[tuple[Segment, Sequence[int]]]
    checks: Sequence[tuple[int, str]]
    outputs: Sequence[tuple[int, View | None]]
    donors: Mapping[int, int]


def plan_function(device: KernelDevice, parts: LinearPlan) -> Run:
    """The function of the inputs and the scalars that returns the outputs.

    Whether outputs lie in the memory of inputs is said by a flag for each input, its third
    argument; the fourth is a `DonationState`.
    """
    writer = _PlanWriter(device, parts)
    writer.receive(parts.constants)
    writer.make(parts.own)
    writer.borrow(parts.arena)
    written = [writer.segment(s, roots, parts.arena) for s, roots in parts.segments]
    *first, last = written or [""]
    writer.lines += first
    if not parts.donors:
        writer.lines.append(last)
    writer.check(parts.checks)
    shown = [writer.shown(n, view) for n, view in parts.outputs]
    writer.lines.append(f"out = [{', '.join(shown)}]")
    if parts.donors:
        writer.land(last.replace(", scalars", ", scalars, landing"))
    if parts.arena:
        writer.lines.append("take_back(lent)")
    return writer.function()


class _PlanWriter:
    """The lines of the function, and what its names stand for."""

    def __init__(self, device: KernelDevice, parts: LinearPlan) -> None:
        self.lines: list[str] = []
        self._inputs = parts.inputs
        self._donors = parts.donors
        self._first = parts.inputs + len(parts.constants)
        self._names: dict[str, Any] = {
            "in_order": device.in_order, "empty": device.empty, "arena": device.arena,
            "take_back": device.take_back,
            "viewed": device.viewed, "flag": device.flag, "Error": OutOfRangeError, "Aval": Aval,
        }  # fmt: skip

    def receive(self, constants: Sequence[Ordered]) -> None:
        if self._inputs:
            self.lines.append("".join(f"v{i}, " for i in range(self._inputs)) + "= given")
            self.lines.extend(f"v{i} = in_order(v{i})" for i in range(self._inputs))
        for number, constant in enumerate(constants, self._inputs):
            self._names[f"v{number}"] = constant

    def make(self, own: Sequence[Aval]) -> None:
        for number, aval in enumerate(own, self._first):
            self._names[f"aval{number}"] = aval
            made = f"empty(aval{number})"
            if number in self._donors:
                giver = self._donors[number]
                made = f"v{giver} if free[{giver}] else {made}"
            self.lines.append(f"v{number} = {made}")

    def borrow(self, arena: int) -> None:
        if arena:
            self.lines.append(f"lent = arena({arena})")

    def segment(self, segment: Segment, roots: Sequence[int], arena: int) -> str:
        name = f"segment{len(self._names)}"
        self._names[name] = segment
        buffers = "".join(f", v{r}.address" for r in roots)
        shared = "lent.address" if arena else "0"
        kept = [number - 1 for number in segment.keeps]
        lasting = [f"v{roots[n]}" if self._lasts(roots[n]) else "None" for n in kept]
        handles = f", keeps=({', '.join(lasting)},)" if {*lasting} - {"None"} else ""
        return f"{name}(({shared}{buffers},), scalars{handles})"

    def _lasts(self, number: int) -> bool:
        """Whether a value may come again in later runs as it is."""
        return number < self._first and number not in self._donors.values()

    def check(self, checks: Sequence[tuple[int, str]]) -> None:
        for number, text in checks:
            self.lines.append(f"if flag(v{number}): raise Error({text!r})")

    def shown(self, number: int, view: View | None) -> str:
        if view is None:
            return f"v{number}"
        name = f"shape{len(self._names)}"
        self._names[name] = tuple(view.shape)
        strides = tuple(view.strides)
        return f"viewed(v{number}, Aval({name}, v{number}.dtype), {strides}, {view.offset})"

    def land(self, last: str) -> None:
        """The last segment, which may write over inputs: everything else is done before."""
        segment = last.partition("(")[0]
        self.lines.insert(0, f"if {segment}.long: free = NOTHING")
        self.lines.append("if landing is not None: landing.outputs = out")
        self.lines += [f"if free[{n}]: v{n}.kept = None" for n in sorted(self._donors.values())]
        self.lines.append(last)

    def function(self) -> Run:
        self._names["NOTHING"] = (False,) * self._inputs
        body = "\n    ".join([*self.lines, "return out"])
        source = f"def run(given, scalars, free=NOTHING, landing=None):\n    {body}\n"
        exec(source, self._names)
        run: Run = self._names["run"]
        return run
