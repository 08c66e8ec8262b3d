"""Checks of indices come as early as what they read is known.

A plan writes over its inputs behind its last check alone. The gradient of an embedding checks its
indices again, in the last kernels of a training step: where it was recorded, hardly a weight could
be updated in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .schedule import Call, HostStep, KernelSequence, arguments_of


def with_early_checks(sequence: KernelSequence, flags: Sequence[int]) -> KernelSequence:
    """The calls with those that only checks need right behind the last that they depend on.

    Args:
        sequence: whose order is legal.
        flags: values that say after a run whether it has failed.
    """
    _, views, calls, _ = sequence
    wanted = {views.of(f).root for f in flags}
    checks = _only_for(sequence, wanted)
    if not checks:
        return sequence
    written: dict[int, tuple[int, int]] = {}
    places: list[tuple[int, int]] = []
    for number, call in enumerate(calls):
        place = number, -1
        if number in checks:
            behind = [written.get(root, (-1, -1)) for root, output in _touched(sequence, call)
                      if not output]  # fmt: skip
            place = max(behind, default=(-1, -1))[0], number
        places.append(place)
        for root, output in _touched(sequence, call):
            if output:
                written[root] = max(place, written.get(root, place))
    order = sorted(range(len(calls)), key=places.__getitem__)
    return sequence._replace(calls=[calls[n] for n in order])


def _only_for(sequence: KernelSequence, wanted: set[int]) -> set[int]:
    """The numbers of kernels whose results nobody but these values needs."""
    others = {sequence.views.of(o).root for o in sequence.graph.outputs} - wanted
    found: set[int] = set()
    for number in reversed(range(len(sequence.calls))):
        call = sequence.calls[number]
        touched = list(_touched(sequence, call))
        made = {root for root, output in touched if output}
        if isinstance(call, HostStep) or others & made:
            others.update(root for root, _ in touched)
        else:
            found.add(number)
    return found


def _touched(sequence: KernelSequence, call: Call | HostStep) -> Iterator[tuple[int, bool]]:
    """The roots that a call reads or writes, and whether it writes them."""
    if isinstance(call, HostStep):
        node = sequence.graph.nodes[call.position]
        yield from [(sequence.views.of(a).root, False) for a in node.args]
        yield from [(r, True) for r in node.results]
    else:
        yield from [(a.root, a.output) for a in arguments_of(call)]
