"""Calls as source text that one can paste into Python to see a failure again."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import ingle.tensor as it
from ingle.tensor.dtypes import DType, from_numpy_dtype

from .cases import Case
from .layouts import LAYOUTS
from .trees import fill_arrays


class _Text(str):
    """Source text among arguments."""

    def __repr__(self) -> str:
        return str(self)


def call_text(case: Case, where: str, layouts: Sequence[str] = ()) -> str:
    """The call of a case as source text.

    Args:
        case: the call.
        where: the device that the tensors are put on.
        layouts: the layout of each of its arrays; plain if not given.
    """
    chosen = layouts or ["plain"] * len(case.arrays)
    tensors = [
        _Text(tensor_text(a, where, layout))
        for a, layout in zip(case.arrays, chosen, strict=True)
    ]  # fmt: skip
    args, kwargs = fill_arrays(case.tree(), list(tensors))
    parts = [argument_text(a) for a in args]
    parts += [f"{name}={argument_text(value)}" for name, value in kwargs.items()]
    assert case.operation.public is not None
    call = f"{function_text(case.operation.public)}({', '.join(parts)})"
    needs = ["import ingle.tensor as it"]
    if re.search(r"\b(nan|inf)\b", call):
        needs.insert(0, "from math import inf, nan")
    if "np." in call:
        needs.insert(0, "import numpy as np")
    return "\n".join([*needs, call])


def _nothing() -> None: ...


def function_text(function: Callable[..., Any]) -> str:
    """Where users find a function: in `ingle.tensor` or in a module of it."""
    name, plain = function.__name__, inspect.unwrap(function)
    for path, module in (("it", it), ("it.linalg", it.linalg), ("it.fft", it.fft)):
        if inspect.unwrap(getattr(module, name, _nothing)) is plain:
            return f"{path}.{name}"
    return f"{function.__module__}.{name}"


def tensor_text(array: np.ndarray, where: str, layout: str = "plain") -> str:
    """A tensor with the array's values as source text."""
    how = LAYOUTS[layout]
    if not how.fits(array):
        how = LAYOUTS["plain"]
    stored = how.stored(array)
    if how.shared:
        width = array.shape[-1]
        line = np.concatenate([stored[..., 0, :], stored[..., 1:, -1]], axis=-1)
        values = f"np.array({line.tolist()}, {array.dtype.name!r})"
        windows = f"np.lib.stride_tricks.sliding_window_view({values}, {width}, axis=-1)"
        return f"it.asarray({windows}, device={where!r}, copy=False)"
    return how.text(_stored_text(stored, where), array.shape)


def _stored_text(array: np.ndarray, where: str) -> str:
    dtype = from_numpy_dtype(array.dtype).name
    if not array.size:
        return f"it.zeros({array.shape}, dtype={dtype!r}, device={where!r})"
    return f"it.asarray({array.tolist()}, dtype={dtype!r}, device={where!r})"


def argument_text(value: Any) -> str:
    """An argument that is no array as source text; in sequences there may be tensors' text."""
    if isinstance(value, DType):
        return repr(value.name)
    if isinstance(value, list):
        return f"[{', '.join(map(argument_text, value))}]"
    if isinstance(value, tuple):
        inside = ", ".join(map(argument_text, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k!r}: {argument_text(v)}" for k, v in value.items()) + "}"
    return repr(value)
