"""How tensors show themselves to other libraries: the Array API's namespace and DLPack."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import ArgumentError

if TYPE_CHECKING:
    from .tensor import Tensor

API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
array_api_version = API_VERSIONS[-1]
_HOST = (1, 0)  # DLPack's kDLCPU, and its only device
_SIGNALS_READ_ONLY = (1, 0)  # the first DLPack version that can


class Exchange:
    """The dunder methods by which array libraries find each other."""

    __slots__ = ()

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """The module with the Array API's functions, which is `ingle.tensor`."""
        if api_version is not None and api_version not in API_VERSIONS:
            raise ArgumentError(
                f"__array_namespace__: api_version={api_version!r} is none of "
                f"{', '.join(API_VERSIONS)}"
            )
        return sys.modules["ingle.tensor"]

    def __dlpack_device__(self: Tensor) -> tuple[int, int]:  # type: ignore[misc]
        """Where `__dlpack__` exports: the backend's device, or the host if it cannot export."""
        where = getattr(self.backend, "dlpack_device", None)
        return _HOST if where is None else where()

    def __dlpack__(  # type: ignore[misc]
        self: Tensor,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The values as a DLPack capsule, without their recording of gradients.

        A copy, since tensors never change and consumers may write (PyTorch does, even to memory
        that is marked read-only); `copy=False` shares the memory and leaves that to the consumer.

        Raises:
            BufferError: the dtype has no place in DLPack as NumPy writes it (bfloat16), another
                device was asked for, or `copy=False` of memory that was imported read-only and a
                consumer of old DLPack, which has no mark for that.
        """
        handle = self.detach()._handle
        export = getattr(handle.backend, "to_dlpack", None)
        if export is not None:
            return export(
                handle, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
            )
        if dl_device is not None and tuple(dl_device) != _HOST:
            raise BufferError(
                f"__dlpack__: device {tuple(dl_device)} was asked for, but {self.device} exports "
                f"on the host {_HOST}"
            )
        return _host_capsule(self.numpy(), max_version, copy)


def _host_capsule(
    values: np.ndarray, max_version: tuple[int, int] | None, copy: bool | None
) -> Any:
    if values.dtype.kind == "V" or values.dtype.name == "bfloat16":
        raise BufferError(
            f"__dlpack__: NumPy cannot export {values.dtype}; cast with x.astype('float32')"
        )
    if copy is not False:
        return values.copy().__dlpack__()
    if max_version is not None and tuple(max_version) >= _SIGNALS_READ_ONLY:
        return values.__dlpack__(max_version=max_version)
    shared = values.view()
    try:
        # Old DLPack cannot say that memory is read-only; not to write is up to the consumer.
        shared.flags.writeable = True
    except ValueError:
        raise BufferError(
            "__dlpack__: copy=False, but a consumer of DLPack before 1.0 cannot be told that this "
            "memory is read-only; let it copy"
        ) from None
    return shared.__dlpack__()
