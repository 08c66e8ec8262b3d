"""Operators of ONNX as functions: `ops = opset(17)`, then `ops.Conv(x, weight, group=2)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ingle.tensor import Cell

from . import operators as operators  # fills the table
from .graph import Port
from .registry import find, unsupported
from .values import Value


class Opset:
    """The operators of a domain in an opset; `ops["ai.onnx.ml"]` are those of another domain.

    >>> import ingle.tensor as it
    >>> from ingle import importer
    >>> ops = importer.opset(17)
    >>> isinstance(ops, importer.Opset), ops.Relu(it.asarray([-1.0, 2.0])).tolist()
    (True, [0.0, 2.0])
    """

    def __init__(self, versions: Mapping[str, int], domain: str) -> None:
        self._versions = dict(versions)
        self._domain = domain

    def __getitem__(self, domain: str) -> Opset:
        return Opset(self._versions, "" if domain == "ai.onnx" else domain)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        version = self._versions.get(self._domain, 0)
        operator = None if name.startswith("_") else find(self._domain, name, version)
        if operator is None:
            if name.startswith("__"):
                raise AttributeError(name)
            raise unsupported(self._domain, name, version, "opset")

        def call(*inputs: Value, outputs: int = 1, **attributes: Any) -> Any:
            plain = [_value(x) for x in inputs]
            results = operator(plain, attributes, outputs)
            return results[0] if outputs == 1 else results[:outputs]

        return call


class WrittenBody:
    """The body of a branch or a loop as a Python function; see `body`.

    Attributes:
        outputs: what it returns.
    """

    def __init__(self, function: Callable[..., Sequence[Value]], outputs: list[Port]) -> None:
        self.outputs = outputs
        self._function = function

    def __call__(self, *inputs: Value) -> list[Value]:
        return [_value(x) for x in self._function(*inputs)]


def body(*outputs: str) -> Callable[[Callable[..., Sequence[Value]]], WrittenBody]:
    """A decorator of functions that are the graphs of `If`, `Loop` and `Scan`.

    Args:
        outputs: what the function returns, as `"y: float32[2, n]"`: how many they are, and what a
            loop without any step gives.

    >>> import numpy as np
    >>> import ingle.tensor as it
    >>> from ingle import importer
    >>> @importer.body("goes_on: bool[]", "y: float32[2]", "step: float32[2]")
    ... def twice(i, goes_on, x):
    ...     return [goes_on, x + x, x]
    >>> last, steps = importer.opset(17).Loop(
    ...     np.asarray(3), None, it.asarray([1.0, 2.0]), body=twice, outputs=2
    ... )
    >>> last.tolist(), steps.shape
    ([8.0, 16.0], (3, 2))
    """
    ports = [Port.parse(text) for text in outputs]
    return lambda function: WrittenBody(function, ports)


def _value(x: Value) -> Value:
    return x.value if isinstance(x, Cell) else x


def opset(version: int | Mapping[str, int]) -> Opset:
    """The operators of ONNX as they are in an opset, as functions.

    Args:
        version: of `ai.onnx`, or of each domain by its name.

    >>> import ingle.tensor as it
    >>> from ingle import importer
    >>> importer.opset(13).Softmax(it.asarray([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    versions = {"": version} if isinstance(version, int) else dict(version)
    return Opset({"" if d == "ai.onnx" else d: v for d, v in versions.items()}, "")
