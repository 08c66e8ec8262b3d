"""Code generation for plans that consist of kernels alone: one Python function each.

It orders the inputs, allocates memory and calls each executable with the addresses of its buffers.
Iterating over the steps of a small plan would take as long as its kernels, so its function is
generated as straight-line code, in which numbers have names, so that plans for other sizes share
it. Of a plan of many values that would take Python longer to compile than to run a hundred times,
so its function iterates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import compress
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ingle.tensor.contract import Aval, Handle
from ingle.tensor.errors import OutOfRangeError

from ..ir.views import View
from ..support.picked import picked
from .pending_checks import PendingChecks, checks_of

if TYPE_CHECKING:
    from ingle.tensor.cell import Cell

    from .device import KernelDevice, NativeExecutable, Ordered

Run = Callable[..., list[Handle]]
MANY = 64
"""Values from which on a plan's function iterates."""


class DonationState:
    """How far a run has come that writes over its inputs.

    Attributes:
        again: whether an equal log has run before.
        outputs: what it returns, from before its last kernels run.
        done: set right before the native call of these. What a handler of signals raises from then
            on comes behind the call: the outputs have their values, and have to be kept.
        job: the run in the background that the outputs wait for, if there is one.
        gate: what the last executable calls when all but its launch is done: it waits for checks,
            and raises what has failed. None where nobody has to wait, or somebody has.
        restores: whether what is written over belongs to its holders again if a run in the
            background fails.
        defers: whether whoever asked can do with outputs whose checks are under way, as it neither
            writes state nor waits.
    """

    __slots__ = ("again", "defers", "done", "gate", "job", "outputs", "restores")

    def __init__(self, restores: bool = False, defers: bool = False) -> None:
        self.again = self.done = False
        self.defers = defers
        self.gate: Callable[[], None] | None = None
        self.outputs: list[Handle] = []
        self.job: BackgroundJob | None = None
        self.restores = restores


def settled(
    executable: NativeExecutable, line: PendingChecks, failures: int,
    donation: DonationState | None,
) -> None:  # fmt: skip
    """Waits for checks before the last executable runs, be anything written over or not: cells get
    its outputs once those are in the queue, whatever is raised behind them. One that `gates` waits
    itself, right before its launch.

    Args:
        executable: the last.
        line: the checks under way.
        failures: how many had failed before the run.
        donation: the run's.
    """
    if donation is None or donation.defers:
        return
    if getattr(executable, "gates", False):
        donation.gate = partial(line.settle, failures)
    else:
        line.settle(failures)


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
        arena: how many bytes of memory the executables share.
        executables: each with the numbers of the values that are its buffers.
        checks: numbers of flags, and what is wrong where one is set.
        outputs: numbers of values, and where the output is a view of one, that view.
        donors: for values that the plan makes the input in whose memory they may lie. The last
            executable is then the one that writes such values.
    """

    inputs: int
    constants: Sequence[Ordered]
    own: Sequence[Aval]
    arena: int
    executables: Sequence[tuple[NativeExecutable, Sequence[int]]]
    checks: Sequence[tuple[int, str]]
    outputs: Sequence[tuple[int, View | None]]
    donors: Mapping[int, int]


def plan_function(device: KernelDevice, linear: LinearPlan) -> Run:
    """The function of the inputs and the scalars that returns the outputs.

    Whether outputs lie in the memory of inputs is said by a flag for each input, its third
    argument; the fourth is a `DonationState`.
    """
    if linear.inputs + len(linear.own) + len(linear.outputs) >= MANY:
        return _iterating(device, linear)
    # Behind what makes the last flag, so that the device reads them while it has more to do.
    line = checks_of(device)
    begun = -1 if line is None else flags_known(linear.executables, linear.checks)
    writer = _PlanWriter(device, linear, line)
    writer.receive(linear.constants)
    writer.make(linear.own)
    writer.borrow(linear.arena)
    written = [writer.executable(s, roots, linear.arena) for s, roots in linear.executables]
    if begun >= 0:
        written.insert(begun, writer.begun(linear.checks))
    *first, last = written or [""]
    writer.lines += first
    if not linear.donors:
        writer.lines.append(last)
    if line is None:
        writer.check(linear.checks)
    shown = [writer.shown(n, view) for n, view in linear.outputs]
    writer.lines.append(f"out = [{', '.join(shown)}]")
    if linear.donors:
        if line is not None:
            writer.gate(linear.executables[-1][0])
        writer.land(last.replace(", scalars", ", scalars, donation"))
    if linear.arena:
        writer.lines.append("take_back(lent)")
    return writer.function()


def flags_known(
    steps: Sequence[tuple[Any, Sequence[int]]], checks: Sequence[tuple[int, str]]
) -> int:
    """Behind how many executables, each with the numbers of its buffers, all flags are known; -1 if
    there are none."""
    if not checks:
        return -1
    flags = {number for number, _ in checks}
    return 1 + max([n for n, (_, roots) in enumerate(steps) if flags & {*roots}], default=-1)


def _iterating(device: KernelDevice, linear: LinearPlan) -> Run:
    in_order, viewed, flag = device.in_order, device.viewed, device.flag
    usual: Any = device.ordered_type
    usual_alone = {usual}
    constants, checks, outputs, donors = (
        linear.constants, linear.checks, linear.outputs, linear.donors
    )  # fmt: skip
    lasting = linear.inputs + len(constants)
    makes = [
        (aval, donors.get(number), make)
        for number, (aval, make) in enumerate(
            zip(linear.own, _makers(device, linear), strict=True), lasting
        )
    ]
    of_donors = picked([giver for _, giver, _ in makes if giver is not None])
    new = [(place, aval, make) for place, (aval, giver, make) in enumerate(makes) if giver is None]
    nothing = (False,) * linear.inputs
    calls = [
        (executable, picked(roots), _lasting_roots(linear, executable, roots))
        for executable, roots in linear.executables
    ]
    last = calls.pop() if donors else None
    line = checks_of(device)
    begun = -1 if line is None else flags_known(linear.executables, checks)
    texts = [text for _, text in checks]
    before = [n for n in range(lasting, lasting + len(linear.own)) if n not in donors]
    shown = picked([n for n, _ in outputs])
    views = [(place, view) for place, (_, view) in enumerate(outputs) if view is not None]

    def run(
        given: Sequence[Any], scalars: Sequence[Any], donatable: Sequence[bool] = nothing,
        donation: DonationState | None = None,
    ) -> list[Handle]:  # fmt: skip
        if last is not None and last[0].long:
            donatable = nothing
        failures = 0 if line is None else line.failures
        # Most inputs are as they were made: a call of Python for each of hundreds shows.
        known: list[Any] = [*given]
        if {*map(type, known)} != usual_alone:
            known = [h if type(h) is usual else in_order(h) for h in known]
        if line is not None and [h.check for h in known].count(None) < len(known):
            known = [h if h.check is None else in_order(h) for h in known]
        known += constants
        if False in of_donors(donatable):
            known += [
                known[giver] if giver is not None and donatable[giver] else make(aval)
                for aval, giver, make in makes
            ]
        else:
            own = [*of_donors(known)]
            for place, aval, make in new:
                own.insert(place, make(aval))
            known += own
        lent = device.arena(linear.arena) if linear.arena else None
        shared = (0 if lent is None else lent.address,)
        at = [h.address for h in known]
        if begun == 0 and line is not None:
            line.begin([known[n] for n, _ in checks], texts, [known[n] for n in before])
        for place, (executable, takes, prepacks) in enumerate(calls, 1):
            executable(shared + takes(at), scalars, prepacks=_handles(known, prepacks))
            if place == begun and line is not None:
                line.begin([known[n] for n, _ in checks], texts, [known[n] for n in before])
        if line is None:
            for number, text in checks:
                if flag(known[number]):
                    raise OutOfRangeError(text)
        out: list[Handle] = [*shown(known)]
        for place, view in views:
            root: Any = out[place]
            aval = Aval(view.shape, root.dtype)
            out[place] = viewed(root, aval, view.strides, view.offset)
        if last is not None:  # which may write over inputs: everything else is done before
            if line is not None:
                settled(last[0], line, failures, donation)
            if donation is not None:
                donation.outputs = out
            for handle in compress(of_donors(known), of_donors(donatable)):
                handle.prepacked = None
            executable, takes, prepacks = last
            prepacked = _handles(known, prepacks)
            executable(shared + takes(at), scalars, donation, prepacks=prepacked)
        if lent is not None:
            device.take_back(lent)
        return out

    return run


def _makers(device: KernelDevice, linear: LinearPlan) -> list[Callable[[Aval], Ordered]]:
    """For each value that a plan makes what gives it memory: a flag that is nothing else may lie
    where the host reads it, if the device has such memory."""
    first = linear.inputs + len(linear.constants)
    flags = {n for n, _ in linear.checks} - {n for n, _ in linear.outputs}
    of_flags = getattr(device, "empty_flag", device.empty)
    return [
        of_flags if number in flags else device.empty
        for number in range(first, first + len(linear.own))
    ]


def _handles(
    known: Sequence[Ordered], prepacks: Sequence[int | None]
) -> tuple[Ordered | None, ...]:
    return tuple([None if n is None else known[n] for n in prepacks])


def _lasting_roots(
    linear: LinearPlan, executable: NativeExecutable, roots: Sequence[int]
) -> list[int | None]:
    """For each operand that may be prepacked its value, if that may come again in later runs as it
    is; nothing if none does."""
    lasting = range(linear.inputs + len(linear.constants))
    written = set(linear.donors.values())
    found = [
        n if (n := roots[number - 1]) in lasting and n not in written else None
        for number in executable.prepacks
    ]
    return found if any(n is not None for n in found) else []


class _PlanWriter:
    """The lines of the function, and what its names stand for."""

    def __init__(
        self, device: KernelDevice, linear: LinearPlan, line: PendingChecks | None
    ) -> None:
        self.lines: list[str] = []
        self._makers = _makers(device, linear)
        self._linear = linear
        self._inputs = linear.inputs
        self._donors = linear.donors
        self._first = linear.inputs + len(linear.constants)
        self._names: dict[str, Any] = {
            "__name__": __name__,  # a line in there is nobody's
            "in_order": device.in_order, "usual": device.ordered_type,
            "arena": device.arena,
            "take_back": device.take_back,
            "viewed": device.viewed, "flag": device.flag, "Error": OutOfRangeError, "Aval": Aval,
            "line": line, "settled": settled,
        }  # fmt: skip
        if line is not None and linear.donors:
            self.lines.append("failures = line.failures")

    def receive(self, constants: Sequence[Ordered]) -> None:
        if self._inputs:
            self.lines.append("".join(f"v{i}, " for i in range(self._inputs)) + "= given")
            for i in range(self._inputs):
                checked = "" if self._names["line"] is None else f" or v{i}.check is not None"
                self.lines.append(f"if type(v{i}) is not usual{checked}: v{i} = in_order(v{i})")
        for number, constant in enumerate(constants, self._inputs):
            self._names[f"v{number}"] = constant

    def make(self, own: Sequence[Aval]) -> None:
        for number, (aval, make) in enumerate(zip(own, self._makers, strict=True), self._first):
            self._names |= {f"aval{number}": aval, f"make{number}": make}
            made = f"make{number}(aval{number})"
            if number in self._donors:
                giver = self._donors[number]
                made = f"v{giver} if donatable[{giver}] else {made}"
            self.lines.append(f"v{number} = {made}")

    def borrow(self, arena: int) -> None:
        if arena:
            self._names["nbytes"] = arena
            self.lines.append("lent = arena(nbytes)")

    def executable(self, executable: NativeExecutable, roots: Sequence[int], arena: int) -> str:
        name = f"executable{len(self._names)}"
        self._names[name] = executable
        buffers = "".join(f", v{r}.address" for r in roots)
        shared = "lent.address" if arena else "0"
        prepacks = _lasting_roots(self._linear, executable, roots)
        lasting = "".join("None, " if n is None else f"v{n}, " for n in prepacks)
        handles = f", prepacks=({lasting})" if lasting else ""
        return f"{name}(({shared}{buffers},), scalars{handles})"

    def check(self, checks: Sequence[tuple[int, str]]) -> None:
        for number, text in checks:
            name = f"text{len(self._names)}"
            self._names[name] = text
            self.lines.append(f"if flag(v{number}): raise Error({name})")

    def begun(self, checks: Sequence[tuple[int, str]]) -> str:
        name = f"checks{len(self._names)}"
        self._names[name] = [text for _, text in checks]
        flags = "".join(f"v{number}, " for number, _ in checks)
        own = range(self._first, self._first + len(self._linear.own))
        made = "".join(f"v{number}, " for number in own if number not in self._donors)
        return f"line.begin(({flags}), {name}, ({made}))"

    def gate(self, last: NativeExecutable) -> None:
        """Writes the wait for checks, which comes before anything is overwritten."""
        self._names["last"] = last
        self.lines.append("settled(last, line, failures, donation)")

    def shown(self, number: int, view: View | None) -> str:
        if view is None:
            return f"v{number}"
        place = len(self._names)
        known = {"shape": tuple(view.shape), "strides": tuple(view.strides), "at": view.offset}
        shape, strides, at = names = [f"{name}{place}" for name in known]
        self._names.update(zip(names, known.values(), strict=True))
        return f"viewed(v{number}, Aval({shape}, v{number}.dtype), {strides}, {at})"

    def land(self, last: str) -> None:
        """Writes the last executable's call, which may overwrite inputs: all else comes before."""
        executable = last.partition("(")[0]
        self.lines.insert(0, f"if {executable}.long: donatable = NOTHING")
        self.lines.append("if donation is not None: donation.outputs = out")
        self.lines += [
            f"if donatable[{n}]: v{n}.prepacked = None" for n in sorted(self._donors.values())
        ]
        self.lines.append(last)

    def function(self) -> Run:
        self._names["NOTHING"] = (False,) * self._inputs
        body = "\n    ".join([*self.lines, "return out"])
        source = f"def run(given, scalars, donatable=NOTHING, donation=None):\n    {body}\n"
        exec(_code(source), self._names)
        run: Run = self._names["run"]
        return run


@lru_cache(maxsize=256)
def _code(source: str) -> CodeType:
    """The code of a function, once for all plans that differ in what its names stand for alone, as
    those of many sizes do."""
    return compile(source, "<plan>", "exec")
