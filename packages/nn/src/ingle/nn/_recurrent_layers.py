"""Recurrent layers in a row, as a function of tensors alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.control.known_calls import call_known
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.programs import loops_once

from ._recurrences import REMEMBERED, Step

State = tuple[Tensor, ...]
KINDS = ("weight_ih", "bias_ih", "weight_hh", "bias_hh", "weight_hr")
"""Of the parameters of one direction of a layer."""
Between = Callable[[Tensor], Tensor]


class Layers(NamedTuple):
    """What layers are besides their tensors.

    Attributes:
        step: of the recurrence.
        name: of the module's class.
        ways: how many directions each layer has.
        present: for each layer and direction, which of `KINDS` it has.
        inputs: the size of the last axis of the sequence.
        widths: of the states.
        stated: whether first states are given; they are zeros otherwise.
        masked: whether it is told which steps there are.
        batched, batch_first: how the axes of what comes and goes are ordered.
    """

    step: Step
    name: str
    ways: int
    present: tuple[tuple[bool, ...], ...]
    inputs: int
    widths: tuple[int, ...]
    stated: bool
    masked: bool
    batched: bool
    batch_first: bool


def through(layers: Layers, given: Sequence[TensorLike], between: Between | None) -> State:
    """The outputs of the last layer, and the last states of all layers and directions.

    Args:
        layers: what they are.
        given: the sequence, the first states if there are any, the mask if there is one, and the
            parameters that are present, in the order of `KINDS`, of each direction.
        between: from the outputs of a layer to what the next one reads; None for themselves.
    """
    if between is None and layers.step in REMEMBERED:
        return call_known(_of_tensors, layers, given, layers.name)
    return _run(layers, list(map(it.asarray, given)), between)


def _of_tensors(layers: Layers, *given: Tensor) -> State:
    return _run(layers, given, None)


def _run(layers: Layers, given: Sequence[Tensor], between: Between | None) -> State:
    rest = iter(given)
    x = next(rest)
    if not layers.batched:
        x = it.expand_dims(x, axis=1)
    elif layers.batch_first:
        x = it.swapaxes(x, 0, 1)
    first = _first(layers, x, rest)
    kept = next(rest) if layers.masked else None
    finals: list[State] = []
    for i in range(0, len(layers.present), layers.ways):
        if i and between is not None:
            x = between(x)
        outs = []
        for j in range(i, i + layers.ways):
            own = [next(rest) if there else None for there in layers.present[j]]
            out, last = _direction(layers.step, x, first[j], own, kept, j > i)
            outs.append(out)
            finals.append(last)
        x = outs[0] if layers.ways == 1 else it.concat(outs, axis=-1)
    lasts = [it.stack(parts, axis=0) for parts in zip(*finals, strict=True)]
    if not layers.batched:
        return (it.squeeze(x, 1), *[it.squeeze(s, 1) for s in lasts])
    return (it.swapaxes(x, 0, 1) if layers.batch_first else x, *lasts)


def _first(layers: Layers, x: Tensor, rest: Iterator[Tensor]) -> list[State]:
    """The first states of each layer and direction."""
    if not layers.stated:
        own = tuple([
            it.zeros((x.shape[1], width), dtype=x.dtype, device=x.device) for width in layers.widths
        ])  # fmt: skip
        return [own] * len(layers.present)
    states = [next(rest) for _ in layers.widths]
    if not layers.batched:
        states = [it.expand_dims(s, axis=1) for s in states]
    return [tuple([s[j] for s in states]) for j in range(len(layers.present))]


def _direction(
    recur: Step,
    x: Tensor,
    state: State,
    own: Sequence[Tensor | None],
    kept: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, State]:
    """The outputs and the last state of one direction of a layer."""
    inputs, of_inputs, weight, bias, project = own
    assert inputs is not None
    assert weight is not None
    given = it.linear(x, inputs, of_inputs)

    def step(before: State, now: Tensor | tuple[Tensor, Tensor]) -> tuple[State, Tensor]:
        gates, goes_on = now if isinstance(now, tuple) else (now, None)
        after = recur(gates, before, weight, bias, project)
        if goes_on is not None:
            pairs = zip(after, before, strict=True)
            after = tuple([it.where(goes_on, new, old) for new, old in pairs])
        return after, after[0]

    slices = given if kept is None else (given, kept)
    with loops_once():
        last, out = it.scan(step, state, slices, reverse=reverse)
    return out, last
