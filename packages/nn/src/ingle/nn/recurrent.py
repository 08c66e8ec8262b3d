"""Recurrent layers over whole sequences: RNN, LSTM, GRU."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import ingle.tensor as it
from ingle.tensor import Device, Tensor
from ingle.tensor.dispatch import TensorLike
from ingle.tensor.errors import ArgumentError, ShapeError
from ingle.tensor.programs import loops_once
from ingle.tensor.random import Generator

from . import _recurrences
from ._arguments import probability, size
from .init import Uniform
from .module import Module
from .parameter import Parameter
from .utils.rnn import PackedSequence, packed, padded

State = tuple[Tensor, ...]


class RNNBase(Module):
    """What recurrent layers share: layers in a row, each in one or both directions.

    A layer computes the products with its inputs for the whole sequence at once, and goes through
    the sequence with `ingle.tensor.scan`, whose step is traced once, in plain code too.

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
        if not batched:
            steps = it.expand_dims(steps, axis=1)
        elif self.batch_first and sequence is None:
            steps = it.swapaxes(steps, 0, 1)
        if not steps.shape[0]:
            raise ShapeError(f"{name}: the sequence of x has no steps, got shape {steps.shape}")
        state = self._first(hx, steps, batched)
        if sequence is not None and sequence.sorted_indices is not None and hx is not None:
            order = it.asarray(sequence.sorted_indices, device=steps.device)
            state = tuple(it.take(s, order, axis=1) for s in state)
        out, last = self._layers(steps, state, kept)
        if sequence is not None:
            if sequence.unsorted_indices is not None:
                order = it.asarray(sequence.unsorted_indices, device=steps.device)
                last = tuple(it.take(s, order, axis=1) for s in last)
            return packed(out, sequence), self._last(last)
        if not batched:
            return it.squeeze(out, 1), self._last(tuple(it.squeeze(s, 1) for s in last))
        return (it.swapaxes(out, 0, 1) if self.batch_first else out), self._last(last)

    def _last(self, state: State) -> Any:
        return state[0] if len(self._states) == 1 else state

    def _first(self, hx: Any, x: Tensor, batched: bool) -> State:
        name, count = type(self).__name__, len(self._suffixes())
        widths = (self._out_size, self.hidden_size)[: len(self._states)]
        if hx is None:
            return tuple(
                it.zeros((count, x.shape[1], width), dtype=x.dtype, device=x.device)
                for width in widths
            )
        given = _recurrences.given_states(name, self._states, hx)
        found = []
        for label, value, width in zip(self._states, given, widths, strict=True):
            state = it.asarray(value)
            expected = (count, x.shape[1], width) if batched else (count, width)
            if state.shape != expected:
                raise ShapeError(
                    f"{name}: {label} must have shape {expected}, that is (layers * directions, "
                    f"{'batch, ' if batched else ''}size), got {state.shape}"
                )
            found.append(state if batched else it.expand_dims(state, axis=1))
        return tuple(found)

    def _layers(self, x: Tensor, state: State, kept: Tensor | None) -> tuple[Tensor, State]:
        """The outputs of the last layer and the last states of all layers and directions."""
        ways = 2 if self.bidirectional else 1
        finals: list[State] = []
        suffixes = self._suffixes()
        for i in range(0, len(suffixes), ways):
            if i and self.dropout and self.training:
                x = it.dropout(x, self.dropout, generator=self.generator)
            outs = []
            for j in range(i, i + ways):
                own = tuple(s[j] for s in state)
                out, last = self._direction(x, own, suffixes[j], kept, j > i)
                outs.append(out)
                finals.append(last)
            x = outs[0] if ways == 1 else it.concat(outs, axis=-1)
        return x, tuple(it.stack(parts, axis=0) for parts in zip(*finals, strict=True))

    def _direction(
        self, x: Tensor, state: State, suffix: str, kept: Tensor | None, reverse: bool
    ) -> tuple[Tensor, State]:
        # By attribute, since a parametrized one is computed when it is read.
        recur, weight = self._step(), getattr(self, f"weight_hh_{suffix}")
        bias = getattr(self, f"bias_hh_{suffix}", None)
        project = getattr(self, f"weight_hr_{suffix}", None)
        inputs = getattr(self, f"weight_ih_{suffix}")
        given = it.linear(x, inputs, getattr(self, f"bias_ih_{suffix}", None))

        def step(before: State, now: Any) -> tuple[State, Tensor]:
            gates, goes_on = (now, None) if kept is None else now
            after = recur(gates, before, weight, bias, project)
            if goes_on is not None:
                pairs = zip(after, before, strict=True)
                after = tuple(it.where(goes_on, new, old) for new, old in pairs)
            return after, after[0]

        slices = given if kept is None else (given, kept)
        with loops_once():
            last, out = it.scan(step, state, slices, reverse=reverse)
        return out, last

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
