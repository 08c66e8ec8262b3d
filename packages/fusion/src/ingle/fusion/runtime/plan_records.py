"""Plans on disk: a process that runs what another one has run makes no plan.

What is kept is a `PlanData`: pure data, nothing that Python would execute. It stands in the
device's `PlanStore` under a key of everything that decided it (`plan_keys`), and is checked as it
is read, against the graph at hand too: what is damaged, foreign or unsuitable counts as absent, and
the plan is made anew.

A record is a JSON text, then the bytes that this refers to by number: executables, as their device
writes them, and the memory of constants. All of it is compressed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ingle.tensor.contract import Aval
from ingle.tensor.dtypes import as_dtype
from ingle.tensor.operation import infer

from ..errors import GraphFormatError
from ..ir.graph import Graph
from ..ir.scalar_program import ScalarProgram
from ..ir.serialization import attributes_of, op_named, read_value, written_value
from ..ir.views import View
from .host_ops import HostCall, NumberArgument, TensorArgument
from .plan_data import Check, KernelRun, PlanData
from .plan_keys import key_of
from .record_parts import NONSENSE, UnsuitableError, count, must, packed, unpacked

if TYPE_CHECKING:
    from .device import KernelDevice, Ordered
    from .plan_store import PlanStore

VERSION = 2
VARIANTS = 4
"""Plans of one graph, which hold for different outcomes of comparisons of its numbers."""
MOST_BYTES = 32 << 20
"""A record that would be larger is not kept."""
MOST_CONSTANT_BYTES = 1 << 20
"""Plans with more memory in constants than this are not kept."""


def stored_plans(device: KernelDevice, graph: Graph) -> StoredPlans | None:
    """The plans of a graph that outlive the process; None where the device keeps none."""
    plan_store = device.plan_store
    return None if plan_store is None else StoredPlans(device, plan_store, graph)


class StoredPlans:
    """The stored plans of one graph on a plan store.

    Attributes:
        outdated: what was read as it is, and would be made otherwise now, with its name.
    """

    def __init__(self, device: KernelDevice, plan_store: PlanStore, graph: Graph) -> None:
        self._device = device
        self._plan_store = plan_store
        self._graph = graph
        self._keys: dict[Any, str | None] = {}
        self.outdated: tuple[str, PlanData] | None = None

    def get(self, numbers: Sequence[Any], *, as_it_is: bool = False) -> PlanData | None:
        """Plan data that serves these numbers, if one is kept.

        Args:
            numbers: of a run.
            as_it_is: whether it may be outdated; then `outdated` says that it is, and `renewed`
                brings it up to date.
        """
        key = self._key(numbers)
        for variant in range(VARIANTS if key else 0):
            name = f"plan-{key}-{variant}"
            content = self._plan_store.get(name)
            if content is None:
                return None
            data = read(self._device, self._plan_store, self._graph, content)
            if data is not None and data.host.function()(*numbers) is not None:
                if any(map(self._is_outdated, data.steps)):
                    if not as_it_is:
                        return self._anew(name, data)
                    self.outdated = name, data
                    return data
                if any(isinstance(s, KernelRun) and s.executable.renewed for s in data.steps):
                    self._keep(name, data)
                return data
        return None

    def renewed(self) -> PlanData:
        """What was read as it is, as it would be made now; it is kept in its place."""
        assert self.outdated is not None
        data = self._anew(*self.outdated)
        self.outdated = None
        return data

    def _anew(self, name: str, data: PlanData) -> PlanData:
        anew = self._plan_store.anew
        steps = [
            KernelRun(anew(step.executable), step.roots) if self._is_outdated(step) else step  # type: ignore[union-attr]
            for step in data.steps
        ]
        data = data._replace(steps=steps)
        self._keep(name, data)
        return data

    def _is_outdated(self, step: KernelRun | HostCall) -> bool:
        return isinstance(step, KernelRun) and self._plan_store.is_outdated(step.executable)

    def _keep(self, name: str, data: PlanData) -> None:
        """Keeps what a device has made anew of a record."""
        content = written(self._device, self._plan_store, data)
        if content is not None:
            self._plan_store.put(name, content)

    def put(self, numbers: Sequence[Any], data: PlanData) -> None:
        """Keeps plan data, unless it is one that cannot be kept."""
        key = self._key(numbers)
        content = None if key is None else written(self._device, self._plan_store, data)
        if content is None:
            return
        for variant in range(VARIANTS):
            name = f"plan-{key}-{variant}"
            there = self._plan_store.get(name) if variant < VARIANTS - 1 else None
            if there is None or read(self._device, self._plan_store, self._graph, there) is None:
                self._plan_store.put(name, content)
                return

    def _key(self, numbers: Sequence[Any]) -> str | None:
        description = self._plan_store.description()
        known = (description, *map(type, numbers))
        if known not in self._keys:
            self._keys[known] = key_of(self._graph, numbers, description)
        return self._keys[known]


def written(device: KernelDevice, plan_store: PlanStore, data: PlanData) -> bytes | None:
    """Plan data as bytes; None if it cannot be kept."""
    if not data.host.is_arithmetic():
        return None
    sizes = [math.prod(c.shape) * c.dtype.itemsize for c in data.constants]
    if sum(sizes) > MOST_CONSTANT_BYTES:
        return None
    sections: list[bytes] = []
    try:
        steps: list[Any] = []
        for step in data.steps:
            if isinstance(step, HostCall):
                args = [_written_arg(a) for a in step.args]
                steps.append([step.op.operation.name, attributes_of(step.op), args, step.results])
                continue
            content = plan_store.written(step.executable)
            if content is None:
                return None
            steps.append([len(sections), list(step.roots)])
            sections.append(content)
        constants = []
        for constant in data.constants:
            constants.append([*_written_aval(constant), len(sections)])
            sections.append(np.ascontiguousarray(device.download(constant)).tobytes())
        content_of = {
            "ingle-plan": VERSION,
            "inputs": data.inputs,
            "host": _written_host(data.host),
            "scalars": data.scalars,
            "constants": constants,
            "own": [_written_aval(a) for a in data.own],
            "arena": data.arena,
            "steps": steps,
            "outputs": [[n, None if v is None else _written_view(v)] for n, v in data.outputs],
            "checks": data.checks,
            "donors": list(data.donors.items()),
            "products": data.products,
            "sections": [len(s) for s in sections],
        }
        return packed(content_of, sections, MOST_BYTES)
    except (GraphFormatError, TypeError, ValueError):
        return None  # something in it is no data


def read(
    device: KernelDevice, plan_store: PlanStore, graph: Graph, content: bytes
) -> PlanData | None:
    """The plan data that bytes stand for, if they are one and it is one of this graph."""
    try:
        said, rest = unpacked(content, MOST_BYTES)
        if said["ingle-plan"] != VERSION:
            return None
        sections, at = [], 0
        for size in said["sections"]:
            sections.append(rest[at : at + count(size)])
            at += size
        if at != len(rest):
            return None
        return _PlanReader(device, plan_store, graph, said, sections).data()
    except NONSENSE:
        return None  # what else there may be in bytes that are no record


class _PlanReader:
    """Makes plan data of what a record says, none of which it takes for granted."""

    def __init__(
        self,
        device: KernelDevice,
        plan_store: PlanStore,
        graph: Graph,
        said: Any,
        sections: list[bytes],
    ) -> None:
        self._device = device
        self._plan_store = plan_store
        self._graph = graph
        self._said = said
        self._sections = sections
        self._avals = [graph.values[n].aval for n in graph.inputs]

    def data(self) -> PlanData:
        said, graph = self._said, self._graph
        must(said["inputs"] == len(graph.inputs))
        host = _read_host(said["host"])
        must(host.given == len(graph.scalars) and host.is_arithmetic())
        scalars = tuple([as_dtype(name).name for name in said["scalars"]])
        must(len(host.results) == len(scalars))
        self._scalars = scalars
        constants = [self._constant(*c) for c in said["constants"]]
        own = [_read_aval(*a) for a in said["own"]]
        self._first = len(self._avals)
        self._avals += own
        self._arena = count(said["arena"])
        donors = {count(v): count(i) for v, i in said["donors"]}
        for value, given in donors.items():
            must(self._first <= value < len(self._avals) and given < len(graph.inputs))
            must(self._avals[value] == self._avals[given])
        must(len(set(donors.values())) == len(donors))
        products = tuple([count(i) for i in said["products"]])
        must(all(i < len(graph.inputs) for i in products))
        steps = [self._step(s) for s in said["steps"]]
        outputs = [self._output(o, *s) for o, s in zip(graph.outputs, said["outputs"], strict=True)]
        checks = [Check(self._number(n), str(text), count(p)) for n, text, p in said["checks"]]
        for check in checks:
            must(self._avals[check.flag] == Aval((), as_dtype("bool")))
            must(check.node < len(graph.nodes))
        return PlanData(
            len(graph.inputs), host, scalars, constants, own, self._arena, steps, outputs, checks,
            donors, products,
        )  # fmt: skip

    def _number(self, n: Any) -> int:
        if type(n) is not int or not 0 <= n < len(self._avals):  # without a call, as in `count`
            raise UnsuitableError
        return n

    def _section(self, n: Any) -> bytes:
        return self._sections[count(n)]

    def _constant(self, shape: Any, dtype: Any, section: Any) -> Ordered:
        aval = _read_aval(shape, dtype)
        content = self._section(section)
        must(len(content) == math.prod(aval.shape) * aval.dtype.itemsize)
        array: Any = np.ndarray(aval.shape, aval.dtype.dtype, content)
        self._avals.append(aval)
        return self._device.in_order(self._device.upload(array))

    def _step(self, said: Any) -> KernelRun | HostCall:
        if len(said) == 2:
            roots = tuple([self._number(n) for n in said[1]])
            buffers = [self._arena, *[_nbytes(self._avals[r]) for r in roots]]
            executable = self._plan_store.executable(self._section(said[0]), buffers, self._scalars)
            if executable is None:
                raise UnsuitableError
            return KernelRun(executable, roots)
        name, attributes, given, results = said
        op = op_named(name, attributes)
        args = tuple([self._arg(*a) for a in given])
        avals = tuple([self._aval(a) for a in args])
        made = infer(op, avals)
        must(len(made) >= count(results))
        self._avals += made[:results]
        return HostCall(op, args, avals, results)

    def _aval(self, arg: TensorArgument | NumberArgument) -> Aval:
        if isinstance(arg, NumberArgument):
            return Aval(arg.shape or (), arg.dtype)
        known = self._avals[arg.number]
        return known if arg.view is None else Aval(arg.view.shape, known.dtype)

    def _arg(self, kind: Any, *said: Any) -> TensorArgument | NumberArgument:
        if kind == "tensor":
            number, view = said
            found = self._number(number)
            return TensorArgument(found, None if view is None else self._view(found, view))
        must(kind == "number")
        dtype, constant, scalar, shape = said
        must(type(scalar) is int and -1 <= scalar < len(self._scalars))
        sizes = None if shape is None else tuple([count(n) for n in shape])
        return NumberArgument(as_dtype(dtype), read_value(constant), scalar, sizes)

    def _view(self, number: int, said: Any) -> View:
        """A view that stays within its root."""
        shape = tuple([count(n) for n in said[0]])
        strides = tuple([_whole(n) for n in said[1]])
        offset = count(said[2])
        must(len(shape) == len(strides))
        aval = self._avals[number]
        if math.prod(shape):
            steps = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
            first = offset + sum(min(s, 0) for s in steps)
            last = offset + sum(max(s, 0) for s in steps)
            must(first >= 0 and last < math.prod(aval.shape))
        return View(number, shape, strides, offset)

    def _output(self, output: int, number: Any, said: Any) -> tuple[int, View | None]:
        number = self._number(number)
        view = None if said is None else self._view(number, said)
        wanted, aval = self._graph.values[output].aval, self._avals[number]
        must(wanted == (aval if view is None else Aval(view.shape, aval.dtype)))
        return number, view


def _whole(n: Any) -> int:
    if type(n) is not int or abs(n) >= 1 << 62:
        raise UnsuitableError
    return n


def _nbytes(aval: Aval) -> int:
    return math.prod(aval.shape) * aval.dtype.itemsize


def _written_aval(aval: Any) -> list[Any]:
    return [[int(n) for n in aval.shape], aval.dtype.name]


def _read_aval(shape: Any, dtype: Any) -> Aval:
    return Aval(tuple([count(n) for n in shape]), as_dtype(dtype))


def _written_view(view: View) -> list[Any]:
    return [[int(n) for n in view.shape], [int(n) for n in view.strides], int(view.offset)]


def _written_arg(arg: TensorArgument | NumberArgument) -> list[Any]:
    if isinstance(arg, TensorArgument):
        return ["tensor", arg.number, None if arg.view is None else _written_view(arg.view)]
    shape = None if arg.shape is None else [int(n) for n in arg.shape]
    return ["number", arg.dtype.name, written_value(arg.constant), arg.scalar, shape]


def _written_host(host: ScalarProgram) -> list[Any]:
    results = [r if isinstance(r, str) else [written_value(r[0])] for r in host.results]
    return [host.given, host.lines, results]


def _read_host(said: Any) -> ScalarProgram:
    given, lines, results = said
    must(all(isinstance(line, str) for line in lines))
    found = [r if isinstance(r, str) else (read_value(r[0]),) for r in results]
    return ScalarProgram(count(given), tuple(lines), tuple(found))
