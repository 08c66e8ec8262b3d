"""An imported model as readable Python, for those who want to own its code."""

from __future__ import annotations

import keyword
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ingle import nn
from ingle.nn import atomic_write
from ingle.tensor.errors import OperandError

from ..errors import UnsupportedError
from ..onnx.graph import Graph, Node
from ..onnx.module import OnnxModule
from ..weights.saving import save_safetensors

HEAD = '''"""{title}: {inputs} -> {outputs}.

Written by ingle.importer.to_python; it is yours to change. The weights lie beside it.
"""

from pathlib import Path

import ml_dtypes
import numpy as np

import ingle.tensor as it
from ingle import importer, nn

ops = importer.opset({opsets})


class Group(nn.Module):
    """A level of names."""


class {name}(nn.Module):
    """{title}."""

'''
TAIL = '''

def load() -> {name}:
    """The model with its weights."""
    model = {name}()
    importer.load_weights(model, Path(__file__).with_name("{weights}"))
    return model
'''


def to_python(
    module: OnnxModule, path: str | os.PathLike[str], *, name: str = "Model"
) -> tuple[Path, Path]:
    """Writes an imported model as a module definition and its weights as safetensors.

    Args:
        module: from `load_onnx`.
        path: of the Python file; the weights lie beside it, with the suffix `.safetensors`.
        name: of the class.

    Returns:
        The two files. The first has the class and `load()`, which gives it with its weights.

    Raises:
        OperandError: the module is not an imported one.
        UnsupportedError: an attribute that has no literal in Python.

    The bodies of branches and loops are written as functions inside of `forward`.

    >>> import pathlib, tempfile
    >>> import onnx
    >>> from ingle import importer
    >>> head = '<ir_version: 8, opset_import: ["": 17]>'
    >>> text = head + "net (float[N] x) => (float[N] y) { y = Neg(x) }"
    >>> model = importer.load_onnx(onnx.parser.parse_model(text))
    >>> code, weights = importer.to_python(model, pathlib.Path(tempfile.mkdtemp()) / "net.py")
    >>> print(code.read_text("utf-8").split("def forward")[1].split("def load")[0].strip())
    (self, x):
            y = ops.Neg(x)
            return y
    """
    if not isinstance(module, OnnxModule):
        raise OperandError(
            f"to_python: expected a module from load_onnx, got {type(module).__name__}, whose "
            "Python code there is already"
        )
    target = Path(path)
    weights = target.with_suffix(".safetensors")
    writer = _Writer(module, name)
    text = writer.text(target.stem, weights.name)
    state = {_path(k): v for k, v in module.state_dict().items()}
    save_safetensors(weights, state)
    with atomic_write(target) as file:
        file.write(text.encode())
    return target, weights


def _path(path: str) -> str:
    """A path of attributes: Python has no attribute that begins with a digit."""
    return ".".join(f"layer{p}" if p[0].isdigit() else p for p in path.split("."))


class _Writer:
    def __init__(self, module: OnnxModule, name: str) -> None:
        self.module = module
        self.name = name
        self._taken = {"self", "ops", "np", "it", "nn", "importer", "ml_dtypes", "Path"}
        self._names: dict[str, str] = {}

    def text(self, title: str, weights: str) -> str:
        graph = self.module.onnx_graph
        told = {
            "title": title,
            "name": self.name,
            "inputs": ", ".join(map(str, graph.inputs)),
            "outputs": ", ".join(map(str, graph.outputs)),
            "opsets": ", ".join(
                f"{d or 'ai.onnx'!r}: {v}" for d, v in sorted(self.module.opsets.items())
            ).join("{}"),
            "weights": weights,
        }
        lines = ["    def __init__(self) -> None:", *(f"        {x}" for x in self._cells())]
        if len(lines) == 1:
            lines.append("        pass")
        arguments = [self._variable(p.name) for p in graph.inputs]
        lines += ["", f"    def forward(self, {', '.join(arguments)}):"]
        results = ", ".join(self._value(p.name) for p in graph.outputs)
        steps = (*self._steps(graph), f"return {results}")
        lines += [f"        {x}" if x else "" for x in steps]
        return HEAD.format(**told) + "\n".join(lines) + "\n" + TAIL.format(**told)

    def _cells(self) -> Iterator[str]:
        made: set[str] = set()
        named = [*self.module.named_parameters(), *self.module.named_buffers()]
        for path, cell in named:
            parts = _path(path).split(".")
            for n in range(1, len(parts)):
                group = ".".join(parts[:n])
                if group not in made:
                    made.add(group)
                    yield f"self.{group} = Group()"
            kind = "Parameter" if isinstance(cell, nn.Parameter) else "Buffer"
            zeros = f"it.zeros({tuple(cell.shape)}, dtype=it.{cell.dtype})"
            yield f"self.{'.'.join(parts)} = nn.{kind}({zeros})"

    def _steps(self, graph: Graph) -> Iterator[str]:
        """The lines of a graph: its constants, then its nodes with the functions they call."""
        for name, array in graph.initializers.items():
            yield f"{self._variable(name)} = {_array(array)}"
        for node in graph.nodes:
            functions = {}
            for key, value in node.attributes.items():
                if isinstance(value, Graph):
                    functions[key] = self._fresh(key)
                    yield from self._function(functions[key], value)
            yield self._call(node, functions)

    def _function(self, name: str, graph: Graph) -> Iterator[str]:
        """An inner graph; what it takes from around it are Python's own names."""
        told = ", ".join(repr(str(p)) for p in graph.outputs)
        yield ""
        yield f"@importer.body({told})"
        yield f"def {name}({', '.join(self._variable(p.name) for p in graph.inputs)}):"
        results = _listed(self._value(p.name) for p in graph.outputs)
        for line in (*self._steps(graph), f"return {results}"):
            yield f"    {line}" if line else ""
        yield ""

    def _call(self, node: Node, functions: Mapping[str, str]) -> str:
        results = [self._variable(n) if n else "_" for n in node.outputs]
        arguments = [self._value(n) if n else "None" for n in node.inputs]
        while arguments and arguments[-1] == "None":
            arguments.pop()
        arguments += [
            f"{key}={functions[key] if key in functions else _literal(value)}"
            for key, value in node.attributes.items()
        ]
        if len(results) > 1:
            arguments.append(f"outputs={len(results)}")
        owner = f"ops[{node.domain!r}]" if node.domain else "ops"
        return f"{', '.join(results)} = {owner}.{node.kind}({', '.join(arguments)})"

    def _value(self, name: str) -> str:
        path = self.module.path_of(name)
        return self._variable(name) if path is None else f"self.{_path(path)}"

    def _variable(self, name: str) -> str:
        """One variable for each value, named like it as far as Python allows."""
        if name not in self._names:
            wish = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "value"
            wish = f"v{wish}" if wish[0].isdigit() else wish
            wish = f"{wish}_" if keyword.iskeyword(wish) else wish
            self._names[name] = self._fresh(wish)
        return self._names[name]

    def _fresh(self, wish: str) -> str:
        found, n = wish, 1
        while found in self._taken:
            n += 1
            found = f"{wish}_{n}"
        self._taken.add(found)
        return found


def _literal(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, list):
        return _listed(_literal(v) for v in value)
    if isinstance(value, float) and not np.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, (bool, int, float, str)):
        return repr(value)
    raise UnsupportedError(f"to_python: an attribute is a {type(value).__name__}")


def _listed(parts: Iterable[str]) -> str:
    return f"[{', '.join(parts)}]"


def _array(array: np.ndarray) -> str:
    if array.dtype.kind == "O":
        return f"np.array({array.tolist()!r}, dtype=object)"
    module = "np" if hasattr(np, array.dtype.name) else "ml_dtypes"
    dtype = "np.bool_" if array.dtype.kind == "b" else f"{module}.{array.dtype.name}"
    numbers = array if array.dtype.kind in "biufc" else array.astype(np.float32)
    text = repr(numbers.tolist())
    text = re.sub(r"\b(nan|inf)\b", r'float("\1")', text)
    return f"np.array({text}, dtype={dtype})"
