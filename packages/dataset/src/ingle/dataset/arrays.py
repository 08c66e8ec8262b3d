"""Datasets that lie in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .base import IndexedDataset, Indices, position
from .errors import DataValueError

Array = NDArray[Any]


class ArrayDataset(IndexedDataset[Any]):
    """Arrays whose first axis counts the samples.

    A sample has the structure that was given: one array gives rows, several give tuples of rows,
    keywords or a mapping give dicts of rows.

    Args:
        arrays: arrays (or nested lists) of equal first size, or one mapping of names to arrays.
        named: arrays by name.

    Raises:
        DataValueError: the sizes differ, an array has no axes, or nothing was given.

    >>> import numpy as np
    >>> from ingle.dataset import ArrayDataset
    >>> pairs = ArrayDataset(np.zeros((3, 2)), np.array([0, 1, 2]))
    >>> len(pairs), pairs[1]
    (3, (array([0., 0.]), np.int64(1)))
    >>> ArrayDataset(x=np.arange(3.0))[2]
    {'x': np.float64(2.0)}
    """

    def __init__(self, *arrays: ArrayLike | Mapping[str, ArrayLike], **named: ArrayLike) -> None:
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            named = {**arrays[0], **named}
            arrays = ()
        if bool(arrays) == bool(named):
            raise DataValueError(
                "ArrayDataset: give arrays, or arrays by name; "
                + ("got both" if arrays else "got none")
            )
        self._names = tuple(named)
        given = named.items() if named else [(f"array {i}", a) for i, a in enumerate(arrays)]
        self._arrays = tuple(_checked(name, a) for name, a in given)
        sizes = [len(a) for a in self._arrays]
        if len(set(sizes)) > 1:
            have = ", ".join(f"{n} has {s}" for (n, _), s in zip(given, sizes, strict=True))
            raise DataValueError(
                f"ArrayDataset: the arrays differ in their number of samples: {have}"
            )

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays, in the order in which they were given. Nothing is copied."""
        return self._arrays

    def __len__(self) -> int:
        return len(self._arrays[0])

    def __getitem__(self, index: int, /) -> Any:
        at = position(index, len(self), self)
        return self._structured([a[at] for a in self._arrays])

    @property
    def takes_copies(self) -> bool:
        """Whether nobody else holds the arrays of `take`: indexing by integers copies."""
        return type(self).take is ArrayDataset.take

    def take(self, indices: Indices) -> Any:
        """A batch of the samples at `indices`."""
        return self._structured([a[indices] for a in self._arrays])

    def _structured(self, parts: list[Any]) -> Any:
        if self._names:
            return dict(zip(self._names, parts, strict=True))
        return parts[0] if len(parts) == 1 else tuple(parts)

    def __repr__(self) -> str:
        names = self._names or ("",) * len(self._arrays)
        parts = [
            f"{n}{'=' if n else ''}{a.dtype}{list(a.shape)}"
            for n, a in zip(names, self._arrays, strict=True)
        ]
        return f"ArrayDataset({', '.join(parts)})"


def _checked(name: str, given: Any) -> Array:
    try:
        array = np.asarray(given)
    except ValueError:
        raise DataValueError(
            f"ArrayDataset: {name} is a list whose parts differ in length; pad them to one, or put "
            "the list itself into MemoryDataset and pad in batches: Loader(..., collate=Padding())"
        ) from None
    if array.ndim == 0:
        raise DataValueError(f"ArrayDataset: {name} is a single value; its first axis must count")
    if array.dtype.kind == "O":
        raise DataValueError(
            f"ArrayDataset: {name} holds Python objects; give arrays of numbers, or write a "
            "dataset with __len__ and __getitem__"
        )
    return array


def check_labels(labels: ArrayLike, classes: int) -> None:
    """Raises `DataValueError` unless labels are integers from 0 to `classes - 1`.

    Args:
        labels: of any shape.
        classes: how many classes there are.

    Raises:
        DataValueError: labels that are no integers, or out of range.

    >>> from ingle.dataset import check_labels
    >>> check_labels([0, 3, 12], classes=10)
    Traceback (most recent call last):
    ...
    ingle.dataset.errors.DataValueError: label 12 at index 2 is out of range: ...
    """
    found = np.asarray(labels)
    if found.dtype.kind not in "iu":
        raise DataValueError(
            f"labels must be integers from 0 to {classes - 1}, got {found.dtype}; "
            "convert them with labels.astype('int64')"
        )
    wrong = np.argwhere((found < 0) | (found >= classes))
    if len(wrong):
        at = tuple(int(i) for i in wrong[0])
        raise DataValueError(
            f"label {found[at]} at index {at[0] if len(at) == 1 else at} is out of range: "
            f"{classes} classes have labels 0 to {classes - 1} "
            f"({len(wrong)} of {found.size} labels are wrong); "
            "correct the data, or count the classes anew"
        )
