"""An ONNX graph as a module: weights are its parameters, `forward` runs the graph."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

import ingle.tensor as it
from ingle import nn
from ingle.tensor import Device, Tensor

from ..errors import ModelError
from .graph import Graph, Port
from .naming import paths
from .reading import NEWEST, Reader, parse
from .running import run
from .tidying import tidy
from .values import Value, device_of, on_device

if TYPE_CHECKING:
    import onnx

SMALL = 1024
"""Elements up to which integers are taken for shapes and indices, which stay on the host."""
DECIDING = {"If": 1, "Loop": 2}
"""Operators whose first inputs decide what runs, and how many these are."""
COMPARING = {
    "And", "Cast", "Equal", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Not",
    "Or", "Reshape", "Squeeze", "Unsqueeze", "Xor",
}  # fmt: skip
"""Operators that such an input comes through."""


def load_onnx(
    path: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    device: Device | str | None = None,
    trainable: bool = True,
) -> OnnxModule:
    """Reads an ONNX model as a module that runs, trains, compiles and moves to any device.

    Args:
        path: of the file; or its bytes, or a parsed `onnx.ModelProto`. External data is
            mapped from the file's folder, and refused anywhere else.
        device: where the weights go; the default device if not given.
        trainable: False freezes the weights.

    Raises:
        UnsupportedError: an operator, an attribute or an opset that there is none of.
        ModelError: the file is damaged or makes no sense; the message names the node and field.
        MissingPackageError: the onnx package is not installed.

    >>> import onnx
    >>> from ingle import importer
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["": 17]>
    ...     double (float[N, 2] x) => (float[N, 2] y)
    ...     <float[2] scale = {2.0, 4.0}> { y = Mul(x, scale) }''')
    >>> double = importer.load_onnx(model)
    >>> double(it.asarray([[1.0, 1.0]])).tolist()
    [[2.0, 4.0]]
    >>> [name for name, p in double.named_parameters()]
    ['scale']
    """
    message, name, folder = parse(path)
    reader = Reader(message, name, folder)
    graph = reader.read()
    return OnnxModule(
        graph, name=name, device=device, trainable=trainable, opsets=reader.opsets,
        uploaded=reader.external.let_go,
    )  # fmt: skip


class _Group(nn.Module):
    """A level of names: it holds weights and further levels."""

    def extra_repr(self) -> str:
        cells = [(n, v) for n, v in vars(self).items() if isinstance(v, (nn.Parameter, nn.Buffer))]
        return ", ".join(f"{name}: {cell.dtype}{list(cell.shape)}" for name, cell in cells)


class _Hidden:
    """Keeps the graph where a module looks for no cells."""

    def __init__(
        self, graph: Graph, places: dict[str, tuple[nn.Module, str]], opsets: dict[str, int]
    ) -> None:
        self.graph = graph
        self.places = places
        self.opsets = opsets


class OnnxModule(nn.Module):
    """A module whose `forward` runs an ONNX graph.

    Float initializers are parameters under paths made of their names, those that a batch norm only
    keeps are buffers, as are large integer ones; small integer ones are part of the graph. Inputs
    are given in the graph's order or by name. One output is returned as it is, several as a tuple.

    Attributes:
        inputs, outputs: the graph's, with names, dtypes and shapes.

    >>> import onnx
    >>> import ingle.tensor as it
    >>> from ingle import importer
    >>> head = '<ir_version: 8, opset_import: ["": 17]>'
    >>> text = head + "net (float[N] x) => (float[N] y) { y = Neg(x) }"
    >>> net = importer.load_onnx(onnx.parser.parse_model(text))
    >>> isinstance(net, importer.OnnxModule), net(it.asarray([1.0])).tolist()
    (True, [-1.0])
    >>> net.inputs[0].name, net.outputs[0].name
    ('x', 'y')
    """

    def __init__(
        self,
        graph: Graph,
        *,
        name: str = "the model",
        device: Device | str | None = None,
        trainable: bool = True,
        opsets: Mapping[str, int] | None = None,
        uploaded: Callable[[str], None] | None = None,
    ) -> None:
        self.source = name
        places: dict[str, tuple[nn.Module, str]] = {}
        kept: dict[str, nn.Parameter | nn.Buffer] = {}
        for value, cell in _cells(graph, device, trainable):
            kept[value] = cell
            if uploaded is not None:
                uploaded(value)
        for value, path in paths(kept).items():
            owner: nn.Module = self
            *folders, leaf = path.split(".")
            for folder in folders:
                if not isinstance(vars(owner).get(folder), nn.Module):
                    setattr(owner, folder, _Group())
                owner = getattr(owner, folder)
            setattr(owner, leaf, kept[value])
            places[value] = owner, leaf
        # What became a cell is let go of, or it would be kept twice.
        graph.initializers = {n: v for n, v in graph.initializers.items() if n not in kept}
        self._hidden = _Hidden(graph, places, dict(opsets or NEWEST))

    @property
    def inputs(self) -> list[Port]:
        return self._hidden.graph.inputs

    @property
    def outputs(self) -> list[Port]:
        return self._hidden.graph.outputs

    @property
    def opsets(self) -> dict[str, int]:
        """The version of each domain that the graph is written for."""
        return self._hidden.opsets

    @property
    def onnx_graph(self) -> Graph:
        """The graph as data."""
        return self._hidden.graph

    def path_of(self, initializer: str) -> str | None:
        """The path of the parameter or buffer that an initializer became."""
        found = self._hidden.places.get(initializer)
        if found is None:
            return None
        owner, leaf = found
        prefix = next(path for path, module in self.named_modules() if module is owner)
        return f"{prefix}.{leaf}" if prefix else leaf

    def forward(self, *args: Value, **kwargs: Value) -> Any:
        outputs = self.run(self.arguments(args, kwargs))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def run(self, inputs: list[Value]) -> list[Value]:
        """All outputs in order, for inputs in order."""
        places = self._hidden.places

        def weight(name: str) -> Value:
            owner, leaf = places[name]
            return getattr(owner, leaf).value

        device = device_of(inputs)
        if device is None:
            first = next(iter(places.values()), None)
            device = None if first is None else getattr(*first).device
        return run(self._hidden.graph, [_input(v, device) for v in inputs], weight, device)

    def arguments(
        self, args: Sequence[Value], named: Mapping[str, Value] = MappingProxyType({})
    ) -> list[Value]:
        ports = self.inputs
        if len(args) > len(ports):
            raise ModelError(f"{self.source} takes {_told(ports)}; got {len(args)} arguments")
        by_name = dict(zip((p.name for p in ports), args, strict=False))
        for name, value in named.items():
            if name in by_name or name not in {p.name for p in ports}:
                raise ModelError(f"{self.source} takes {_told(ports)}; got another {name!r}")
            by_name[name] = value
        missing = [p for p in ports if p.name not in by_name and p.kind != "optional"]
        if missing:
            raise ModelError(f"{self.source} takes {_told(ports)}; {_told(missing)} is missing")
        for port in ports:
            _check(port, by_name.get(port.name), self.source)
        return [by_name.get(p.name) for p in ports]

    def extra_repr(self) -> str:
        return f"{_told(self.inputs)} -> {_told(self.outputs)}"

    def __repr__(self) -> str:
        head = f"OnnxModule(\n  {self.extra_repr()}"
        return "\n".join([head, *(f"  {line}" for line in self.code()), ")"])

    def code(self) -> Iterator[str]:
        """The graph as one line for each node, as `y = Conv(x, conv1.weight, pads=[1, 1])`."""
        names = {name: self.path_of(name) or name for name in self._hidden.places}
        for node in self.onnx_graph.nodes:
            inputs = [names.get(n, n) or "None" for n in node.inputs]
            attributes = [f"{k}={_short(v)}" for k, v in node.attributes.items()]
            outputs = ", ".join(n or "_" for n in node.outputs)
            yield f"{outputs} = {node.kind}({', '.join([*inputs, *attributes])})"


def _cells(
    graph: Graph, device: Device | str | None, trainable: bool
) -> Iterator[tuple[str, nn.Parameter | nn.Buffer]]:
    """The initializers that live on the device, as cells."""
    kept = tidy(graph)
    settings = _settings(graph)
    for name, array in graph.initializers.items():
        dtype = on_device(array.dtype)
        if dtype is None or name in settings:
            continue
        if dtype.is_inexact:
            value = it.asarray(array, device=device)
            number = array.ndim == 0
            yield (
                name,
                (nn.Buffer(value) if name in kept or number else nn.Parameter(value, trainable)),
            )
        elif array.size > SMALL:
            yield name, nn.Buffer(it.asarray(array, device=device))


def _settings(graph: Graph) -> set[str]:
    """Initializers that some node reads as a setting: a shape, a scale of `Resize`, or what
    decides whether a loop begins.
    """
    found = set()
    for node in graph.walk():
        forms = node.operator.inputs if node.operator is not None else ()
        found |= {n for n, form in zip(node.inputs, forms, strict=False) if form == "Host"}
    makers = {name: node for node in graph.walk() for name in node.outputs}
    open_names = [n for node in graph.walk() for n in node.inputs[: DECIDING.get(node.kind, 0)]]
    while open_names:
        name = open_names.pop()
        found.add(name)
        maker = makers.get(name)
        if maker is not None and maker.kind in COMPARING:
            open_names += [n for n in maker.inputs if n not in found]
    return found


def _input(value: Value, device: Device | None) -> Value:
    if isinstance(value, (list, tuple)):
        return [_input(v, device) for v in value]
    if isinstance(value, (bool, int, float, np.generic)):
        value = np.asarray(value)
    if isinstance(value, np.ndarray) and on_device(value.dtype) is not None:
        return it.asarray(value, device=device)
    return value


def _check(port: Port, value: Value, source: str) -> None:
    """The dtype and shape of a tensor that is given are those that the graph names."""
    if not isinstance(value, (Tensor, np.ndarray)) or port.kind != "tensor":
        return
    dtype = value.dtype.dtype if isinstance(value, Tensor) else value.dtype
    if port.dtype is not None and dtype != port.dtype and port.dtype.kind != "O":
        raise ModelError(f"{source} takes {port}, got {dtype}; cast it with astype")
    fits = port.shape is None or (
        len(port.shape) == value.ndim
        and all(
            not isinstance(n, int) or n in (0, m)
            for n, m in zip(port.shape, value.shape, strict=True)
        )
    )
    if not fits:
        raise ModelError(f"{source} takes {port}, got the shape {tuple(value.shape)}")


def _told(ports: list[Port]) -> str:
    return ", ".join(map(str, ports))


def _short(value: Any) -> str:
    if isinstance(value, Graph):
        return f"<graph of {len(value.nodes)} nodes>"
    if isinstance(value, np.ndarray) and value.size > 4:
        return f"<{value.dtype} of shape {value.shape}>"
    return repr(value.tolist() if isinstance(value, np.ndarray) else value)
