"""The libraries that compute matrix products on one GPU, opened when something asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingle.fusion.device.kernel_backend import Held

from ..driver.libraries import is_rocm
from .cublas import Cublas, Product
from .cublas_lt import CublasLt

_WORKSPACE = 32 << 20
"""Bytes that cuBLAS may use."""


class ProductLibraries:
    """cuBLAS, cuBLASLt and the memory that they work in.

    Args:
        allocate: new memory of so many bytes.
        tensor_float: whether products of float32 may be computed in TF32.
    """

    def __init__(self, allocate: Callable[[int], Held], tensor_float: bool) -> None:
        self._allocate = allocate
        self._tensor_float = tensor_float
        self._library: Cublas | None = None
        self._adding: CublasLt | None = None
        # By the streams beside the one in order; 0 stands for that one and for what is captured in
        # its place. None has memory while no product asks for a library.
        self._workspaces: dict[int, Held | None] = {0: None}

    def open(self) -> None:
        """Opens cuBLAS, which has to be done before a graph is captured."""
        if self._library is None:
            for stream in self._workspaces:
                self._workspaces[stream] = self._allocate(_WORKSPACE)
            self._library = Cublas(self._tensor_float)

    def serve(self, stream: Any) -> None:
        """Gives a stream beside the one in order memory of its own."""
        is_open = self._library is not None
        self._workspaces[stream.ptr] = self._allocate(_WORKSPACE) if is_open else None

    def forget(self, stream: Any) -> None:
        """Takes this memory away."""
        del self._workspaces[stream.ptr]

    def adds_row(self, product: Product, row: int) -> bool:
        """Whether a library adds one row to each of a product, whose rows lie so far apart."""
        if is_rocm():
            return False
        if self._adding is None:
            self.open()
            self._adding = CublasLt(_WORKSPACE)
        return self._adding.knows(product, row)

    def multiply(
        self, product: Product, stream: Any, a: int, b: int, out: int, row: int,
        steps: tuple[int, ...], added: int | None = None,
    ) -> None:  # fmt: skip
        """Puts a product into a stream.

        Args:
            a, b, out: addresses.
            row: elements of the result from one row to the next.
            steps: strides of the result along the batch.
            added: the address of a row that `adds_row` took.
        """
        self.open()
        assert self._library is not None
        room = self._workspaces[stream.ptr if stream.ptr in self._workspaces else 0]
        assert room is not None, "it is open"
        place = room.address
        if added is None:
            given = place, _WORKSPACE
            self._library.multiply(product, stream.ptr, a, b, out, row, steps, given)
        else:
            assert self._adding is not None, "adds_row() has opened it"
            self._adding.multiply(product, stream.ptr, a, b, added, out, row, place)
