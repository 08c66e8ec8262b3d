"""Single steps of the recurrent layers."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import ingle.tensor as it
from ingle.tensor import Device, Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ShapeError
from ingle.tensor.random import Generator

from . import _recurrences
from ._arguments import size
from .init import Uniform
from .module import Module
from .parameter import Parameter


class RNNCellBase(Module):
    """What the cells share: weights of input and state, and their shapes.

    >>> from ingle import nn
    >>> isinstance(nn.GRUCell(3, 4), nn.RNNCellBase), sorted(nn.GRUCell(3, 4).state_dict())
    (True, ['bias_hh', 'bias_ih', 'weight_hh', 'weight_ih'])
    """

    _gates: ClassVar[int] = 1
    _states: ClassVar[tuple[str, ...]] = ("hx",)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        name = type(self).__name__
        self.input_size = size(name, "input_size", input_size)
        self.hidden_size = size(name, "hidden_size", hidden_size)
        bound, gates = 1.0 / math.sqrt(hidden_size), self._gates * hidden_size

        def made(*shape: int) -> Parameter:
            return Parameter(Uniform(-bound, bound)(shape, dtype, device, generator))

        self.weight_ih = made(gates, input_size)
        self.weight_hh = made(gates, hidden_size)
        self.bias_ih = made(gates) if bias else None
        self.bias_hh = made(gates) if bias else None

    def _step(self) -> _recurrences.Step:
        raise NotImplementedError(f"{type(self).__name__} must define _step")

    def _state(self, hx: Any, x: Tensor) -> tuple[Tensor, ...]:
        name, expected = type(self).__name__, (*x.shape[:-1], self.hidden_size)
        if hx is None:
            zero = it.zeros(expected, dtype=x.dtype, device=x.device)
            return (zero,) * len(self._states)
        given = _recurrences.given_states(name, self._states, hx)
        found = tuple(it.asarray(s) for s in given)
        for label, state in zip(self._states, found, strict=True):
            if state.shape != expected:
                raise ShapeError(
                    f"{name}: {label} must have shape {expected} beside x of shape {x.shape}, got "
                    f"{state.shape}"
                )
        return found

    def forward(self, x: TensorLike, hx: Any = None) -> Any:
        x = it.asarray(x)
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__}: x must be (batch, {self.input_size}) or "
                f"({self.input_size},), got shape {x.shape}"
            )
        given = it.linear(x, self.weight_ih, self.bias_ih)
        after = self._step()(given, self._state(hx, x), self.weight_hh, self.bias_hh, None)
        return after[0] if len(after) == 1 else after

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        return text if self.bias_ih is not None else f"{text}, bias=False"


class RNNCell(RNNCellBase):
    """One step of `RNN`: (N, input_size) and a state (N, hidden_size) to the next state.

    Args:
        input_size, hidden_size: of input and state.
        bias: whether there are biases.
        nonlinearity: `"tanh"` or `"relu"`.
        device, dtype: of the parameters.
        generator: of the first values.

    Raises:
        ShapeError: an input or state of a wrong shape, when called.

    >>> import ingle.tensor as it
    >>> from ingle.nn import RNNCell
    >>> RNNCell(3, 5)(it.ones((2, 3))).shape
    (2, 5)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        *,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        self.nonlinearity = _recurrences.known_activation("RNNCell", nonlinearity)
        super().__init__(
            input_size, hidden_size, bias, device=device, dtype=dtype, generator=generator
        )

    def _step(self) -> _recurrences.Step:
        return _recurrences.ELMAN[self.nonlinearity]


class LSTMCell(RNNCellBase):
    """One step of `LSTM`: an input and `(h, c)` to the next `(h, c)`; arguments as `RNNCell`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import LSTMCell
    >>> h, c = LSTMCell(3, 5)(it.ones((2, 3)))
    >>> h.shape, c.shape
    ((2, 5), (2, 5))
    """

    _gates = 4
    _states = ("h_0", "c_0")

    def _step(self) -> _recurrences.Step:
        return _recurrences.lstm


class GRUCell(RNNCellBase):
    """One step of `GRU`; arguments as `RNNCell`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import GRUCell
    >>> GRUCell(3, 5)(it.ones((2, 3)), it.zeros((2, 5))).shape
    (2, 5)
    """

    _gates = 3

    def _step(self) -> _recurrences.Step:
        return _recurrences.gru
