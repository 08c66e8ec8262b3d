"""One step of each recurrence, as functions of what the input gave and the state before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError, OperandError

Step: TypeAlias = Callable[
    [Tensor, tuple[Tensor, ...], TensorLike, "TensorLike | None", "TensorLike | None"],
    tuple[Tensor, ...],
]
"""From the input's products, the state, weight_hh, bias_hh and weight_hr to the next state."""


def _elman(activation: Callable[[Tensor], Tensor]) -> Step:
    def step(
        given: Tensor, state: tuple[Tensor, ...], weight: TensorLike, bias: TensorLike | None,
        project: TensorLike | None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        return (activation(given + it.linear(state[0], weight, bias)),)

    return step


ELMAN: dict[str, Step] = {"tanh": _elman(it.tanh), "relu": _elman(it.relu)}


def known_activation(name: str, nonlinearity: str) -> str:
    """The nonlinearity, if it is one of an Elman network."""
    if nonlinearity not in ELMAN:
        raise ArgumentError(
            f"{name}: nonlinearity must be {' or '.join(map(repr, ELMAN))}, got {nonlinearity!r}"
        )
    return nonlinearity


def given_states(name: str, labels: Sequence[str], hx: Any) -> Sequence[Any]:
    """The states that a layer is called with, one for each of its labels."""
    given = (hx,) if len(labels) == 1 else hx
    if not isinstance(given, (tuple, list)) or len(given) != len(labels):
        raise OperandError(
            f"{name}: the state must be a pair ({', '.join(labels)}), got {type(hx).__name__}"
        )
    return given


def lstm(
    given: Tensor, state: tuple[Tensor, ...], weight: TensorLike, bias: TensorLike | None,
    project: TensorLike | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Input, forget, cell and output gates, in this order."""
    h, c = state
    i, f, g, o = it.split(given + it.linear(h, weight, bias), c.shape[-1], axis=-1)
    c = it.sigmoid(f) * c + it.sigmoid(i) * it.tanh(g)
    h = it.sigmoid(o) * it.tanh(c)
    return (h if project is None else it.linear(h, project)), c


def gru(
    given: Tensor, state: tuple[Tensor, ...], weight: TensorLike, bias: TensorLike | None,
    project: TensorLike | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Reset, update and new gates, in this order."""
    (h,) = state
    width = h.shape[-1]
    r_in, z_in, n_in = it.split(given, width, axis=-1)
    r_of, z_of, n_of = it.split(it.linear(h, weight, bias), width, axis=-1)
    z = it.sigmoid(z_in + z_of)
    n = it.tanh(n_in + it.sigmoid(r_in + r_of) * n_of)
    return (n + z * (h - n),)


REMEMBERED = frozenset({lstm, gru, *ELMAN.values()})
"""Steps that depend on their arguments alone, so that layers of them are traced once."""
