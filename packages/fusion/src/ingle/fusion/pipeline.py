"""From a graph to a plan: the stages, in order.

Graph           what was recorded: operations on inputs, scalars and constants
Decomposed      the same in operations that kernels are generated for, with a ScalarProgram
KernelSequence  groups of operations as loop nests, in the order in which they run
Schedule        offsets in memory, and the outputs that overwrite inputs
PlanData        the device's executables with their buffers
HostOps         what runs the operations that have no kernels, loops of programs planned
ScheduledPlan   runs

An AnySizePlan is all of that but the executables for graphs of any sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ingle.tensor.callers import warn
from ingle.tensor.interruptions import is_from_outside
from ingle.tensor.precision import suspended

from .errors import PlanWarning
from .grouping.late_copies import with_late_copies
from .grouping.legality import Legality
from .ir.graph import Donors, Graph
from .ir.layers import Layers
from .ir.short_graph import UnlikeError
from .passes.aligned_rows import with_aligned_rows
from .passes.by_layers import (
    RecordedLayers,
    by_layers,
    decomposed_by_layers,
    recorded_layers,
)
from .passes.checks_apart import with_checks_apart
from .passes.concat_of_pads import with_concat_of_pads
from .passes.numbers_given import with_numbers_given
from .passes.simplify import simplify
from .passes.split_leading_axes import with_split_rows
from .record.ambient_state import ambient
from .runtime.any_size_plan import AnySizePlan, any_size_plan_of
from .runtime.custom_kernels import registrations
from .runtime.host_ops import host_ops
from .runtime.input_layouts import read_by_products
from .runtime.pending_checks import checks_of
from .runtime.plan import ScheduledPlan
from .runtime.plan_data import plan_data_of
from .schedule.donation import cut, donors
from .schedule.early_checks import with_early_checks
from .schedule.joined_in_place import joined_in_place
from .schedule.joined_maps import joined_maps
from .schedule.neighbours import with_neighbours
from .schedule.placed_results import device_calls
from .schedule.schedule import HostStep, KernelSequence, laid_out
from .schedule.scheduler import Scheduler
from .schedule.side_by_side import side_by_side
from .support.settings import is_exact
from .support.time_slices import beside
from .symbolic.decompositions import (
    Decompositions,
    Remainder,
    SymbolicDecomposition,
    WrittenOut,
    constants_of,
    decompositions_of,
    symbolic_decomposition,
    written_out,
)
from .symbolic.families import Family, families_of
from .symbolic.first_graphs import first_graphs_of
from .symbolic.form import Form, form_of
from .symbolic.generalization import generalized
from .symbolic.sequences import (
    FilledSequence,
    LateSequence,
    SymbolicSequence,
    symbolic_sequence,
)

if TYPE_CHECKING:
    from .fusion import Fusion
    from .runtime.device import KernelDevice

T = TypeVar("T")


@suspended()
def compile_graph(
    device: KernelDevice, fusion: Fusion, graph: Graph, examples: Sequence[Any], passing: bool,
    alike: Sequence[tuple[Graph, Sequence[Any]]] = (),
) -> ScheduledPlan:  # fmt: skip
    """The plan of a graph.

    Args:
        device: which compiles and runs it.
        fusion: the decorator over the device, for bodies of composites.
        graph: what was recorded.
        examples: its scalars in the run at hand.
        passing: whether the graph may well come once; see `GraphPlans`.
        alike: graphs of its form with their scalars, as examples for a plan for all sizes.
    """
    for other, scalars in alike:
        example = _written_out(device, fusion, other, scalars)
        assert example is not None, "it is due"
        _family(device, example.form, _pairs(device, other)).note(example.form.numbers)
    recorded = recorded_layers(graph, Legality(device))
    if recorded is not None and not alike and _is_first(device, fusion, graph, examples):
        made = _by_layers(device, fusion, graph, recorded, examples)
        if made is not None:
            return _scheduled(device, fusion, graph, *made, passing)
    decomposed, rest, layers = _with_layers(device, fusion, graph, recorded, examples)
    if alike:
        _note_written(device, fusion, graph, examples, written_out(decomposed, rest))
    filled = filled_sequence(device, decomposed, _pairs(device, graph), layers)
    return _scheduled(device, fusion, graph, rest, filled, passing)


@suspended()
def filled_graph(
    device: KernelDevice, fusion: Fusion, graph: Graph, examples: Sequence[Any]
) -> ScheduledPlan | None:
    """The plan of a graph that one for all sizes is filled in for; None if there is none for it.

    The arguments are those of `compile_graph`; the graph may well come once.
    """
    written = _written_out(device, fusion, graph, examples, is_due=False)
    if written is None:
        return None
    family = _family(device, written.form, _pairs(device, graph))
    found = family.found(written.form.numbers, written.constants)
    if found is None:
        return None
    return _scheduled(device, fusion, graph, written.rest, found, passing=True)


def _is_first(device: KernelDevice, fusion: Fusion, graph: Graph, examples: Sequence[Any]) -> bool:
    """Whether a graph of layers is the only one of its form so far. Where it is the second, the
    first one becomes an example for a plan for all sizes."""
    skeleton, numbers = form_of(graph)
    first = first_graphs_of(device).family_of(skeleton, (*_surroundings(), ambient()))
    if first.is_alone(graph, examples, numbers):
        return True
    for other, scalars in first.taken():
        form = form_of(_decomposed(device, fusion, other, scalars)[0])
        _family(device, form, _pairs(device, other)).note(form.numbers)
    return False


def _by_layers(
    device: KernelDevice, fusion: Fusion, graph: Graph, recorded: RecordedLayers,
    examples: Sequence[Any],
) -> tuple[Remainder, FilledSequence] | None:  # fmt: skip
    """The kernels of a graph of layers, which are written again for all of these when passes have
    been over a few; None if that does not go."""
    found = recorded.decomposed(examples, fusion, Legality(device))
    few = _aligned(device, found.graph)
    if device.fixes_numbers and with_numbers_given(few) is not None:
        return None
    try:
        whole, layers = recorded.whole(found._replace(graph=_passed(device, few)))
    except UnlikeError:
        return None
    rest = whole.scalars, tuple(whole.checks), tuple(whole.constants)
    products = recorded.inputs(read_by_products(few))
    sequence = _sequence(device, whole.graph, layers, _pairs(device, graph))
    return Remainder(*rest, products), FilledSequence(sequence)


def _known(device: KernelDevice, graph: Graph) -> tuple[Decompositions, tuple[Any, ...]]:
    """What is known of how graphs like one are decomposed, and that one's numbers."""
    skeleton, numbers = form_of(graph)
    # Bodies are public functions: defaults of dtypes may be part of what they write.
    key = *_surroundings(), ambient()
    return decompositions_of(device).family_of(skeleton, key), numbers


@suspended()
def any_size_plan(
    device: KernelDevice, fusion: Fusion, samples: Sequence[tuple[Graph, Sequence[Any]]]
) -> AnySizePlan | None:
    """The plan of all graphs of one form; None where operations are part of it that the device
    computes itself, outside of executables, or passes cannot do without the sizes.

    Args:
        device: which compiles and runs it.
        fusion: the decorator over the device, for bodies of composites.
        samples: graphs of the form, with their scalars in some run.
    """
    known, last = _known(device, samples[-1][0])
    alike = [form_of(graph).numbers for graph, _ in samples]
    decomposition = known.serving(last)
    if decomposition is None and not known.may_serve:
        return None
    decomposed, rest = _decomposed(device, fusion, *samples[-1])
    last_one = written_out(decomposed, rest)
    if decomposition is None or (known.may_serve and not decomposition.writes(last, last_one)):
        made = _decomposed_for_all(device, fusion, *samples[-1], alike)
        others = [
            (numbers, written_out(*_decomposed(device, fusion, *sample)))
            for numbers, sample in zip(alike[:-1], samples[:-1], strict=True)
            if made is not None and made.at(numbers) is not None
        ]
        known.keep(made, [*others, (last, last_one)])
        decomposition = known.serving(last)
    if decomposition is None or not decomposition.writes(last, last_one):
        return None
    found = [decomposition.at(numbers) for numbers in alike]
    served = [w.form.numbers for w in found if w is not None]
    inside = [*decomposition.nearby(alike[-1]), *served]
    pairs = _pairs(device, samples[-1][0])
    return _for_all_sizes(
        lambda: _any_size_plan(device, decomposition, decomposed, last_one, inside, pairs)
    )


def _any_size_plan(
    device: KernelDevice, decomposition: SymbolicDecomposition, decomposed: Graph,
    written: WrittenOut, alike: Sequence[tuple[Any, ...]], pairs: Donors,
) -> AnySizePlan | None:  # fmt: skip
    general = generalized(decomposed, alike)
    sequence = kernel_sequence(device, general.graph, pairs)
    flags = sequence.graph.outputs[len(sequence.graph.outputs) - len(written.rest.checks) :]
    schedule = laid_out(*device_calls(device, with_early_checks(sequence, flags)))
    if len(schedule.steps) != 1 or isinstance(schedule.steps[0], HostStep):
        return None
    plan = any_size_plan_of(device, decomposition, general, schedule, written.rest)
    # What comes again has a plan of its own, of the same kernels.
    late = LateSequence(plan.serves, lambda: symbolic_sequence(general, sequence))
    _family(device, written.form, pairs).keep(late)
    return plan


def _written_out(
    device: KernelDevice, fusion: Fusion, graph: Graph, examples: Sequence[Any], *,
    is_due: bool = True,
) -> WrittenOut | None:  # fmt: skip
    """A graph in operations that kernels are generated for, as numbers: written out once for all
    of its form, where that goes, else by itself.

    Args:
        device, fusion, graph, examples: as `compile_graph` takes them.
        is_due: whether it is wanted in any case. Else None stands for a graph that the
            decompositions of its form do not hold for: nor do the kernels that came of these.
    """
    known, numbers = _known(device, graph)
    found = known.found(numbers)
    if found is not None:
        return found
    if not is_due and known.serves:
        return None
    written = written_out(*_decomposed(device, fusion, graph, examples))
    _note_written(device, fusion, graph, examples, written)
    return written


def _note_written(
    device: KernelDevice, fusion: Fusion, graph: Graph, examples: Sequence[Any],
    written: WrittenOut,
) -> None:  # fmt: skip
    """Makes a graph that was decomposed by itself an example for a decomposition for all sizes,
    which is made when there are enough."""
    known, numbers = _known(device, graph)
    alike = known.note(numbers, written)
    if alike:
        sizes = [others for others, _ in alike]
        known.keep(_decomposed_for_all(device, fusion, graph, examples, sizes), alike)


def _decomposed_for_all(
    device: KernelDevice, fusion: Fusion, graph: Graph, examples: Sequence[Any],
    alike: Sequence[tuple[Any, ...]],
) -> SymbolicDecomposition | None:  # fmt: skip
    """The decomposition of all graphs of a form, by the numbers of some; None where bodies do not
    work on symbols. They may be anybody's, and raise what they like."""
    try:
        general = generalized(graph, alike, apart=True)
        decomposed, rest = _decomposed(device, fusion, general.graph, examples)
    except Exception as error:
        if is_from_outside(error):
            raise
        return None
    return symbolic_decomposition(general, decomposed, rest)


def _decomposed(
    device: KernelDevice, fusion: Fusion, graph: Graph, examples: Sequence[Any]
) -> tuple[Graph, Remainder]:
    """The graph in operations that kernels are generated for, and what else a plan takes of it."""
    recorded = recorded_layers(graph, Legality(device))
    return _with_layers(device, fusion, graph, recorded, examples)[:2]


def _with_layers(
    device: KernelDevice, fusion: Fusion, graph: Graph, recorded: RecordedLayers | None,
    examples: Sequence[Any],
) -> tuple[Graph, Remainder, Layers | None]:  # fmt: skip
    """The same, and the layers of the graph, if it is known to have many."""
    given = graph, recorded, examples, fusion, Legality(device)
    found, layers = decomposed_by_layers(*given, partial(_aligned, device))
    rest = found.scalars, tuple(found.checks), tuple(found.constants)
    return found.graph, Remainder(*rest, read_by_products(found.graph)), layers


def _aligned(device: KernelDevice, graph: Graph) -> Graph:
    return with_aligned_rows(graph) if device.aligns_rows else graph


def _pairs(device: KernelDevice, graph: Graph) -> Donors:
    """Inputs and outputs that may share memory on a device."""
    return graph.donors if device.writes_over else ()


def _family(device: KernelDevice, form: Form, pairs: Donors) -> Family:
    """Graphs like a decomposed one, whatever their sizes; kernels depend on what may share memory,
    too."""
    return families_of(device).family_of(form.skeleton, (pairs, *_surroundings()))


def _surroundings() -> tuple[Any, ...]:
    """What passes depend on besides the graph: the promise of bits, what others have registered."""
    return is_exact(), registrations()


def _scheduled(
    device: KernelDevice, fusion: Fusion, graph: Graph, rest: Remainder, filled: FilledSequence,
    passing: bool,
) -> ScheduledPlan:  # fmt: skip
    """The plan of a graph whose kernels are known."""
    scalars = rest.scalars
    if filled.sources is not None:
        scalars = scalars.taking(filled.sources, filled.constants)
    flags = filled.sequence.graph.outputs[len(graph.outputs) :]
    sequence = joined_in_place(filled.sequence)
    if device.joins_maps:
        sequence = joined_maps(sequence)
    if device.joins_launches:
        sequence = with_neighbours(sequence, device.joined_operations)
        sequence = side_by_side(sequence, {sequence.views.of(f).root for f in flags})
    sequence = with_early_checks(sequence, flags)
    schedule = laid_out(
        *device_calls(device, sequence), joins_launches=device.joins_launches,
        workspace=getattr(device, "workspace_of", None),
        beside=device.calls_beside,
    )  # fmt: skip
    donations = donors(schedule, _pairs(device, graph), flags)
    schedule.steps = cut(schedule, donations, flags, waits=checks_of(device) is None)
    data = plan_data_of(
        device, schedule, scalars, [device.in_order(h) for h in rest.tensors],
        [(check.text, check.node) for check in rest.checks], donations.taken,
        tuple([i for i in rest.products if i < len(graph.inputs)]),
    )  # fmt: skip
    operations = host_ops(device, fusion, data.steps, graph)
    return ScheduledPlan(device, data, operations, schedule, passing, graph.lines)


def filled_sequence(
    device: KernelDevice, graph: Graph, pairs: Donors, layers: Layers | None = None
) -> FilledSequence:
    """The kernels of a decomposed graph: those of one for all sizes, or of its sizes alone.

    The arguments are those of `kernel_sequence`.
    """
    form, constants = form_of(graph), constants_of(graph)
    family, numbers = _family(device, form, pairs), form.numbers
    found = family.found(numbers, constants)
    if found is not None:
        return found
    examples = family.worth_a_symbol(numbers)
    general = _general(device, graph, pairs, examples) if examples else None
    if general is None:
        given = with_numbers_given(graph) if device.fixes_numbers else None
        if given is None:
            return FilledSequence(kernel_sequence(device, graph, pairs, layers))
        return FilledSequence(kernel_sequence(device, given.graph, pairs), given.sources, constants)
    family.keep(general)
    found = general.at(numbers, constants)
    assert found is not None, "the example answers like itself"
    return found


def _general(
    device: KernelDevice, graph: Graph, pairs: Donors, examples: Sequence[tuple[Any, ...]]
) -> SymbolicSequence | None:
    """The kernels for all sizes, if they can be made."""

    def sequence() -> SymbolicSequence:
        symbolic = generalized(graph, examples)
        return symbolic_sequence(symbolic, kernel_sequence(device, symbolic.graph, pairs))

    return _for_all_sizes(sequence)


def _for_all_sizes(make: Callable[[], T]) -> T | None:
    """What is made of symbols, or a warning that a pass can do with numbers only."""
    try:
        return make()
    except Exception as error:
        if is_from_outside(error):
            raise
        warn(
            f"no plan could be made for all sizes at once, so each gets its own: "
            f"{type(error).__name__}: {error}; please report it",
            PlanWarning,
        )
        return None


def kernel_sequence(
    device: KernelDevice, graph: Graph, pairs: Donors, layers: Layers | None = None
) -> KernelSequence:
    """The kernels of a decomposed graph, in order.

    Args:
        device: says which operations kernels are generated for.
        graph: without composites.
        pairs: inputs and outputs that may share memory.
        layers: of the graph, if it is known to have many.
    """
    return _sequence(device, *by_layers(graph, layers, partial(_passed, device)), pairs)


def _passed(device: KernelDevice, graph: Graph) -> Graph:
    """A decomposed graph behind the passes that may go over a few of its layers."""
    new = with_split_rows(with_concat_of_pads(simplify(graph)))
    # Rows of a sum's pieces are widened as other readers do.
    return simplify(new) if device.splits_sums else new


def _sequence(
    device: KernelDevice, graph: Graph, layers: Layers | None, pairs: Donors
) -> KernelSequence:
    """The kernels of a graph behind these passes; arguments are those of `kernel_sequence`."""
    is_of_numbers = type(graph) is Graph
    before = graph
    if is_of_numbers:
        graph = with_late_copies(graph, device)
    if checks_of(device) is not None:
        graph = with_checks_apart(graph)
    # Kernels for all sizes alike have been compiled for the sizes that came before, all but a few.
    begin = device.begin_compiling if beside() and is_of_numbers else None
    known = layers if graph is before else None
    return Scheduler(graph, Legality(device), pairs, begin, known).sequence()
