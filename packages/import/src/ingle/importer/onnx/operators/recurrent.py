"""RNN, GRU and LSTM: one or both directions, any activations, sequences of different lengths."""

from __future__ import annotations

from collections.abc import Callable

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.programs import loops_once

from ...errors import ModelError
from ..registry import operator
from .movement import reverse_sequence

Function = Callable[[Tensor], Tensor]
Step = Callable[[tuple[Tensor, ...], Tensor], tuple[Tensor, ...]]
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def _activation(name: str, alpha: float | None, beta: float | None) -> Function:
    def given(a: float, b: float = 0.0) -> tuple[float, float]:
        return (a if alpha is None else alpha), (b if beta is None else beta)

    key = name.lower()
    plain: dict[str, Function] = {
        "relu": it.relu, "tanh": it.tanh, "sigmoid": it.sigmoid, "softsign": it.softsign,
        "softplus": it.softplus,
    }  # fmt: skip
    if key in plain:
        return plain[key]
    if key == "affine":
        a, b = given(1.0)
        return lambda x: a * x + b
    if key == "leakyrelu":
        a, _ = given(0.01)
        return lambda x: it.leaky_relu(x, a)
    if key == "thresholdedrelu":
        a, _ = given(1.0)
        return lambda x: it.where(x > a, x, it.zeros_like(x))
    if key == "scaledtanh":
        a, b = given(1.0, 1.0)
        return lambda x: a * it.tanh(b * x)
    if key == "hardsigmoid":
        a, b = given(0.2, 0.5)
        return lambda x: it.clip(a * x + b, 0.0, 1.0)
    if key == "elu":
        a, _ = given(1.0)
        return lambda x: it.elu(x, a)
    raise ModelError(f"the activation {name!r} is none of ONNX's")


class _Functions:
    """The activations of all directions, with a limit on what goes in."""

    def __init__(
        self, names: list[str] | None, default: list[str], directions: int,
        alphas: list[float] | None, betas: list[float] | None, clip: float | None,
    ) -> None:  # fmt: skip
        chosen = names or default * directions
        if len(chosen) != len(default) * directions:
            raise ModelError(f"{len(chosen)} activations, expected {len(default) * directions}")
        a, b = list(alphas or []), list(betas or [])
        self._each = len(default)
        made = []
        for i, name in enumerate(chosen):
            function = _activation(name, a[i] if i < len(a) else None, b[i] if i < len(b) else None)
            made.append(_clipped(function, clip))
        self._made = made

    def of(self, direction: int) -> list[Function]:
        return self._made[direction * self._each : (direction + 1) * self._each]


def _clipped(function: Function, limit: float | None) -> Function:
    if limit is None:
        return function
    return lambda x: function(it.clip(x, -limit, limit))


def _run(
    x: Tensor, state: tuple[Tensor, ...], step: Step, lengths: Tensor | None, backward: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """All outputs and the last state of one direction over [steps, batch, gates]."""
    if backward:
        x = it.flip(x, axis=0) if lengths is None else reverse_sequence(x, lengths)
    if lengths is None:

        def walk(carry: tuple[Tensor, ...], one: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
            new = step(carry, one)
            return new, new[0]

        with loops_once():
            last, outputs = it.scan(walk, state, x)
    else:
        ends = it.expand_dims(lengths.astype(it.int64), 1)

        def until(
            carry: tuple[Tensor, ...], one: tuple[Tensor, Tensor]
        ) -> tuple[tuple[Tensor, ...], Tensor]:
            new, going = step(carry, one[0]), one[1] < ends
            kept = tuple(it.where(going, a, b) for a, b in zip(new, carry, strict=True))
            return kept, it.where(going, new[0], it.zeros_like(new[0]))

        steps = it.arange(x.shape[0], dtype=it.int64, device=x.device)
        with loops_once():
            last, outputs = it.scan(until, state, (x, steps))
    if backward:
        outputs = (
            it.flip(outputs, axis=0) if lengths is None else reverse_sequence(outputs, lengths)
        )
    return outputs, tuple(last)


def _directions(direction: str) -> tuple[bool, ...]:
    if direction not in DIRECTIONS:
        raise ModelError(f"direction must be one of {', '.join(DIRECTIONS)}, got {direction!r}")
    return DIRECTIONS[direction]


def _first(state: Tensor | None, x: Tensor, count: int, hidden: int, layout: int) -> Tensor:
    if state is None:
        return it.zeros((count, x.shape[1], hidden), dtype=x.dtype, device=x.device)
    return it.swapaxes(state, 0, 1) if layout else state


def _together(
    outputs: list[Tensor], states: list[tuple[Tensor, ...]], layout: int
) -> tuple[Tensor, ...]:
    """[steps, directions, batch, hidden], or batch first, and each state of all directions."""
    y = it.stack(outputs, axis=1)
    last = [it.stack(parts) for parts in zip(*states, strict=True)]
    if layout:
        y = it.permute_dims(y, (2, 0, 1, 3))
        last = [it.swapaxes(s, 0, 1) for s in last]
    return (y, *last)


@operator("RNN")
def rnn(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    initial_h: Tensor | None = None, *, activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None, activations: list[str] | None = None,
    clip: float | None = None, direction: str = "forward", hidden_size: int | None = None,
    layout: int = 0, output_sequence: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Elman's network."""
    ways, hidden = _directions(direction), r.shape[-1]
    x = it.swapaxes(x, 0, 1) if layout else x
    functions = _Functions(
        activations, ["Tanh"], len(ways), activation_alpha, activation_beta, clip
    )
    h = _first(initial_h, x, len(ways), hidden, layout)
    outputs, states = [], []
    for d, backward in enumerate(ways):
        (f,), rt = functions.of(d), r[d].mT
        gates = it.matmul(x, w[d].mT)
        if b is not None:
            gates = gates + (b[d, :hidden] + b[d, hidden:])

        def step(
            s: tuple[Tensor, ...], one: Tensor, f: Function = f, rt: Tensor = rt
        ) -> tuple[Tensor, ...]:
            return (f(one + it.matmul(s[0], rt)),)

        y, last = _run(gates, (h[d],), step, lengths, backward)
        outputs.append(y)
        states.append(last)
    return _together(outputs, states, layout)


@operator("GRU")
def gru(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    initial_h: Tensor | None = None, *, activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None, activations: list[str] | None = None,
    clip: float | None = None, direction: str = "forward", hidden_size: int | None = None,
    layout: int = 0, linear_before_reset: int = 0, output_sequence: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Gated recurrent units; gates are in the order update, reset, hidden."""
    ways, n = _directions(direction), r.shape[-1]
    x = it.swapaxes(x, 0, 1) if layout else x
    functions = _Functions(
        activations, ["Sigmoid", "Tanh"], len(ways), activation_alpha, activation_beta, clip
    )
    h = _first(initial_h, x, len(ways), n, layout)
    outputs, states = [], []
    for d, backward in enumerate(ways):
        f, g = functions.of(d)
        rd = r[d]
        wb = it.zeros(3 * n, dtype=x.dtype, device=x.device) if b is None else b[d, : 3 * n]
        rb = it.zeros(3 * n, dtype=x.dtype, device=x.device) if b is None else b[d, 3 * n :]

        def step(
            s: tuple[Tensor, ...], one: Tensor, f: Function = f, g: Function = g, rd: Tensor = rd,
            rb: Tensor = rb,
        ) -> tuple[Tensor, ...]:  # fmt: skip
            (state,) = s
            zr = one[:, : 2 * n] + it.matmul(state, rd[: 2 * n].mT) + rb[: 2 * n]
            z, reset = f(zr[:, :n]), f(zr[:, n:])
            if linear_before_reset:
                inner = reset * (it.matmul(state, rd[2 * n :].mT) + rb[2 * n :])
            else:
                inner = it.matmul(reset * state, rd[2 * n :].mT) + rb[2 * n :]
            new = g(one[:, 2 * n :] + inner)
            return ((1 - z) * new + z * state,)

        y, last = _run(it.matmul(x, w[d].mT) + wb, (h[d],), step, lengths, backward)
        outputs.append(y)
        states.append(last)
    return _together(outputs, states, layout)


@operator("LSTM")
def lstm(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    initial_h: Tensor | None = None, initial_c: Tensor | None = None, p: Tensor | None = None, *,
    activation_alpha: list[float] | None = None, activation_beta: list[float] | None = None,
    activations: list[str] | None = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int | None = None, input_forget: int = 0, layout: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Long short-term memory; gates are in the order input, output, forget, cell."""
    ways, n = _directions(direction), r.shape[-1]
    x = it.swapaxes(x, 0, 1) if layout else x
    functions = _Functions(
        activations, ["Sigmoid", "Tanh", "Tanh"], len(ways), activation_alpha, activation_beta, clip
    )
    h = _first(initial_h, x, len(ways), n, layout)
    c = _first(initial_c, x, len(ways), n, layout)
    outputs, states = [], []
    for d, backward in enumerate(ways):
        f, g, k = functions.of(d)
        rt = r[d].mT
        peep = it.zeros(3 * n, dtype=x.dtype, device=x.device) if p is None else p[d]
        gates = it.matmul(x, w[d].mT)
        if b is not None:
            gates = gates + (b[d, : 4 * n] + b[d, 4 * n :])

        def step(
            s: tuple[Tensor, ...], one: Tensor, f: Function = f, g: Function = g, k: Function = k,
            rt: Tensor = rt, peep: Tensor = peep,
        ) -> tuple[Tensor, ...]:  # fmt: skip
            state, cell = s
            total = one + it.matmul(state, rt)
            enter = f(total[:, :n] + peep[:n] * cell)
            forget = (
                1 - enter if input_forget else f(total[:, 2 * n : 3 * n] + peep[2 * n :] * cell)
            )
            new = forget * cell + enter * g(total[:, 3 * n :])
            leave = f(total[:, n : 2 * n] + peep[n : 2 * n] * new)
            return leave * k(new), new

        y, last = _run(gates, (h[d], c[d]), step, lengths, backward)
        outputs.append(y)
        states.append(last)
    return _together(outputs, states, layout)
