"""Programs that operations carry, the bodies of loops and branches, as plans."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ingle.tensor.contract import Handle, Scalar
from ingle.tensor.locks import renewed
from ingle.tensor.programs import Program

from ..ir.graph import Graph
from ..support.settings import is_sliced
from .graph_plans import GraphPlans
from .replay import in_single_steps

if TYPE_CHECKING:
    from ..fusion import Fusion

MOST = 256
"""Programs whose plans are kept."""


class ProgramPlans:
    """Runs programs on a device by plans, each made when the program first runs.

    A loop that goes on until something holds, and a branch, run their programs one after the
    other, from Python. What is in a program is planned like any other graph. A program of which a
    part of plain code consists that runs operation by operation does so, too.
    """

    def __init__(self, device: Any, fusion: Fusion) -> None:
        self._device = device
        self._fusion = fusion
        self._lock = renewed(self, "_lock")
        self._known: OrderedDict[Any, GraphPlans] = OrderedDict()

    def run(self, program: Program, inputs: Sequence[Handle | Scalar]) -> list[Handle]:
        """The outputs of a program."""
        numbers = tuple([isinstance(x, Scalar) for x in inputs])
        with self._lock:
            executable = self._known.get((program, numbers))
            if executable is None:
                graph = graph_of_program(program, numbers)
                executable = self._device.prepare(graph)
                self._known[program, numbers] = executable
                while len(self._known) > MOST:
                    self._known.popitem(last=False)
            else:
                self._known.move_to_end((program, numbers))
        handles = [x for x in inputs if not isinstance(x, Scalar)]
        values = [x.value for x in inputs if isinstance(x, Scalar)]
        if in_single_steps.get() and is_sliced():
            return executable.replayed(handles, values)
        return executable(handles, values)


def graph_of_program(program: Program, numbers: Sequence[bool]) -> Graph:
    """The graph of a program, some of whose inputs are numbers."""
    graph = Graph()
    place = [
        graph.scalar(aval.dtype) if number else graph.input(aval)
        for aval, number in zip(program.inputs, numbers, strict=True)
    ]
    for step in program.steps:
        args = [
            graph.constant(x.value, x.dtype) if isinstance(x, Scalar) else place[x]
            for x in step.inputs
        ]
        place.extend(graph.node(step.op, args))
    graph.outputs = tuple([place[n] for n in program.outputs])
    return graph
