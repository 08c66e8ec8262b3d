"""Calls that must fail, derived from the samples, and what their errors must say."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ingle.tensor import Tensor, asarray, device, zeros
from ingle.tensor.dtypes import from_numpy_dtype
from ingle.tensor.errors import IngleError
from ingle.tensor.pytree import flatten

from .cases import Case, Subject, cases, names_of
from .running import FAULTS
from .trees import fill_arrays

FAR = 99
"""An axis that no sample has."""
PLAIN: tuple[Any, ...] = (3.5, 2, True, 1 + 2j, None, [1.0, 2.0], np.ones((2, 3), np.float32))
"""What stands for a tensor in other libraries, and here only sometimes."""


def check(operation: Subject, where: str) -> None:
    """Wrong calls raise an `IngleError` that names the operation or its function.

    Calls that might be right, such as those with a number for a tensor, have a result otherwise.
    """
    case = next((c for d in ("float32", "int32", "bool") for c in cases(operation, d)), None)
    if case is None or case.has_functions:
        return
    assert operation.public is not None
    names = names_of(operation)
    for what, args, kwargs in itertools.chain(_strangers(case, where), _far_axes(case, where)):
        with device(where):
            try:
                result = operation.public(*args, **kwargs)
            except FAULTS as error:
                raise AssertionError(f"{what}: it came to the device: {error!r}") from error
            except IngleError as error:
                if any(n in str(error) for n in names):
                    continue
                raise AssertionError(f"{what}: {error!r} does not name the operation") from error
            except Exception as error:
                raise AssertionError(f"{what}: not an error of Ingle's: {error!r}") from error
        raise AssertionError(f"{what}: no error, it returned {result!r}")
    for what, args, kwargs in _plain(case, where):
        try:
            with device(where):
                wait_for(operation.public(*args, **kwargs))
        except FAULTS as error:
            raise AssertionError(f"{what}: the device failed: {error!r}") from error
        except IngleError:
            continue
        except Exception as error:
            raise AssertionError(f"{what}: neither a result nor an error: {error!r}") from error


def _strangers(case: Case, where: str) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Each tensor replaced by an object that is neither tensor nor number."""
    count = len(case.arrays)
    for place in range(count):
        values: list[Any] = [asarray(a, device=where) for a in case.arrays]
        values[place] = object()
        args, kwargs = fill_arrays(case.tree(), values)
        yield f"an object as tensor {place}", args, kwargs


def _plain(case: Case, where: str) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Each tensor replaced by a number or an array, or by a tensor of another kind."""
    for place, array in enumerate(case.arrays):
        kinds = [zeros((), dtype=from_numpy_dtype(array.dtype), device=where)]
        kinds += [zeros(array.shape, dtype=d, device=where) for d in ("bool", "complex64")]
        for other in (*PLAIN, *kinds):
            values: list[Any] = [asarray(a, device=where) for a in case.arrays]
            values[place] = other
            args, kwargs = fill_arrays(case.tree(), values)
            yield f"{other!r} as tensor {place}", args, kwargs


def wait_for(result: Any) -> None:
    """Reads the tensors in a result, so that what only waits to be computed is."""
    for leaf in flatten(result):
        if isinstance(leaf, Tensor):
            leaf.numpy()


def _far_axes(case: Case, where: str) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """An axis out of range, where the function has an `axis` that is given by name."""
    assert case.operation.public is not None
    parameter = inspect.signature(case.operation.public).parameters.get("axis")
    values = [asarray(a, device=where) for a in case.arrays]
    if parameter is None or parameter.kind is not parameter.KEYWORD_ONLY or not values:
        return
    args, kwargs = fill_arrays(case.tree(), values)
    yield f"axis={FAR}", args, {**kwargs, "axis": FAR}
