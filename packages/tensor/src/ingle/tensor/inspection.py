"""What an Array API library says of itself: `__array_namespace_info__`."""

from __future__ import annotations

from .device import Device, backend_of, default_device
from .dtype_functions import kinds_named
from .dtypes import (
    ALL_DTYPES,
    DType,
    bfloat16,
    default_complex,
    default_float,
    default_int,
    float16,
    int64,
)
from .plugins import describe, discover

Kind = str | tuple[str, ...] | None


class NamespaceInfo:
    """Capabilities, devices and dtypes, as the Array API standard asks for them.

    >>> import ingle.tensor as it
    >>> it.__array_namespace_info__().capabilities()["boolean indexing"]
    True
    """

    __slots__ = ()

    def capabilities(self) -> dict[str, bool | int | None]:
        """What is optional in the standard and whether it is here.

        NumPy arrays carry values to and from every device, so that their limit of 64 axes holds.
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """The device of tensors that are made without one."""
        return default_device()

    def devices(self) -> tuple[Device, ...]:
        """The devices that can be used now; broken plugins are left out (`ingle info` names them).

        >>> import ingle.tensor as it
        >>> it.Device("numpy") in it.__array_namespace_info__().devices()
        True
        """
        found = []
        for name in discover().backends:
            try:
                count = describe(name).count()
            except Exception:  # a stranger's plugin may raise anything: then it has no devices
                count = 0
            found += [Device(name, i) for i in range(count)]
        return tuple(found)

    def default_dtypes(self, *, device: Device | str | None = None) -> dict[str, DType]:
        """The dtypes of tensors that are made without one; `default_dtypes` changes them.

        >>> import ingle.tensor as it
        >>> it.__array_namespace_info__().default_dtypes()["real floating"]
        float32
        """
        return {
            "real floating": default_float(),
            "complex floating": default_complex(),
            "integral": default_int(),
            "indexing": int64,
        }

    def dtypes(self, *, device: Device | str | None = None, kind: Kind = None) -> dict[str, DType]:
        """The standard's dtypes by name that a device has.

        Args:
            device: the default device if not given.
            kind: a kind as for `isdtype`, or several; all if not given.

        >>> import ingle.tensor as it
        >>> list(it.__array_namespace_info__().dtypes(kind="real floating"))
        ['float32', 'float64']
        """
        names = (kind,) if isinstance(kind, str) else kind
        known = getattr(backend_of(device), "dtypes", None)
        wanted = None if names is None else {k for n in names for k in kinds_named("dtypes", n)}
        return {
            d.name: d
            for d in ALL_DTYPES
            if d not in (float16, bfloat16)  # they are not in the standard
            and (known is None or d.name in known)
            and (wanted is None or d.kind in wanted)
        }


def array_namespace_info() -> NamespaceInfo:
    """An object that tells of capabilities, devices and dtypes.

    >>> import ingle.tensor as it
    >>> it.__array_namespace_info__().default_device() == it.default_device()
    True
    """
    return NamespaceInfo()
