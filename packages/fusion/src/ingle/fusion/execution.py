"""Plans that run: kernels in native segments, and the backend's own operations in between."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.device import staged_on
from ingle.tensor.dtypes import uint8
from ingle.tensor.errors import OutOfRangeError
from ingle.tensor.operation import Op
from ingle.tensor.ops.creation import FULL

from .donation import donors
from .fusion import Fusion
from .graph import Graph
from .passes.expand import Expanded, avals_of
from .passes.kinds import generates, is_product
from .passes.nests import NestCall
from .passes.simplify import simplify
from .passes.views import View
from .planning import Call, HostStep, Scheduler, whole
from .straight import Landing, Run, straight


class Argument(NamedTuple):
    """A pointer of a kernel: which of the segment's buffers, and how many bytes into it."""

    buffer: int
    offset: int


class Launch(NamedTuple):
    """A call of a plan, with its operands as places in buffers.

    Attributes:
        call: the kernel and its sizes.
        pointers: for a nest its operands; for a contraction A, B and the epilogue's operands.
        scalars: positions among the plan's scalars.
        operations: the names of what it computes, for messages.
    """

    call: Call
    pointers: tuple[Argument, ...]
    scalars: tuple[int, ...]
    operations: str


class Segment(Protocol):
    """Kernels that run one after the other without Python in between."""

    long: bool
    """Whether it takes so long that Ctrl-C should be able to end it."""

    def __call__(
        self, addresses: Sequence[int], scalars: Sequence[Any], landing: Landing | None = None
    ) -> None:
        """Runs them on buffers at these addresses."""
        ...

    def profile(
        self, addresses: Sequence[int], scalars: Sequence[Any], runs: int
    ) -> Sequence[float]:
        """Seconds of each launch, the mean of some runs."""
        ...

    def sources(self) -> Sequence[str]:
        """The code of each kernel."""
        ...


class Ordered(Handle):
    """A handle whose elements lie in C order.

    Attributes:
        address: of the first one.
    """

    __slots__ = ()

    address: int


class KernelDevice(Protocol):
    """What a backend gives so that plans of generated kernels run on it; see `KernelBackend`.

    Attributes:
        spreads_products: whether matrix products without a template are written out as nests.
        writes_over: whether its segments tell a `Landing` how far they have come.
    """

    spreads_products: bool
    writes_over: bool

    def execute(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Runs an operation by itself."""
        ...

    def execute_native(self, op: Op, inputs: Sequence[Handle | Scalar]) -> tuple[Handle, ...]:
        """Runs an operation that no kernel is generated for."""
        ...

    def supports(self, op: Op, avals: Sequence[Aval]) -> bool: ...

    def owns(self, op: Op, avals: Sequence[Aval]) -> bool:
        """Whether somebody wrote a kernel for the operation, which `execute_native` runs."""
        ...

    def contracts(self, avals: Sequence[Aval]) -> bool:
        """Whether there is a template for a matrix product of these."""
        ...

    def segment(self, launches: Sequence[Launch], buffers: int, scalars: Sequence[str]) -> Segment:
        """Compiles kernels and makes them ready to run; `scalars` are dtypes."""
        ...

    def empty(self, aval: Aval) -> Ordered:
        """New memory."""
        ...

    def arena(self, nbytes: int) -> int:
        """The address of memory that one plan of this thread may use until its end."""
        ...

    def in_order(self, handle: Handle) -> Ordered:
        """The handle, or a copy of it whose elements lie in C order at a known address."""
        ...

    def viewed(self, handle: Handle, aval: Aval, strides: Sequence[int], offset: int) -> Handle:
        """A handle of strided elements of another's memory."""
        ...

    def flag(self, handle: Ordered) -> bool:
        """The one bool of a value that a kernel wrote."""
        ...


def generated(device: KernelDevice) -> Callable[[Op, Sequence[Aval]], bool]:
    """Whether kernels are generated for an operation on this device."""
    known = generates(device.contracts)
    return lambda op, avals: not device.owns(op, avals) and known(op, avals)


def written_out(device: KernelDevice) -> Callable[[Op, Sequence[Aval]], bool]:
    """Whether a matrix product becomes a nest of products and a sum on this device."""

    def asked(op: Op, avals: Sequence[Aval]) -> bool:
        return device.spreads_products and is_product(op) and not device.contracts(avals)

    return asked


class KernelExecutable:
    """A graph as plans of kernels, made at its first run and anew where a guard fails.

    Args:
        device: which runs it.
        fusion: the decorator over it, for bodies of composites.
        graph: what was recorded.
    """

    def __init__(self, device: Any, fusion: Fusion, graph: Graph) -> None:
        self._device = device
        self._fusion = fusion
        self._graph = graph
        self._plans: list[Plan] = []

    def __call__(self, given: Sequence[Handle], numbers: Sequence[Any]) -> list[Handle]:
        for plan in self._plans:
            scalars = plan.host(*numbers)
            if scalars is not None:
                return plan.run(given, scalars)
        plan = self.plan(numbers)
        return plan.run(given, plan.host(*numbers))

    def over(
        self,
        given: Sequence[Handle],
        numbers: Sequence[Any],
        free: Sequence[bool],
        landing: Landing,
    ) -> list[Handle]:
        """Runs it, and writes outputs over inputs where it can.

        Args:
            given, numbers: as in a call.
            free: for each input whether it may be written over. Where it was, the output is the
                same handle.
            landing: what holds if this raises.
        """
        for plan in self._plans:
            scalars = plan.host(*numbers)
            if scalars is not None:
                if plan.donors:
                    return plan.run(given, scalars, free, landing)
                return plan.run(given, scalars)
        self.plan(numbers)
        return self.over(given, numbers, free, landing)

    @property
    def donors(self) -> frozenset[int]:
        """Which inputs some plan can write over."""
        return frozenset([n for plan in self._plans for n in plan.donors.values()])

    def ordered(self, given: Sequence[Handle]) -> list[Ordered]:
        """Inputs as kernels read them."""
        in_order = self._device.in_order
        return [in_order(h) for h in given]

    def plan(self, numbers: Sequence[Any]) -> Plan:
        """The plan that serves these numbers, made if there is none."""
        for plan in self._plans:
            if plan.host(*numbers) is not None:
                return plan
        made = Plan(self._device, self._fusion, self._graph, numbers)
        self._plans.insert(0, made)
        if "fusion" in os.environ.get("INGLE_LOG", ""):
            sys.stderr.write(f"ingle.fusion: {made.schedule}\n")
        return made


class Plan:
    """A schedule with its kernels compiled.

    Attributes:
        host: computes the scalars of the schedule's graph from those of the recorded one.
        schedule: what runs.
        donors: for values that may lie in an input's memory, by the number that the run knows them
            by, that input's position.
        run: runs it on inputs, which it never writes, and scalars, and returns the outputs.
    """

    run: Run

    def __init__(
        self, device: KernelDevice, fusion: Fusion, graph: Graph, examples: Sequence[Any]
    ) -> None:
        self._device = device
        known = generated(device)
        expanded = Expanded(
            graph, examples, fusion, known, device.supports, written_out(device), device.owns
        )
        self.host = expanded.host
        self._generated = known
        self._texts = expanded.checks
        self._constants = [device.in_order(h) for h in expanded.constants]
        self.schedule = Scheduler(simplify(expanded.graph), known).schedule()
        flags = self.schedule.graph.outputs[len(graph.outputs) :]
        found = donors(self.schedule, graph.donors if device.writes_over else (), flags)
        if found.taken and found.start:
            (calls,) = self.schedule.steps
            assert isinstance(calls, list)
            self.schedule.steps = [calls[: found.start], calls[found.start :]]
        self._build()
        self.donors = {self._numbers[value]: given for value, given in found.taken.items()}
        self.run = self._straight() or self._in_steps

    def _build(self) -> None:
        schedule = self.schedule
        graph = schedule.graph
        dtypes = [graph.values[s].aval.dtype.name for s in graph.scalars]
        place = {s: i for i, s in enumerate(graph.scalars)}
        self._steps: list[tuple[Segment, list[int]] | HostStep] = []
        self._numbers = {n: i for i, n in enumerate((*graph.inputs, *schedule.own))}
        for step in schedule.steps:
            if isinstance(step, HostStep):
                self._steps.append(step)
                for value in graph.nodes[step.position].results:
                    self._numbers[value] = len(self._numbers)
                continue
            roots: dict[int, int] = {}
            launches = [self._launch(call, roots, place) for call in step]
            segment = self._device.segment(launches, 1 + len(roots), dtypes)
            self._steps.append((segment, [self._numbers[r] for r in roots]))
        outputs = [self._output(o) for o in graph.outputs]
        count = len(outputs) - len(self._texts)
        self._outputs = outputs[:count]
        self._checks = [
            (number, text) for (number, _), text in zip(outputs[count:], self._texts, strict=True)
        ]
        self._own = [graph.values[v].aval for v in schedule.own]

    def _straight(self) -> Run | None:
        """The fast way to run, for plans without steps of the backend's own."""
        segments = [s for s in self._steps if not isinstance(s, HostStep)]
        if len(segments) < len(self._steps):
            return None
        return straight(
            self._device, inputs=len(self.schedule.graph.inputs) - len(self._constants),
            constants=self._constants, own=self._own, arena=self.schedule.arena, segments=segments,
            checks=self._checks, outputs=self._outputs, donors=self.donors,
        )  # fmt: skip

    def _launch(self, call: Call, roots: dict[int, int], place: dict[int, int]) -> Launch:
        if isinstance(call, NestCall):
            arguments = call.arguments
        else:
            arguments = (call.a, call.b, *call.operands)
        pointers = []
        for argument in arguments:
            size = self.schedule.graph.values[argument.root].aval.dtype.itemsize
            offset = argument.offset * size
            inside = self.schedule.offsets.get(argument.root)
            if inside is not None:
                pointers.append(Argument(0, inside + offset))
            else:
                buffer = roots.setdefault(argument.root, len(roots) + 1)
                pointers.append(Argument(buffer, offset))
        nodes = self.schedule.graph.nodes
        names = " ".join([nodes[p].op.operation.name for p in call.nodes])
        return Launch(call, tuple(pointers), tuple([place[s] for s in call.scalars]), names)

    def _output(self, value: int) -> tuple[int, View | None]:
        """The number of an output's root, and the view of it if it is not the same memory."""
        view = self.schedule.views.of(value)
        shape = self.schedule.graph.values[view.root].aval.shape
        return self._numbers[view.root], None if whole(view, shape) else view

    def _in_steps(self, given: Sequence[Handle], scalars: Any) -> list[Handle]:
        device = self._device
        known = self._memory([device.in_order(h) for h in given])
        # Not the thread's arena: the backend's own operations may run plans, which use that.
        within = device.empty(Aval((self.schedule.arena,), uint8))
        arena = within.address
        for step in self._steps:
            if type(step) is tuple:
                step[0]([arena, *[known[r].address for r in step[1]]], scalars)
            else:
                self._on_host(step, known, scalars)  # type: ignore[arg-type]
        for number, text in self._checks:
            if device.flag(known[number]):
                raise OutOfRangeError(text)
        return [
            known[n] if view is None else self._viewed(known[n], view) for n, view in self._outputs
        ]

    def _memory(self, given: Sequence[Ordered]) -> list[Ordered]:
        """The values that lie outside of the arena: inputs, then what the plan makes."""
        empty = self._device.empty
        return [*given, *self._constants, *[empty(aval) for aval in self._own]]

    def profile(
        self, given: Sequence[Ordered], numbers: Sequence[Any], runs: int
    ) -> dict[int, float]:
        """Seconds of each call, by its number in the schedule; the backend's own take the rest."""
        scalars: Any = self.host(*numbers)
        known = self._memory(given)
        within = self._device.empty(Aval((self.schedule.arena,), uint8))
        arena = within.address
        times: dict[int, float] = {}
        place = 0
        for step in self._steps:
            if isinstance(step, HostStep):
                start = time.perf_counter()
                self._on_host(step, known, scalars)
                times[place] = time.perf_counter() - start
                place += 1
            else:
                segment, roots = step
                buffers = [arena, *[known[r].address for r in roots]]
                for seconds in segment.profile(buffers, scalars, runs):
                    times[place] = seconds
                    place += 1
        return times

    def sources(self) -> list[str]:
        """The code of the kernels."""
        found: dict[str, None] = {}
        for step in self._steps:
            if not isinstance(step, HostStep):
                found.update(dict.fromkeys(step[0].sources()))
        return list(found)

    def _on_host(self, step: HostStep, known: list[Ordered], scalars: Sequence[Any]) -> None:
        graph = self.schedule.graph
        node = graph.nodes[step.position]
        inputs = [self._host_input(v, known, scalars) for v in node.args]
        run = self._device.execute_native
        kernels = self._generated(node.op, avals_of(inputs))
        if is_product(node.op) or kernels:
            # How a library orders the sums depends on strides: alone it is given dense operands.
            dense: list[Handle | Scalar] = [
                self._device.in_order(x) if isinstance(x, Handle) else x for x in inputs
            ]
            if kernels and any(x is not y for x, y in zip(inputs, dense, strict=True)):
                run = self._device.execute  # the strides of its operands were no nest
            inputs = dense
        with staged_on(self._device):  # type: ignore[arg-type]
            results = run(node.op, inputs)
        known.extend([self._device.in_order(h) for h in results[: len(node.results)]])

    def _host_input(
        self, value: int, known: list[Ordered], scalars: Sequence[Any]
    ) -> Handle | Scalar:
        view = self.schedule.views.of(value)
        root = self.schedule.graph.values[view.root]
        if root.kind in ("constant", "scalar"):
            number = root.data if root.kind == "constant" else scalars[root.data]
            scalar = Scalar(number, root.aval.dtype)
            if value == view.root:
                return scalar
            return self._device.execute_native(
                FULL.op(shape=view.shape, dtype=scalar.dtype), [scalar]
            )[0]
        handle = known[self._numbers[view.root]]
        return handle if whole(view, root.aval.shape) else self._viewed(handle, view)

    def _viewed(self, handle: Handle, view: View) -> Handle:
        aval = Aval(view.shape, handle.dtype)
        return self._device.viewed(handle, aval, view.strides, view.offset)
