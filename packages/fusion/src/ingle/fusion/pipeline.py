"""From a graph to a plan: the stages, in order.

Graph           what was recorded: operations on inputs, scalars and constants
Decomposed      the same in operations that kernels are generated for, with a ScalarProgram
KernelSequence  groups of operations as loop nests, in the order in which they run
Schedule        offsets in memory, and the outputs that overwrite inputs
PlanData        the device's executables with their buffers
ScheduledPlan   runs
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .ir.graph import Donors, Graph
from .passes.concat_of_pads import with_tiles
from .passes.decompose import decompose
from .passes.simplify import simplify
from .passes.split_leading_axes import with_split_rows
from .runtime.custom_kernels import registrations
from .runtime.input_layouts import read_by_products
from .runtime.legality import generated, written_out
from .runtime.plan import ScheduledPlan
from .runtime.plan_data import plan_data_of
from .schedule.donation import donors
from .schedule.schedule import KernelSequence, laid_out
from .schedule.scheduler import Scheduler
from .support.settings import is_exact
from .symbolic.families import families_of

if TYPE_CHECKING:
    from .fusion import Fusion
    from .runtime.device import KernelDevice


def compile_graph(
    device: KernelDevice, fusion: Fusion, graph: Graph, examples: Sequence[Any], passing: bool
) -> ScheduledPlan:
    """The plan of a graph.

    Args:
        device: which compiles and runs it.
        fusion: the decorator over the device, for bodies of composites.
        graph: what was recorded.
        examples: its scalars in the run at hand.
        passing: whether the graph may well come once; see `GraphPlans`.
    """
    decomposed = decompose(
        graph, examples, fusion, generated(device), device.supports, written_out(device),
        device.owns,
    )  # fmt: skip
    pairs = graph.donors if device.writes_over else ()

    def sequence(graph: Graph) -> KernelSequence:
        return kernel_sequence(device, graph, pairs)

    surroundings = pairs, is_exact(), registrations()
    filled = families_of(device).outlined(decomposed.graph, surroundings, sequence)
    scalars = decomposed.scalars
    if filled.sources is not None:
        scalars = scalars.taking(filled.sources, filled.constants)
    schedule = laid_out(filled.outline)
    flags = schedule.graph.outputs[len(graph.outputs) :]
    donations = donors(schedule, pairs, flags)
    if donations.taken and donations.start:
        (calls,) = schedule.steps
        assert isinstance(calls, list)
        schedule.steps = [calls[: donations.start], calls[donations.start :]]
    data = plan_data_of(
        device, schedule, scalars, [device.in_order(h) for h in decomposed.constants],
        decomposed.checks, donations.taken,
        tuple([i for i in read_by_products(decomposed.graph) if i < len(graph.inputs)]),
    )  # fmt: skip
    return ScheduledPlan(device, fusion, data, schedule, passing)


def kernel_sequence(device: KernelDevice, graph: Graph, pairs: Donors) -> KernelSequence:
    """The kernels of a decomposed graph, in order.

    Args:
        device: says which operations kernels are generated for.
        graph: without composites.
        pairs: inputs and outputs that may share memory.
    """
    optimized = with_split_rows(with_tiles(simplify(graph)))
    return Scheduler(optimized, generated(device), pairs).outline()
