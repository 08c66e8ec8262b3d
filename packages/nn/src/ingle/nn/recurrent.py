"""Recurrent layers over whole sequences: RNN, LSTM, GRU."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import ingle.tensor as it
from ingle.tensor import Device, Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.tensor.random import Generator

from . import _recurrences, _recurrent_layers
from ._arguments import probability, size
from .init import Uniform
from .module import Module
from .parameter import Parameter
from .utils.rnn import PackedSequence, packed, padded


class RNNBase(Module):
    """What recurrent layers share: layers in a row, each in one or both directions.

    A layer computes the products with its inputs for the whole sequence at once, and goes through
    the sequence with `ingle.tensor.scan`. In plain code all layers are one operation, which is
    traced once for all inputs of a shape.

    >>> from ingle import nn
    >>> isinstance(nn.LSTM(3, 4), nn.RNNBase), isinstance(nn.LSTMCell(3, 4), nn.RNNBase)
    (True, False)
    """

    _gates: ClassVar[int] = 1
    _states: ClassVar[tuple[str, ...]] = ("h_0",)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        *,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        name = type(self).__name__
        self.input_size = size(name, "input_size", input_size)
        self.hidden_size = size(name, "hidden_size", hidden_size)
        self.num_layers = size(name, "num_layers", num_layers)
        self.bias, self.batch_first, self.bidirectional = bias, batch_first, bool(bidirectional)
        self.dropout = probability(name, "dropout", dropout)
        self.proj_size = size(name, "proj_size", proj_size, 0)
        if self.proj_size >= self.hidden_size:
            raise ArgumentError(
                f"{name}: proj_size={proj_size} must be smaller than hidden_size={hidden_size}"
            )
        self.generator = generator
        first = Uniform(-1.0 / math.sqrt(hidden_size), 1.0 / math.sqrt(hidden_size))
        for path, shape in self._shapes():
            setattr(self, path, Parameter(first(shape, dtype, device, generator)))

    def _suffixes(self) -> list[str]:
        """One for each layer and direction, as in the names of the parameters."""
        directions = ("", "_reverse") if self.bidirectional else ("",)
        return [f"l{layer}{way}" for layer in range(self.num_layers) for way in directions]

    @property
    def _out_size(self) -> int:
        return self.proj_size or self.hidden_size

    def _shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        gates, ways = self._gates * self.hidden_size, 2 if self.bidirectional else 1
        for suffix in self._suffixes():
            below = self.input_size if suffix in ("l0", "l0_reverse") else ways * self._out_size
            yield f"weight_ih_{suffix}", (gates, below)
            yield f"weight_hh_{suffix}", (gates, self._out_size)
            if self.bias:
                yield f"bias_ih_{suffix}", (gates,)
                yield f"bias_hh_{suffix}", (gates,)
            if self.proj_size:
                yield f"weight_hr_{suffix}", (self.proj_size, self.hidden_size)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        return [
            [vars(self)[f"{kind}_{suffix}"] for kind in kinds if f"{kind}_{suffix}" in vars(self)]
            for suffix in self._suffixes()
        ]

    def flatten_parameters(self) -> None:
        """Nothing: where weights lie in memory is the affair of the backend."""

    def _step(self) -> _recurrences.Step:
        raise NotImplementedError(f"{type(self).__name__} must define _step")

    def forward(
        self, x: TensorLike | PackedSequence, hx: TensorLike | Sequence[TensorLike] | None = None
    ) -> tuple[Any, Any]:
        name = type(self).__name__
        kept: Tensor | None = None
        sequence: PackedSequence | None = None
        if isinstance(x, PackedSequence):
            sequence = x
            steps, kept = padded(sequence)
        else:
            steps = it.asarray(x)
        batched = steps.ndim == 3
        if steps.ndim not in (2, 3):
            raise ShapeError(
                f"{name}: x must have 2 axes, (length, input_size), or 3 with a batch, got shape "
                f"{steps.shape}"
            )
        if steps.shape[-1] != self.input_size:
            raise ShapeError(
                f"{name}: the last axis of x must be input_size={self.input_size}, got shape "
                f"{steps.shape}"
            )
        batch_first = batched and self.batch_first and sequence is None
        if not steps.shape[1 if batch_first else 0]:
            raise ShapeError(f"{name}: the sequence of x has no steps, got shape {steps.shape}")
        batch = (steps.shape[0 if batch_first else 1],) if batched else ()
        states = () if hx is None else self._given(hx, batch)
        if sequence is not None and sequence.sorted_indices is not None:
            order = it.asarray(sequence.sorted_indices, device=steps.device)
            states = tuple([it.take(s, order, axis=1) for s in states])
        out, *last = self._through(steps, states, kept, batched, batch_first)
        if sequence is not None:
            if sequence.unsorted_indices is not None:
                order = it.asarray(sequence.unsorted_indices, device=steps.device)
                last = [it.take(s, order, axis=1) for s in last]
            return packed(out, sequence), self._last(last)
        return out, self._last(last)

    def _last(self, state: Sequence[Tensor]) -> Any:
        return state[0] if len(self._states) == 1 else tuple(state)

    @property
    def _widths(self) -> tuple[int, ...]:
        """The sizes of the states."""
        return (self._out_size, self.hidden_size)[: len(self._states)]

    def _given(self, hx: Any, batch: tuple[int, ...]) -> tuple[Tensor, ...]:
        """The states that it is called with."""
        name, count = type(self).__name__, len(self._suffixes())
        given = _recurrences.given_states(name, self._states, hx)
        found = []
        for label, value, width in zip(self._states, given, self._widths, strict=True):
            state = it.asarray(value)
            expected = (count, *batch, width)
            if state.shape != expected:
                raise ShapeError(
                    f"{name}: {label} must have shape {expected}, that is (layers * directions, "
                    f"{'batch, ' if batch else ''}size), got {state.shape}"
                )
            found.append(state)
        return tuple(found)

    def _through(
        self, x: Tensor, states: Sequence[Tensor], kept: Tensor | None, batched: bool,
        batch_first: bool,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """The outputs of the last layer and the last states of all layers and directions."""
        # By attribute, since a parametrized one is computed when it is read.
        own = [
            [getattr(self, f"{kind}_{suffix}", None) for kind in _recurrent_layers.KINDS]
            for suffix in self._suffixes()
        ]
        layers = _recurrent_layers.Layers(
            step=self._step(),
            name=type(self).__name__,
            ways=2 if self.bidirectional else 1,
            present=tuple([tuple([w is not None for w in ws]) for ws in own]),
            inputs=self.input_size,
            widths=self._widths,
            stated=bool(states),
            masked=kept is not None,
            batched=batched,
            batch_first=batch_first,
        )
        weights = [w for ws in own for w in ws if w is not None]
        mask = [] if kept is None else [kept]
        drops = bool(self.dropout) and self.training and self.num_layers > 1
        between = self._dropped if drops else None
        return _recurrent_layers.through(layers, [x, *states, *mask, *weights], between)

    def _dropped(self, x: Tensor) -> Tensor:
        return it.dropout(x, self.dropout, generator=self.generator)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        plain: dict[str, object] = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0,
            "bidirectional": False,
        }  # fmt: skip
        return text + "".join(
            f", {k}={getattr(self, k)}" for k, v in plain.items() if getattr(self, k) != v
        )


class RNN(RNNBase):
    """`h_t = tanh(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh)` along a sequence; Elman (1990).

    Shapes: `x` (L, N, input_size), `h_0` (D * num_layers, N, hidden_size) to outputs
    (L, N, D * hidden_size) and `h_n` as `h_0`, where D is 2 if bidirectional. With `batch_first`
    sequences are (N, L, ...); without a batch there is no N; a `PackedSequence` gives one.

    Args:
        input_size: the size of the last axis of the input.
        hidden_size: the size of the state.
        num_layers: how many layers; each reads the outputs of the one below.
        nonlinearity: `"tanh"` or `"relu"`.
        bias: whether there are biases.
        batch_first: whether the batch is the first axis of sequences.
        dropout: between layers, while training.
        bidirectional: whether each layer also reads the sequence from its end.
        device, dtype: of the parameters.
        generator: of the first values and of the dropout.

    Raises:
        ShapeError: an input or state of a wrong shape, when called.

    >>> import ingle.tensor as it
    >>> from ingle.nn import RNN
    >>> out, last = RNN(3, 5, bidirectional=True)(it.ones((7, 2, 3)))
    >>> out.shape, last.shape
    ((7, 2, 10), (2, 2, 5))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        device: Device | str | None = None,
        dtype: object = None,
        generator: Generator | None = None,
    ) -> None:
        self.nonlinearity = _recurrences.known_activation("RNN", nonlinearity)
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            device=device, dtype=dtype, generator=generator,
        )  # fmt: skip

    def _step(self) -> _recurrences.Step:
        return _recurrences.ELMAN[self.nonlinearity]


class LSTM(RNNBase):
    """Long short-term memory; Hochreiter and Schmidhuber (1997), with the gates of Gers et al.

    `forward(x, (h_0, c_0))` returns outputs and `(h_n, c_n)`; shapes and arguments are those of
    `RNN`. With `proj_size` the hidden state is multiplied by a matrix to that size (Sak et al.,
    arXiv 1402.1128), and `c` keeps `hidden_size`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import LSTM
    >>> out, (h, c) = LSTM(3, 5, num_layers=2, batch_first=True)(it.ones((2, 7, 3)))
    >>> out.shape, h.shape, c.shape
    ((2, 7, 5), (2, 2, 5), (2, 2, 5))
    """

    _gates = 4
    _states = ("h_0", "c_0")

    def _step(self) -> _recurrences.Step:
        return _recurrences.lstm


class GRU(RNNBase):
    """Gated recurrent units; Cho et al. (2014), the reset gate applied behind the product.

    Shapes and arguments are those of `RNN`.

    >>> import ingle.tensor as it
    >>> from ingle.nn import GRU
    >>> out, last = GRU(3, 5)(it.ones((7, 2, 3)))
    >>> out.shape, last.shape
    ((7, 2, 5), (1, 2, 5))
    """

    _gates = 3

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.proj_size:
            raise ArgumentError("GRU: proj_size is of LSTM alone; leave it out")

    def _step(self) -> _recurrences.Step:
        return _recurrences.gru
