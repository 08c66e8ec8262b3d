"""The steps of a plan, as `explain` lists them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..ir.graph import Graph
from ..lowering.nests import NestCall
from ..lowering.operands import bytes_along
from ..schedule.rates import DESKTOP, Rates
from ..schedule.schedule import Call, HostStep, Schedule, arguments_of
from ..schedule.whole_calls import WholeCall
from .buffers import Buffers


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel, or one operation that the backend runs by itself.

    Attributes:
        kind: `"nest"`, `"product"`, `"whole"` for what the device's template or library computes
            of an operation by itself, or `"host"`.
        operations: the names of what it computes, in order.
        sizes: of its loops.
        nbytes: what it reads and writes, each byte once.
        flops: multiplications and additions of a product.
        seconds: measured, or None.
        again: the names of what it computes in addition because that costs less than to read what
            an earlier kernel has computed.
        reads, writes: the memory, as numbers of the explanation's `buffers`.
        rates: those of the device, or a desktop's.
        device: where it runs, in a plan for several; else empty.
    """

    kind: str
    operations: tuple[str, ...]
    sizes: tuple[int, ...]
    nbytes: int
    flops: int
    seconds: float | None = None
    again: tuple[str, ...] = ()
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    rates: Rates = DESKTOP
    device: str = ""

    @property
    def estimate(self) -> float:
        """Seconds that memory or arithmetic would take at these rates."""
        return self.rates.seconds(self.nbytes, self.flops)

    @property
    def name(self) -> str:
        """The operations with how often each occurs."""
        again = f" (again: {counted(self.again)})" if self.again else ""
        return counted(self.operations) + again


def steps_of(schedule: Schedule, memory: Buffers, times: Mapping[int, float]) -> list[Step]:
    """The steps of a schedule.

    Args:
        memory: of its graph.
        times: measured seconds of some, by their number.
    """
    found: list[Step] = []
    done: set[int] = set()
    for step in schedule.steps:
        if isinstance(step, HostStep):
            found.append(alone("host", memory, step.position, times.get(len(found))))
            continue
        for call in step:
            if isinstance(call, WholeCall):
                whole = alone("whole", memory, call.nodes[0], times.get(len(found)))
                reads, writes = (
                    memory.numbers(a.root for a in arguments)
                    for arguments in (call.operands, call.outputs)
                )
                found.append(replace(whole, reads=reads, writes=writes))
                continue
            again = tuple([p for p in call.nodes if p in done and _is_map(schedule.graph, p)])
            done.update(call.nodes)
            found.append(_kernel_step(memory, call, times.get(len(found)), again))
    return found


def _is_map(graph: Graph, position: int) -> bool:
    """Whether a kernel computes a node whole: those of a result in pieces share its node."""
    return graph.nodes[position].op.operation.traits.kind == "elementwise"


def _kernel_step(memory: Buffers, call: Call, seconds: float | None, again: Sequence[int]) -> Step:
    graph = memory.graph
    first = [p for p in call.nodes if p not in again]
    names, more = [
        tuple([graph.nodes[p].op.operation.name for p in nodes]) for nodes in (first, again)
    ]
    reads = memory.numbers(a.root for a in arguments_of(call) if not a.output)
    writes = memory.numbers(a.root for a in arguments_of(call) if a.output)
    if isinstance(call, NestCall):
        # Along the first axis of a scattered nest nothing runs; rows at computed places lie apart.
        skipped = 1 if call.nest.scattered else 0
        sizes, each = call.sizes[skipped:], zip(call.nest.operands, call.strides, strict=True)
        steps = [s[skipped:] if o.row_base is None else (1,) * len(sizes) for o, s in each]
        nbytes = sum(
            bytes_along(graph, a.root, sizes, s) for a, s in zip(call.arguments, steps, strict=True)
        )
        return Step("nest", names, sizes, nbytes, 0, seconds, more, reads, writes)
    m, n, k = call.sizes
    sizes = (*call.batch, m, n, k)
    nbytes = (
        bytes_along(graph, call.a.root, (*call.batch, m, k), call.a.strides)
        + bytes_along(graph, call.b.root, (*call.batch, k, n), call.b.strides)
        + sum(bytes_along(graph, o.root, (*call.batch, m, n), o.strides) for o in call.operands)
    )
    shown = sizes if math.prod(call.batch) > 1 else sizes[-3:]
    flops = 2 * math.prod(sizes)
    return Step("product", names, shown, nbytes, flops, seconds, more, reads, writes)


def alone(kind: str, memory: Buffers, position: int, seconds: float | None = None) -> Step:
    """The step of an operation that nothing is fused with."""
    graph = memory.graph
    node = graph.nodes[position]
    avals = [graph.values[v].aval for v in (*node.args, *node.results)]
    nbytes = sum(math.prod(a.shape) * a.dtype.itemsize for a in avals)
    shape = graph.values[node.results[0]].aval.shape
    reads, writes = memory.numbers(node.args), memory.numbers(node.results)
    return Step(kind, (node.op.operation.name,), shape, nbytes, 0, seconds, (), reads, writes)


def counted(names: Sequence[str]) -> str:
    """Names, each with how often it occurs."""
    return " ".join(n if k == 1 else f"{n}x{k}" for n, k in Counter(names).items())
