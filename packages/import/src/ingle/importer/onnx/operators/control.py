"""Branches and loops, whose bodies are graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

import ingle.tensor as it
from ingle.tensor import Device, Tensor
from ingle.tensor.errors import TraceError

from ..registry import operator
from ..values import Array, Host, Value, device_of, host, namespace, tensor, unknown

if TYPE_CHECKING:
    from ..calling import WrittenBody
    from ..running import Body as GraphBody

    Body: TypeAlias = GraphBody | WrittenBody


@operator("If")
def if_(condition: Value, *, then_branch: Body, else_branch: Body) -> tuple[Value, ...]:
    """One of two graphs.

    Where the condition has no value yet, since the model is being recorded, both become part of
    what is recorded, and each run takes one.
    """
    if unknown(condition):
        where = condition.device
        return tuple(
            it.cond(
                it.reshape(condition, ()),
                lambda: [tensor(v, where) for v in then_branch()],
                lambda: [tensor(v, where) for v in else_branch()],
            )
        )
    return tuple(then_branch() if _holds(condition) else else_branch())


@operator("Loop")
def loop(
    most: Value, condition: Value, *state: Value, body: Body, outputs: int,
    device: Device | None,
) -> tuple[Value, ...]:  # fmt: skip
    """A graph again and again, as often as is said or until its condition fails.

    What it carries comes first among the results, then what its steps gave, stacked.
    """
    if unknown(most):
        return _recorded_loop(most, condition, state, body, device)
    carried = list(state)
    limit = None if most is None else int(host(most).reshape(-1)[0])
    count = len(carried)
    steps: list[list[Value]] = []
    going: Value = condition
    while limit is None or len(steps) < limit:
        if unknown(going):
            return _recorded_loop(limit, condition, state, body, device)
        if not _holds(going):
            break
        results = body(np.asarray(len(steps), np.int64), _flag(going), *carried)
        going, carried = results[0], results[1 : count + 1]
        steps.append(results[count + 1 :])
    stacked = [
        _stacked([step[i] for step in steps], body, 1 + count + i, device)
        for i in range(outputs - count)
    ]
    return (*carried, *stacked)


def _holds(condition: Value) -> bool:
    return condition is None or bool(host(condition).reshape(-1)[0])


def _flag(condition: Value) -> Value:
    return np.asarray(True) if condition is None else condition


def _recorded_loop(
    limit: int | Tensor | None,
    condition: Value,
    state: tuple[Value, ...],
    body: Body,
    device: Device | None,
) -> tuple[Value, ...]:
    """As a loop of the recording, for bodies whose condition depends on what they compute."""
    where = device_of(state) or device
    first = [
        tensor(np.asarray(0, np.int64), where),
        it.reshape(tensor(_flag(condition), where), ()),
        *(tensor(v, where) for v in state),
    ]

    number = it.reshape(limit, ()) if isinstance(limit, Tensor) else limit

    def step(values: list[Tensor]) -> list[Tensor]:
        results = body(values[0], values[1], *values[2:])
        if len(results) > len(values) - 1:
            raise TraceError(
                "a Loop whose number of steps depends on values gives results of unknown size; run "
                "the model without compile"
            )
        going = it.reshape(tensor(results[0], where), ())
        return [values[0] + 1, going, *(tensor(v, where) for v in results[1:])]

    def goes_on(values: list[Tensor]) -> Tensor:
        return values[1] if limit is None else it.logical_and(values[1], values[0] < number)

    return tuple(it.while_loop(goes_on, step, first)[2:])


def _stacked(parts: list[Value], body: Body, at: int, device: Device | None) -> Value:
    if not parts:
        port = body.outputs[at]
        shape = [n if isinstance(n, int) else 0 for n in port.shape or ()]
        return np.zeros((0, *shape), port.dtype or np.float32)
    where = device_of(parts)
    xp = namespace(*parts)
    if where is not None:
        parts = [tensor(p, where) for p in parts]
    return xp.stack(parts)


@operator("Scan", 9)
def scan(
    *values: Array, body: Body, num_scan_inputs: int,
    scan_input_axes: list[int] | None = None, scan_input_directions: list[int] | None = None,
    scan_output_axes: list[int] | None = None, scan_output_directions: list[int] | None = None,
) -> tuple[Value, ...]:  # fmt: skip
    """A graph for each slice of its last inputs; it hands a state on and stacks what it gives."""
    split = len(values) - num_scan_inputs
    state, sequences = list(values[:split]), list(values[split:])
    axes = scan_input_axes or [0] * num_scan_inputs
    backward = scan_input_directions or [0] * num_scan_inputs
    length = sequences[0].shape[axes[0]]
    slices = [
        _slices(x, axis, bool(back))
        for x, axis, back in zip(sequences, axes, backward, strict=True)
    ]
    given: list[list[Value]] = []
    for i in range(length):
        results = body(*state, *(parts[i] for parts in slices))
        state = results[:split]
        given.append(results[split:])
    count = len(body.outputs) - split
    out_axes = scan_output_axes or [0] * count
    out_backward = scan_output_directions or [0] * count
    stacked = []
    for i in range(count):
        parts = [step[i] for step in given]
        parts = parts[::-1] if out_backward[i] else parts
        where = device_of(parts)
        parts = parts if where is None else [tensor(p, where) for p in parts]
        stacked.append(namespace(*parts).stack(parts, axis=out_axes[i]))
    return (*state, *stacked)


def _slices(x: Array, axis: int, backward: bool) -> list[Array]:
    key = (slice(None),) * (axis % x.ndim)
    order = range(x.shape[axis])
    return [x[(*key, i)] for i in (reversed(order) if backward else order)]


@operator("Scan", 8)
def scan_before_9(
    lengths: Host | None, *values: Array, body: Body, num_scan_inputs: int,
    directions: list[int] | None = None,
) -> tuple[Value, ...]:  # fmt: skip
    """With a batch in front of everything, each of which is scanned."""
    results = []
    for b in range(values[0].shape[0]):
        one = [v[b] for v in values]
        split = len(one) - num_scan_inputs
        if lengths is not None:
            one[split:] = [v[: int(lengths[b])] for v in one[split:]]
        results.append(
            scan(*one, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=directions)
        )
    return tuple(namespace(*parts).stack(list(parts)) for parts in zip(*results, strict=True))
