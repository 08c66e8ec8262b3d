"""One operation for the updates of many parameters, where operations are recorded."""

from __future__ import annotations

from collections.abc import Sequence

from ingle.tensor import Tensor
from ingle.tensor.contract import Aval, Handle, Scalar
from ingle.tensor.control.calling import region
from ingle.tensor.dispatch import run, wrap
from ingle.tensor.operation import Op, infer
from ingle.tensor.programs import Program, Step

from .counts import numbers_of
from .slots import Slot, operands_of

_regions: dict[object, Op] = {}
_LIMIT = 1024


def batched(
    op: Op, operands: Sequence[Sequence[Tensor]], numbers: Sequence[float]
) -> list[tuple[Tensor, ...]]:
    """The results of an operation on each of some groups of tensors, with the same numbers.

    Args:
        op: takes the tensors of a group, then the numbers.
        operands: groups of equally many tensors, all of one dtype and device.
        numbers: are typed to the tensors.

    >>> import ingle.tensor as it
    >>> add = it.operation.OPERATIONS["add"].op()
    >>> [y.item() for y, in batched(add, [[it.asarray(1.0)], [it.asarray(2.0)]], [0.5])]
    [1.5, 2.5]
    """
    handles = [x._handle for group in operands for x in group]
    dtype = handles[0].dtype
    scalars = [Scalar(n, dtype) for n in numbers]
    backend = handles[0].backend
    writes_down = hasattr(backend, "defers")
    if not writes_down or any([h.backend is not backend for h in handles]):  # noqa: C419 (faster)
        return [run(op, [*[x._handle for x in group], *scalars]) for group in operands]
    key = (op, len(operands), tuple([h.shape for h in handles]), dtype)
    found = _regions.get(key)
    if found is None:
        if len(_regions) >= _LIMIT:
            _regions.clear()
        found = _regions[key] = _region(op, len(operands), handles, scalars)
    results = list(map(wrap, backend.execute(found, [*handles, *scalars])))
    each = len(results) // len(operands)
    return [tuple(results[i : i + each]) for i in range(0, len(results), each)]


def batched_update(
    op: Op,
    updates: Sequence[tuple[Slot, Tensor]],
    moments: Sequence[str],
    numbers: Sequence[float],
) -> None:
    """Gives parameters and their moments new values by one operation.

    Args:
        op: takes a parameter's value, its gradient, its moments and the numbers, and returns the
            value and the moments.
        updates: parameters with their gradients, alike as `alike` finds them.
        moments: their names.
        numbers: are typed to the tensors.
    """
    read = operands_of([slot for slot, _ in updates], moments)
    operands = [
        (value, grad, *held) for (value, _, held), (_, grad) in zip(read, updates, strict=True)
    ]
    found = batched(op, operands, numbers)
    for (slot, _), (_, cells, _), (value, *new) in zip(updates, read, found, strict=True):
        # All of the shapes that they were read with; only a parameter may be of another dtype.
        slot.parameter.rebind(slot.rounded(value))
        for cell, moment in zip(cells, new, strict=True):
            cell.rebind(moment)


def _region(op: Op, groups: int, handles: Sequence[Handle], scalars: Sequence[Scalar]) -> Op:
    """The operations on all groups as one, on the tensors of all groups and then the numbers."""
    avals = [Aval(x.shape, x.dtype) for x in handles] + [Aval((), x.dtype) for x in scalars]
    each = len(handles) // groups
    shared = tuple(range(len(handles), len(avals)))
    steps: list[Step] = []
    outputs: list[int] = []
    for first in range(0, len(handles), each):
        taken = (*range(first, first + each), *shared)
        results = len(infer(op, [avals[i] for i in taken]))
        begin = len(avals) + len(outputs)
        steps.append(Step(op, taken, results))
        outputs.extend(range(begin, begin + results))
    return region(Program.of(avals, steps, outputs), op.operation.name)


def alike(updates: Sequence[tuple[Slot, Tensor]]) -> list[tuple[int, list[tuple[Slot, Tensor]]]]:
    """Parameters with their gradients, by how many steps they had, by dtype and by device."""
    parts: dict[object, tuple[int, list[tuple[Slot, Tensor]]]] = {}
    counted = numbers_of([slot.steps for slot, _ in updates])
    for (slot, grad), steps in zip(updates, counted, strict=True):
        # A number that is followed is told from others by who it is.
        key = (steps if type(steps) is int else id(steps), grad.dtype, grad.backend)
        parts.setdefault(key, (steps, []))[1].append((slot, grad))
    return list(parts.values())
