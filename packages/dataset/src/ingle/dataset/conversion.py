"""From arrays to tensors, where `ingle.tensor` is there to make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import MissingExtraError


def as_given(
    tensors: bool | None, *, device: object = None, fresh: bool = False
) -> Callable[[Any], Any]:
    """What a loader does with a batch before it hands it out; see `Loader`.

    Args:
        tensors: whether arrays become tensors; None where `ingle.tensor` is installed.
        device: where they go; where the default device is then if not given.
        fresh: whether nobody else holds the arrays. A device that can read them where they are
            then does, and they are not copied.

    Raises:
        MissingExtraError: tensors were asked for, and there is no `ingle.tensor`.
    """
    if tensors is False:
        return _itself
    try:
        import ingle.tensor as it
        from ingle.tensor.contract import capability
        from ingle.tensor.device import backend_of
        from ingle.tensor.ops.creation.conversion import staged
    except ModuleNotFoundError as error:
        if tensors is None and device is None and str(error.name).startswith("ingle"):
            return _itself
        raise MissingExtraError(
            "Loader: tensors=True and device= need ingle.tensor: pip install ingle-tensor"
        ) from error

    to = None if device is None else it.Device.parse(device)  # type: ignore[arg-type]

    def tensor(array: np.ndarray) -> Any:
        flags = array.flags
        plain = type(array) is np.ndarray and flags.c_contiguous and array.dtype.isnative
        alone = fresh and plain and flags.owndata and capability(backend_of(to), "adopt")
        if alone:
            return it.asarray(array, device=to, copy=False)
        return it.asarray(array) if to is None else staged(array, to)

    def convert(part: Any) -> Any:
        if isinstance(part, np.ndarray):
            return tensor(part) if part.dtype.kind in "biufc" else part
        if type(part) in (tuple, list):
            return type(part)(convert(p) for p in part)
        if isinstance(part, tuple) and hasattr(part, "_fields"):
            return type(part)(*map(convert, part))
        if type(part) is dict:
            return {name: convert(p) for name, p in part.items()}
        return part

    return convert


def _itself(batch: Any) -> Any:
    return batch
