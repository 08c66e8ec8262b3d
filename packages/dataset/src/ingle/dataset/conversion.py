"""From arrays to tensors, where `ingle.tensor` is there to make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import MissingExtraError


def as_given(tensors: bool | None) -> Callable[[Any], Any]:
    """What a loader does with a batch before it hands it out; see `Loader`.

    Raises:
        MissingExtraError: tensors were asked for, and there is no `ingle.tensor`.
    """
    if tensors is False:
        return _itself
    try:
        import ingle.tensor as it
    except ModuleNotFoundError as error:
        if tensors is None and str(error.name).startswith("ingle"):
            return _itself
        raise MissingExtraError(
            "Loader: tensors=True needs ingle.tensor: pip install ingle-tensor"
        ) from error

    def convert(part: Any) -> Any:
        if isinstance(part, np.ndarray):
            return it.asarray(part) if part.dtype.kind in "biufc" else part
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
