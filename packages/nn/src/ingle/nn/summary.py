"""A model as a table: what goes into each module and comes out, parameters, operations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import ingle.tensor as it
from ingle.tensor import Tensor, dispatch, transaction
from ingle.tensor.contract import Handle, Scalar
from ingle.tensor.errors import OperandError
from ingle.tensor.operation import Op

from .module import Module


@dataclass
class Row:
    """One call of a module.

    Attributes:
        path: of the module, empty for the model itself.
        kind: its class.
        inputs, outputs: shapes of the tensors that went in and came out.
        parameters: elements of its parameters, with those below.
        trainable: of these, what is not frozen.
        flops: multiplications and additions of products and convolutions inside.
        calls: how many times it was called before.
    """

    path: str
    kind: str
    inputs: list[tuple[int, ...]]
    parameters: int
    trainable: int
    outputs: list[tuple[int, ...]] = field(default_factory=list)
    flops: int = 0
    calls: int = 0


@dataclass
class Summary:
    """The rows in the order of calls, the model first; prints as a table.

    Attributes:
        rows: one for each call of a module.
        parameters, trainable: of the model, each tied one once.
        flops: of the model: products and convolutions, two for a multiplication with its addition.
    """

    rows: list[Row]

    @property
    def parameters(self) -> int:
        return self.rows[0].parameters

    @property
    def trainable(self) -> int:
        return self.rows[0].trainable

    @property
    def flops(self) -> int:
        return self.rows[0].flops

    def __str__(self) -> str:
        head = ("module", "input", "output", "parameters", "FLOPs")
        lines = [head, *map(_cells, self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
        shown = [
            "  ".join(
                cell.rjust(width) if i > 2 else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        frozen = self.parameters - self.trainable
        total = f"{self.parameters:,} parameters, {frozen:,} frozen; {_short(self.flops)} FLOPs"
        return "\n".join([shown[0], "-" * len(shown[0]), *shown[1:], total])


def _cells(row: Row) -> tuple[str, ...]:
    depth = row.path.count(".") + 1 if row.path else 0
    name = row.path.rpartition(".")[2]
    label = "  " * depth + (f"{name}: {row.kind}" if name else row.kind)
    again = row.calls > 0
    return (
        label, _shapes(row.inputs), _shapes(row.outputs),
        "(again)" if again else f"{row.parameters:,}" if row.parameters else "",
        _short(row.flops) if row.flops else "",
    )  # fmt: skip


def _shapes(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join("x".join(map(str, shape)) or "()" for shape in shapes)


def _short(count: float) -> str:
    for unit in ("", "K", "M", "G", "T"):
        if count < 1000:
            return f"{count:.0f}" if not unit else f"{count:.4g} {unit}"
        count /= 1000
    return f"{count:.4g} P"


class _Undone(Exception):  # noqa: N818 (it is no error)
    """Ends the transaction of a run whose writes must not be committed."""


def summary(model: Module, *inputs: Any, **options: Any) -> Summary:
    """Runs a model once and tells of each module that was called; nothing is changed.

    Products, convolutions and attention count as operations, as in PyTorch's `FlopCounterMode`;
    what goes over elements does not.

    Args:
        model: what is run, in the mode it is in.
        inputs: of `forward`; a tuple of integers is the shape of a tensor of zeros.
        options: of `forward`, by name.

    Returns:
        The rows, which print as a table.

    Raises:
        OperandError: `model` is no Module, or there are no inputs.

    >>> from ingle import nn
    >>> model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    >>> print(nn.summary(model, (32, 8)))
    module       input  output  parameters    FLOPs
    -----------------------------------------------
    Sequential   32x8   32x2           178  10.24 K
      0: Linear  32x8   32x16          144  8.192 K
      1: ReLU    32x16  32x16
      2: Linear  32x16  32x2            34  2.048 K
    178 parameters, 0 frozen; 10.24 K FLOPs
    """
    if not isinstance(model, Module):
        raise OperandError(f"summary: expected a Module, got {type(model).__name__}")
    if not inputs and not options:
        raise OperandError(
            "summary: expected the model's inputs, as tensors or shapes; for a tree without a run "
            "write model.summary()"
        )
    given = [it.zeros(x) if _is_shape(x) else x for x in inputs]
    recorder = _Recorder(model)
    # Another watch, as of `anomaly`, goes on behind this one.
    before = dispatch._watcher
    try:
        with transaction():
            dispatch.watch(recorder.count)
            handles = list(recorder.attached())
            try:
                model(*given, **options)
            finally:
                for handle in handles:
                    handle.remove()
            raise _Undone
    except _Undone:
        return Summary(recorder.rows)
    finally:
        dispatch.watch(before)


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(isinstance(n, int) for n in value)


class _Recorder:
    """Rows of what is called, and the operations of those that run now."""

    def __init__(self, model: Module) -> None:
        self.rows: list[Row] = []
        self.running: list[Row] = []
        self.last: Handle | None = None
        self.paths: dict[Module, str] = {}
        for path, module in model.named_modules():
            self.paths.setdefault(module, path)

    def attached(self) -> Iterator[Any]:
        for module in self.paths:
            yield module.register_forward_pre_hook(self.begin, with_kwargs=True)
            yield module.register_forward_hook(self.end, always_call=True)

    def begin(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        path = self.paths[module]
        calls = sum(row.path == path for row in self.rows)
        found = [tuple(x.shape) for x in _tensors((*args, *kwargs.values()))]
        row = Row(
            path, type(module).__name__, found, module.count_parameters(),
            module.count_parameters(trainable_only=True), calls=calls,
        )  # fmt: skip
        self.rows.append(row)
        self.running.append(row)

    def end(self, module: Module, args: tuple[Any, ...], output: Any) -> None:
        self.running.pop().outputs = [tuple(x.shape) for x in _tensors(output)]

    def count(self, op: Op, inputs: Sequence[Handle | Scalar], outputs: Sequence[Handle]) -> None:
        last, self.last = self.last, outputs[0].base()
        if last is self.last:
            return  # the body ran, whose operations were shown and whose result this is
        found = _flops(op, [x for x in inputs if isinstance(x, Handle)], outputs)
        for row in self.running:
            row.flops += found


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(tuple(value.values()))
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _tensors(part)


def _flops(op: Op, inputs: Sequence[Handle], outputs: Sequence[Handle]) -> int:
    name = op.operation.name
    if name in ("linear", "matmul"):
        return 2 * math.prod(outputs[0].shape) * inputs[0].shape[-1]
    if name in ("conv", "deform_conv2d"):
        weight = inputs[1 if name == "conv" else 2].shape
        return 2 * math.prod(outputs[0].shape) * math.prod(weight[1:])
    if name == "conv_input_gradient":
        # A transposed convolution: each element of what goes in meets the kernels of its channel.
        return 2 * math.prod(inputs[0].shape) * math.prod(inputs[1].shape[1:])
    if name.startswith("scaled_dot_product_attention"):
        query, key, value = (x.shape for x in inputs[:3])
        scores = math.prod(outputs[0].shape[:-1]) * key[-2]
        return 2 * scores * (query[-1] + value[-1])
    return 0
