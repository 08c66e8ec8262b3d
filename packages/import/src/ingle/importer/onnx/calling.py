"""Operators of ONNX as functions: `ops = opset(17)`, then `ops.Conv(x, weight, group=2)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ingle.tensor import Cell

from . import operators as operators  # fills the table
from .registry import find, unsupported
from .values import Value


class Opset:
    """The operators of a domain in an opset; `ops["ai.onnx.ml"]` are those of another domain."""

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
            plain = [x.value if isinstance(x, Cell) else x for x in inputs]
            results = operator(plain, attributes, outputs)
            return results[0] if outputs == 1 else results[:outputs]

        return call


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
