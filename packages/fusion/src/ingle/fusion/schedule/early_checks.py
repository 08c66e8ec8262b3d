"""Checks of indices, moved to where what they read is first known.

A plan writes over its inputs behind its last check alone. The gradient of an embedding checks its
indices again, in the last kernels of a training step: where it was recorded, hardly a weight could
be updated in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from .schedule import HostStep, KernelSequence, touched


def with_early_checks(sequence: KernelSequence, flags: Sequence[int]) -> KernelSequence:
    """The calls with those that only checks need right behind the last that they depend on.

    Args:
        sequence: whose order is legal.
        flags: values that say after a run whether it has failed.
    """
    graph, views, calls, _ = sequence
    wanted = {views.of(f).root for f in flags}
    operands = [touched(graph, views, call) for call in calls]
    checks = _only_for(sequence, operands, wanted)
    if not checks:
        return sequence
    written: dict[int, tuple[int, int]] = {}
    places: list[tuple[int, int]] = []
    for number, roots in enumerate(operands):
        place = number, -1
        if number in checks:
            behind = [written.get(r, (-1, -1)) for r, made in roots if not made]
            place = max(behind, default=(-1, -1))[0], number
        places.append(place)
        for root, made in roots:
            if made:
                written[root] = max(place, written.get(root, place))
    order = sorted(range(len(calls)), key=places.__getitem__)
    return sequence._replace(calls=[calls[n] for n in order])


def _only_for(
    sequence: KernelSequence, operands: Sequence[list[tuple[int, bool]]], wanted: set[int]
) -> set[int]:
    """The numbers of kernels whose results nobody but these values needs."""
    others = {sequence.views.of(o).root for o in sequence.graph.outputs} - wanted
    found: set[int] = set()
    for number in reversed(range(len(sequence.calls))):
        made = {root for root, output in operands[number] if output}
        if isinstance(sequence.calls[number], HostStep) or others & made:
            others.update(root for root, _ in operands[number])
        else:
            found.add(number)
    return found
