"""ONNX files into graphs: the onnx package parses and checks, here its messages become plain data.

Everything a file can get wrong is found here, before anything runs: the error names the file, the
node and the field.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ingle.tensor.errors import MissingPackageError

from ..errors import ModelError, UnsupportedError
from . import operators as operators  # fills the table
from .external import ExternalData, on_disk, packed_size
from .graph import Graph, Node, Port, note_last_uses
from .registry import OPERATORS, Operator, find, unsupported
from .values import DTYPES, STRINGS

if TYPE_CHECKING:
    import onnx

NEWEST = {"": 28, "ai.onnx.ml": 5, "ai.onnx.preview.training": 1, "ai.onnx.preview": 1}
"""The newest opset of each domain that the operators here are written for."""

BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}
"""Bits of an element in a file, by ONNX's number of the dtype, where it is less than a byte."""

LARGEST = 1 << 34
"""Elements of one initializer; a file that claims more is refused before memory is taken."""


LARGEST_DENSE = 1 << 27
"""Elements of a sparse tensor, which becomes a dense one."""


def onnx_package() -> Any:
    """The onnx package, or an error that says how to get it."""
    try:
        import onnx
    except ImportError as error:
        raise MissingPackageError(
            "ONNX files need the onnx package: pip install ingle-import[onnx]"
        ) from error
    return onnx


def parse(source: str | os.PathLike[str] | bytes | onnx.ModelProto) -> tuple[Any, str, str]:
    """The parsed and checked message, the name of its file, and its folder."""
    onnx = onnx_package()

    if isinstance(source, onnx.ModelProto):
        model, name, folder = source, "the model", ""
    else:
        data, name, folder = _bytes(source)
        try:
            model = onnx.load_model_from_string(data)
        except Exception as error:  # its class is protobuf's, which is not ours to import
            raise ModelError(
                f"{name}: this is no ONNX model, or it is cut off or damaged: {error}"
            ) from error
    if not model.HasField("graph") or not model.opset_import:
        raise ModelError(f"{name}: it holds no graph, so it is no ONNX model, or an empty one")
    try:
        if folder:  # by its path, next to which external data lies
            onnx.checker.check_model(os.fspath(source))
        else:
            onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError, UnicodeDecodeError) as error:
        if "No Op registered" not in str(error) and "No opset import" not in str(error):
            raise ModelError(f"{name}: onnx's checker refuses it: {error}") from error
    if model.functions:
        from onnx.inliner import inline_local_functions

        try:
            model = inline_local_functions(model)
        except Exception as error:  # of its C++ code
            raise ModelError(f"{name}: its functions do not fit their calls: {error}") from error
    return model, name, folder


def _bytes(source: str | os.PathLike[str] | bytes) -> tuple[bytes, str, str]:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), "the model in memory", ""
    path = Path(source)
    try:
        return path.read_bytes(), str(path), str(path.parent)
    except OSError as error:
        raise ModelError(f"{path}: it cannot be read: {error.strerror}") from error


class Reader:
    """Turns the messages of one model into graphs.

    Attributes:
        name: of the file, for messages.
        opsets: the version of each domain.
        missing: operators that there are none of, as (domain, name, opset), with their nodes.
    """

    def __init__(self, model: onnx.ModelProto, name: str, folder: str) -> None:
        self.model = model
        self.name = name
        self.external = ExternalData(folder)
        self.opsets = {_domain(o.domain): int(o.version) for o in model.opset_import}
        self.missing: dict[tuple[str, str, int], str] = {}

    def read(self, *, strict: bool = True) -> Graph:
        """The model's graph; `strict=False` leaves operators out that there are none of."""
        for domain, opset in self.opsets.items():
            if opset > NEWEST.get(domain, opset):
                raise UnsupportedError(
                    f"{self.name}: it is written for opset {opset} of {domain or 'ai.onnx'}, and "
                    f"operators are known up to {NEWEST[domain]}; export it with that one"
                )
        graph = self._graph(self.model.graph, frozenset())
        if strict and self.missing:
            (domain, kind, opset), where = next(iter(self.missing.items()))
            raise unsupported(domain, kind, opset, f"{self.name}: {where}")
        note_last_uses(graph)
        return graph

    def _check_names(self, message: onnx.GraphProto) -> None:
        names: list[Any] = [message.name, [t.name for t in message.initializer]]
        names += [t.values.name for t in message.sparse_initializer]
        for port in (*message.input, *message.output):
            names += [port.name, [d.dim_param for d in port.type.tensor_type.shape.dim]]
        for node in message.node:
            names += [node.name, node.op_type, node.domain, node.input, node.output]
            names.append([a.name for a in node.attribute])
        if _spoilt(names):
            raise ModelError(f"{self.name}: graph {message.name!r}: a name in it is no UTF-8")

    def _graph(self, message: onnx.GraphProto, around: frozenset[str]) -> Graph:
        self._check_names(message)
        constants = {t.name: self.array(t, f"initializer {t.name!r}") for t in message.initializer}
        for sparse in message.sparse_initializer:
            constants[sparse.values.name] = self._dense(sparse)
        inputs = [self.port(p) for p in message.input if p.name not in constants]
        known = set(around) | constants.keys() | {p.name for p in inputs}
        nodes = []
        for at, node in enumerate(message.node):
            made = self._node(node, at, known)
            if made is not None:
                nodes.append(made)
            known.update(n for n in node.output if n)
        outputs = [self.port(p) for p in message.output]
        for port in outputs:
            if port.name not in known:
                raise ModelError(
                    f"{self.name}: graph {message.name!r}: no node makes its output {port.name!r}"
                )
        return Graph(message.name, inputs, outputs, nodes, constants)

    def _node(self, message: onnx.NodeProto, at: int, known: set[str]) -> Node | None:
        domain, kind = _domain(message.domain), message.op_type
        name = message.name or f"{kind}_{at}"
        where = f"node {name!r} ({kind})"
        for used in message.input:
            if used and used not in known:
                raise ModelError(
                    f"{self.name}: {where}: its input {used!r} is made by no node before it, and "
                    "is no input or initializer of the graph"
                )
        opset = self.opsets.get(domain, 0)
        attributes = {
            a.name: self._attribute(a, f"{where}: attribute {a.name!r}", frozenset(known))
            for a in message.attribute
        }
        operator = find(domain, kind, opset)
        if operator is None:
            self.missing.setdefault((domain, kind, opset), where)
        else:
            self._check(operator, message, attributes, where)
        return Node(
            kind, domain, name, tuple(message.input), tuple(message.output), attributes, operator
        )

    def _check(
        self, operator: Operator, message: onnx.NodeProto, attributes: dict[str, Any], where: str
    ) -> None:
        unknown = attributes.keys() - operator.attributes
        if unknown:
            raise UnsupportedError(
                f"{self.name}: {where}: the attribute {min(unknown)!r} is not supported; "
                f"{operator.name} of opset {operator.since} has "
                f"{', '.join(sorted(operator.attributes)) or 'none'}"
            )
        given = len(message.input)
        if given < operator.required or (
            operator.variadic is None and given > len(operator.inputs)
        ):
            raise ModelError(
                f"{self.name}: {where}: it has {given} inputs, and {operator.name} takes "
                f"{operator.required} to {len(operator.inputs)}"
            )

    def _attribute(self, message: onnx.AttributeProto, where: str, known: frozenset[str]) -> Any:
        kinds = type(message).AttributeType
        if message.ref_attr_name:
            raise ModelError(f"{self.name}: {where}: it refers to a function's, outside of one")
        if message.type == kinds.STRING:
            return _text(message.s)
        if message.type == kinds.STRINGS:
            return [_text(s) for s in message.strings]
        if message.type == kinds.TENSOR:
            return self.array(message.t, where)
        if message.type == kinds.TENSORS:
            return [self.array(t, where) for t in message.tensors]
        if message.type == kinds.GRAPH:
            return self._graph(message.g, known)
        if message.type == kinds.GRAPHS:
            return [self._graph(g, known) for g in message.graphs]
        if message.type == kinds.SPARSE_TENSOR:
            return self._dense(message.sparse_tensor)
        if message.type == kinds.TYPE_PROTO:
            return message.tp
        if message.type in (kinds.FLOAT, kinds.INT):
            return message.f if message.type == kinds.FLOAT else int(message.i)
        if message.type in (kinds.FLOATS, kinds.INTS):
            return list(message.floats if message.type == kinds.FLOATS else message.ints)
        raise ModelError(f"{self.name}: {where}: its type {message.type} is none that ONNX has")

    def array(self, message: onnx.TensorProto, where: str) -> np.ndarray:
        """The values of a tensor; the error names it and what is wrong."""
        from onnx import numpy_helper

        shape = tuple(message.dims)
        count = 1
        for n in shape:
            count *= n
            if n < 0 or count > LARGEST:
                raise ModelError(f"{self.name}: {where}: its shape {shape} makes no sense")
        if message.data_type not in DTYPES:
            raise ModelError(f"{self.name}: {where}: data type {message.data_type} is not known")
        if on_disk(message):
            return self._on_disk(message, shape, where)
        try:
            array = numpy_helper.to_array(message)
        except Exception as error:  # it has no error class of its own
            raise ModelError(f"{self.name}: {where}: its values cannot be read: {error}") from error
        if message.data_type == 8:
            texts = np.empty(array.size, STRINGS)
            texts[:] = [_text(s) for s in array.reshape(-1)]
            return texts.reshape(shape)
        if array.shape != shape or array.dtype != DTYPES[message.data_type]:
            raise ModelError(f"{self.name}: {where}: it holds {array.shape}, and says {shape}")
        array.setflags(write=False)
        return array

    def _on_disk(self, message: onnx.TensorProto, shape: tuple[int, ...], where: str) -> np.ndarray:
        """Data beside the model: an array that lies in the file, which is read as it is used."""
        from onnx import numpy_helper

        dtype, bits = DTYPES[message.data_type], BITS.get(message.data_type, 8)
        try:
            if dtype == STRINGS:
                raise ModelError("strings cannot lie in other files")
            data = self.external.bytes_of(message, packed_size(shape, dtype, bits))
        except ModelError as error:
            raise ModelError(f"{self.name}: {where}: {error}") from None
        if bits < 8:
            inline = type(message)(data_type=message.data_type, dims=shape, raw_data=bytes(data))
            array = numpy_helper.to_array(inline)
        else:
            array = np.frombuffer(data, dtype).reshape(shape) if data else np.zeros(shape, dtype)
            array = array if array.flags.aligned else array.copy()
        array.setflags(write=False)
        return array

    def _dense(self, message: onnx.SparseTensorProto) -> np.ndarray:
        name = f"sparse tensor {message.values.name!r}"
        values, places = self.array(message.values, name), self.array(message.indices, name)
        shape = tuple(message.dims)
        if min(shape, default=0) < 0 or math.prod(shape) > LARGEST_DENSE:
            raise ModelError(f"{self.name}: {name}: its shape {shape} makes no sense")
        dense = np.zeros(shape, values.dtype)
        try:
            if places.ndim == 1:
                dense.reshape(-1)[places] = values
            else:
                dense[tuple(places.T)] = values
        except (IndexError, ValueError) as error:
            raise ModelError(f"{self.name}: {name}: {error}") from error
        return dense

    def port(self, message: onnx.ValueInfoProto) -> Port:
        """An input or output as data."""
        kind = message.type.WhichOneof("value") or "tensor_type"
        if kind != "tensor_type":
            return Port(message.name, kind.removesuffix("_type").removesuffix("_tensor"))
        proto = message.type.tensor_type
        shape = None
        if proto.HasField("shape"):
            shape = tuple(
                d.dim_param or None if d.WhichOneof("value") != "dim_value" else d.dim_value
                for d in proto.shape.dim
            )
        return Port(message.name, "tensor", DTYPES.get(proto.elem_type), shape)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _spoilt(message: Any) -> bool:
    """Whether a name in a message is no UTF-8: then it comes as bytes, which no name equals."""
    if isinstance(message, bytes):
        return True
    return not isinstance(message, str) and any(map(_spoilt, message))


def _text(data: bytes | str) -> str:
    return data if isinstance(data, str) else data.decode("utf-8", "surrogateescape")


def known_operators() -> dict[tuple[str, str], list[int]]:
    """The opsets from which each operator is known, by domain and name."""
    return {key: sorted(e.since for e in entries) for key, entries in OPERATORS.items()}
