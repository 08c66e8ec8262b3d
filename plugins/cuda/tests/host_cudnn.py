"""A stub of cuDNN's package, which computes in the host's memory what it is asked for.

At once, or when it is the turn of the stream that it was given (`Graph.streams`).
"""

from __future__ import annotations

import ctypes
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.device import backend_of, call_staged
from ingle.tensor.ops.convolution.gradients import CONV_INPUT_GRADIENT, CONV_WEIGHT_GRADIENT
from ingle.tensor.ops.neural.attention_gradients import attention_gradient
from ingle_cuda.attention.cudnn_attention import SCALE


class NotSupportedError(Exception):
    """As the package says that the library has no way."""


class Node:
    """A tensor of a graph, and what computes it."""

    def __init__(self, compute: Any = None) -> None:
        self.compute = compute
        self.number = -1

    def set_output(self, _: bool) -> Node:
        return self

    def set_uid(self, number: int) -> Node:
        self.number = number
        return self

    def set_dim(self, sizes: list[int]) -> Node:
        self.sizes = sizes
        return self

    def set_stride(self, strides: list[int]) -> Node:
        self.strides = strides
        return self

    def set_data_type(self, kind: str) -> Node:
        self.kind = kind
        return self


WORKSPACE = 4096
"""Bytes that an operation works in, of which nothing stays."""
DTYPES = {"FLOAT": np.float32, "HALF": np.float16}


class Graph:
    """The package's graph of one operation, on memory of the host."""

    refuses = False
    streams: ClassVar[dict[int, Any]] = {}
    stream: ClassVar[int] = 0
    executed: ClassVar[list[str]] = []

    def __init__(self, **_: Any) -> None:
        self.inputs: dict[int, Node] = {}
        self.outputs: list[Node] = []
        self.given: dict[str, Any] = {}

    def tensor(self, dim: Any, stride: Any, data_type: str, uid: int, **_: Any) -> Node:
        node = self.inputs[uid] = Node().set_dim(dim).set_stride(stride).set_data_type(data_type)
        return node.set_uid(uid)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("conv_"):
            return lambda **given: self._add(name, 1, given)[0]
        if name.startswith("sdpa"):
            return lambda **given: self._add(name, 3 if "backward" in name else 2, given)
        if name == "check_support" and self.refuses:
            raise NotSupportedError
        return lambda *_: WORKSPACE

    def _add(self, name: str, count: int, given: dict[str, Any]) -> list[Node]:
        self.name, self.given = name, given
        self.outputs = [Node() for _ in range(count)]
        return self.outputs

    def execute(self, places: dict[int, int], workspace: int, handle: Any) -> None:
        assert workspace
        assert not any(address % 16 for n, address in places.items() if n != SCALE), places
        # What a number is given by is read at once, as by the package.
        factors = {n: shown(a, self.inputs[n]).copy() for n, a in places.items() if n == SCALE}
        work = partial(self._computed, dict(places), factors)
        stream = Graph.streams.get(Graph.stream)
        Graph.executed.append(self.name)
        if stream is None:
            work()
        else:
            stream.put(partial(ctypes.memset, workspace, 0xA5, WORKSPACE))
            stream.put(work)
            stream.put(partial(ctypes.memset, workspace, 0x5A, WORKSPACE))

    def _computed(self, places: dict[int, int], factors: dict[int, Any]) -> None:
        named: dict[str, Any] = {"size": self.outputs[0].sizes}
        for name, value in self.given.items():
            if isinstance(value, Node):
                known = factors.get(value.number)
                named[name] = shown(places[value.number], value) if known is None else known
            else:
                named[name] = value
        for node, value in zip(self.outputs, COMPUTED[self.name](named), strict=False):
            if node.number >= 0:
                shown(places[node.number], node)[...] = value


def shown(address: int, node: Node) -> Any:
    dtype = np.dtype(DTYPES[node.kind])
    last = sum((n - 1) * s for n, s in zip(node.sizes, node.strides, strict=True))
    data = (ctypes.c_char * ((last + 1) * dtype.itemsize)).from_address(address)
    strides = [s * dtype.itemsize for s in node.strides]
    return np.ndarray(node.sizes, dtype, data, 0, strides)


def around(given: dict[str, Any]) -> dict[str, Any]:
    """The library's numbers as Ingle's."""
    pads = zip(given["pre_padding"], given["post_padding"], strict=True)
    return {
        "stride": tuple(given["stride"]), "padding": tuple(pads),
        "dilation": tuple(given["dilation"]),
    }  # fmt: skip


def wide(x: Any) -> Any:
    return it.asarray(np.ascontiguousarray(x, np.float64), device="numpy")


def forward(given: dict[str, Any]) -> list[Any]:
    x, w = given["image"], given["weight"]
    groups = x.shape[1] // w.shape[1]
    return [it.conv(wide(x), wide(w), groups=groups, **around(given)).numpy()]


def gradient(given: dict[str, Any], operation: Any, *names: str) -> list[Any]:
    """A gradient of a convolution without groups, by the device numpy."""
    a, b = (wide(given[name]) for name in names)
    named = "size" if operation is CONV_INPUT_GRADIENT else "kernel"
    op = operation.op(groups=1, **{named: tuple(given["size"][2:])}, **around(given))
    host = backend_of("numpy")
    (found,) = call_staged(host, host.execute, op, [a._handle, b._handle])
    return [Tensor(found).numpy()]


def attended(given: dict[str, Any]) -> list[Any]:
    q, k, v = (np.asarray(given[n], np.float64) for n in "qkv")
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = np.einsum("nhld,nhsd->nhls", q, k) * given["attn_scale"]
    if given["use_causal_mask"]:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    lse = np.log(np.sum(np.exp(scores), -1, keepdims=True))
    return [np.exp(scores - lse) @ v, lse]


def pulled(given: dict[str, Any]) -> list[Any]:
    found = attention_gradient(
        *[wide(given[n]) for n in ("dO", "q", "k", "v")],
        is_causal=given["use_causal_mask"], scale=float(given["attn_scale"].ravel()[0]),
    )  # fmt: skip
    return [x.numpy() for x in found]


COMPUTED = {
    "conv_fprop": forward,
    "conv_dgrad": lambda given: gradient(given, CONV_INPUT_GRADIENT, "loss", "filter"),
    "conv_wgrad": lambda given: gradient(given, CONV_WEIGHT_GRADIENT, "image", "loss"),
    "sdpa": attended,
    "sdpa_backward": pulled,
}
PACKAGE = SimpleNamespace(
    create_handle=lambda: 1, pygraph=Graph,
    set_stream=lambda handle, stream: setattr(Graph, "stream", stream),
    data_type=SimpleNamespace(FLOAT="FLOAT", HALF="HALF", BFLOAT16="BFLOAT16"),
    heur_mode=SimpleNamespace(A=0, FALLBACK=1),
    numerical_note=SimpleNamespace(NONDETERMINISTIC="nondeterministic", TENSOR_CORE="tensor core"),
    cudnnGraphNotSupportedError=NotSupportedError,
)  # fmt: skip
