"""Devices are values: `"cpu"`, `"cuda:1"`, `"remote://host:7000/cuda:0"`."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from .blocks import WithBlock, call_holding, holding, of_values
from .errors import BackendError, DeviceError, SettingError
from .precision import low, suspended, used

if TYPE_CHECKING:
    from .contract import Backend

P = ParamSpec("P")
R = TypeVar("R")


class Loader(Protocol):
    """What finds and makes backends. Its file needs this one, so it installs itself."""

    def best_device(self) -> Device:
        """The device of highest priority whose backend can be made."""

    def load_backend(self, where: Device) -> Backend:
        """The backend of a device, made at its first use."""

    def settled(self) -> Device | None:
        """What `best_device` returns again, if it has returned before."""

    def made(self, where: Device) -> Backend | None:
        """The backend of a device, if it is made."""


_loaders: list[Loader] = []


def install_loader(loader: Loader) -> None:
    """Devices get their backends from it from now on."""
    _loaders[:] = [loader]


@dataclass(frozen=True, slots=True)
class Device:
    """Where a tensor lives: the name of a backend and which of its devices.

    >>> from ingle.tensor import Device
    >>> Device.parse("cuda:1")
    Device('cuda:1')
    """

    name: str
    index: int = 0

    @staticmethod
    def parse(text: str | Device) -> Device:
        """Reads `NAME`, `NAME:INDEX` or an address `remote://HOST:PORT/NAME:INDEX`."""
        if isinstance(text, Device):
            return text
        if not isinstance(text, str):
            raise DeviceError(f"a device is a string such as 'numpy' or 'cuda:1', got {text!r}")
        return _parse(text)

    def __str__(self) -> str:
        return f"{self.name}:{self.index}" if self.index else self.name

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"


@lru_cache(maxsize=256)
def _parse(text: str) -> Device:
    head, _, tail = text.rpartition(":")
    # In an address the first number behind a colon is a port: an index follows only a path.
    address = "//" in head and "/" not in head.partition("//")[2]
    if head and tail.isdigit() and not address:
        name, index = head, int(tail)
    else:
        name, index = text, 0
    if ":" in name and "//" not in name:
        raise DeviceError(
            f"cannot read the device {text!r}: behind the name of a backend and ':' comes the "
            "number of a device, from 0, such as 'cuda:1'"
        )
    if not name or any(c.isspace() for c in name) or ":" in (name[0], name[-1]):
        raise DeviceError(f"cannot read the device {text!r}; write 'numpy', 'cpu' or 'cuda:1'")
    return Device(name, index)


_chosen: ContextVar[Device | None] = ContextVar("ingle_device", default=None)
_staged: ContextVar[Backend | None] = of_values(ContextVar("ingle_staged", default=None))


def chosen_device() -> Device | None:
    """The device of the innermost `with device(...)`, if there is one."""
    return _chosen.get()


def default_device() -> Device:
    """The device of new tensors: `with device(...)`, `INGLE_DEVICE`, or the best there is.

    >>> import ingle.tensor as it
    >>> with it.device("numpy"):
    ...     it.default_device()
    Device('numpy')
    """
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    named = os.environ.get("INGLE_DEVICE", "").strip()
    if named:
        return _named(named)
    return _loaders[0].best_device()


def _named(named: str) -> Device:
    try:
        return Device.parse(named)
    except DeviceError as error:
        raise SettingError(f"the variable INGLE_DEVICE is {named!r}: {error}") from None


def device(name: str | Device) -> WithBlock[Device]:
    """Makes a device the default inside a `with` block, for this thread or task only.

    >>> import ingle.tensor as it
    >>> with it.device("numpy"):
    ...     it.zeros(2).device
    Device('numpy')
    """
    where = Device.parse(name)
    backend_of(where)
    return holding(_chosen, where)


def call_on(where: Device, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Calls a function under `device`, of one that is known to work: every composite's body.

    It computes in the dtypes that it is given, whatever `precision` is around.
    """
    if used.ever and low.get() is not None:
        with suspended():
            return call_holding(_chosen, where, function, *args, **kwargs)
    return call_holding(_chosen, where, function, *args, **kwargs)


def staged_on(backend: Backend) -> WithBlock[Backend]:
    """Inside, a backend stands for its device's own: what is created goes to a recording."""
    return holding(_staged, backend)


def call_staged(
    backend: Backend, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
) -> R:
    """Calls a function under `staged_on`."""
    return call_holding(_staged, backend, function, *args, **kwargs)


def backend_of(where: Device | str | None) -> Backend:
    """The backend of a device; loads its plugin at the first use."""
    staged = _staged.get()
    if staged is not None:
        wanted = default_device() if where is None else Device.parse(where)
        if wanted == staged.device:
            interrupted = getattr(staged, "interrupted", None)
            if interrupted is None or not interrupted():
                return staged
    return _installed(where)


def made_backend() -> Backend | None:
    """`backend_of` the default device, if that was made before: nothing is loaded, nor told."""
    where = _chosen.get()
    if where is None:
        named = os.environ.get("INGLE_DEVICE", "").strip()
        if named:
            return None  # it may be wrong
        where = _loaders[0].settled()
    if where is None:
        return None
    staged = _staged.get()
    return _loaders[0].made(where) if staged is None or staged.device != where else None


def _installed(where: Device | str | None) -> Backend:
    load_backend = _loaders[0].load_backend
    if where is not None:
        return load_backend(Device.parse(where))
    try:
        return load_backend(default_device())
    except BackendError as error:
        named = os.environ.get("INGLE_DEVICE", "").strip()
        if _chosen.get() is None and named:
            raise BackendError(f"the variable INGLE_DEVICE={named!r} is wrong: {error}") from None
        raise
