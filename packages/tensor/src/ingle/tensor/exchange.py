"""How tensors show themselves to other libraries: the Array API's namespace, NumPy, DLPack."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from .dlpack import HOST, Place, exported, on_host, place_name
from .errors import ArgumentError

if TYPE_CHECKING:
    from .tensor import Tensor

API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
array_api_version = API_VERSIONS[-1]
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

    def __array__(  # type: ignore[misc]
        self: Tensor, dtype: Any = None, copy: bool | None = None
    ) -> np.ndarray:
        """The values for NumPy: a read-only view of host memory, or a copy if one is asked for.

        Args:
            dtype: what to cast to.
            copy: True for an array of its own, that may be written; False raises `ValueError`
                where the values have to be copied: from another device, or to be cast.
        """
        values = self.numpy()
        to = values.dtype if dtype is None else np.dtype(dtype)
        if copy is False and (to != values.dtype or not on_host(self.__dlpack_device__())):
            raise ValueError(
                f"__array__: copy=False, but {self.dtype} on {self.device} has to be copied to "
                f"become {to} on the host"
            )
        return values.astype(to, copy=bool(copy))

    def __dlpack_device__(self: Tensor) -> Place:  # type: ignore[misc]
        """Where `__dlpack__` exports: the backend's device, or the host if it cannot export."""
        where = getattr(self.backend, "dlpack_device", None)
        return HOST if where is None else where()

    def __dlpack__(  # type: ignore[misc]
        self: Tensor,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: Place | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The values as a DLPack capsule, without their recording of gradients.

        A copy, since tensors never change and consumers may write (PyTorch does, even to memory
        that is marked read-only); `copy=False` shares the memory and leaves that to the consumer.
        Shared memory is not written in place by Ingle either, as long as the consumer holds it.

        Args:
            stream: None on the host; for other devices the backend says.
            max_version: the newest DLPack that the consumer reads; 1.0 can say "read-only".
            dl_device: where the consumer wants the values; the host or `__dlpack_device__()`.
            copy: False raises instead of copying.

        Raises:
            BufferError: DLPack or NumPy has no place for the dtype (int4, int2), another device
                was asked for, or `copy=False` of values that need a copy: from another device,
                backwards in memory, or imported read-only and for a consumer of old DLPack, which
                has no mark for that.
        """
        handle = self.detach()._handle
        export = getattr(handle.backend, "to_dlpack", None)
        if export is not None:
            return export(
                handle, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
            )
        if dl_device is not None and not on_host(dl_device):
            raise BufferError(
                f"__dlpack__: the values were asked for on {place_name(dl_device)}, but "
                f"{self.device} exports on the host"
            )
        return _host_capsule(self.numpy(), max_version, copy)


def _host_capsule(
    values: np.ndarray, max_version: tuple[int, int] | None, copy: bool | None
) -> object:
    if copy is not False:
        return exported(values.copy(), max_version)
    if any(stride < 0 for stride in values.strides):
        # PyTorch ends the process when it meets one.
        raise BufferError(
            "__dlpack__: copy=False, but these values lie backwards in memory (a negative step), "
            "which many consumers cannot read; let it copy"
        )
    if max_version is not None and tuple(max_version) >= _SIGNALS_READ_ONLY:
        return exported(values, max_version)
    shared = values.view()
    try:
        # Old DLPack cannot say that memory is read-only; not to write is up to the consumer.
        shared.flags.writeable = True
    except ValueError:
        raise BufferError(
            "__dlpack__: copy=False, but a consumer of DLPack before 1.0 cannot be told that this "
            "memory is read-only; let it copy"
        ) from None
    return exported(shared, None)
