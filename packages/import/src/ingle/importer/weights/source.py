"""Weights of a file: arrays by name, read when they are asked for."""

from __future__ import annotations

import mmap
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from ..errors import WeightsError


class Weights(Mapping[str, np.ndarray]):
    """Arrays by name. Asking for one reads it, or only maps it where it is stored as it is.

    Attributes:
        path: of the file.
        metadata: what the file says about itself.

    >>> import pathlib, tempfile
    >>> from ingle import importer, nn
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> _ = importer.save_safetensors(path, nn.Linear(4, 2))
    >>> weights = importer.open_weights(path)
    >>> isinstance(weights, importer.Weights), sorted(weights), weights["bias"].shape
    (True, ['bias', 'weight'], (2,))
    """

    def __init__(self, path: Path, metadata: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self.metadata: dict[str, Any] = dict(metadata or {})

    @abstractmethod
    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an array, without reading it."""

    @abstractmethod
    def dtype(self, name: str) -> str:
        """The dtype as the file calls it, such as `F32` or `Q4_K`."""

    def let_go(self, name: str) -> None:
        """Gives back the memory of an array that was read; asking for it reads it again."""

    def describe(self) -> Iterator[str]:
        """A line for each array."""
        for name in self:
            yield f"{name}: {self.dtype(name)}{list(self.shape(name))}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r}, {len(self)} arrays)"


class Entry(Protocol):
    """What a table of a file says of an array."""

    @property
    def kind(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...


E = TypeVar("E", bound=Entry)


class TabledWeights(Weights, Generic[E]):
    """Weights of a file that begins with a table of them."""

    _entries: dict[str, E]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._entries[name].shape

    def dtype(self, name: str) -> str:
        return self._entries[name].kind


def mapped(path: Path) -> mmap.mmap:
    """The bytes of a file, read only as they are touched; nothing can be written through it."""
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:
        raise WeightsError(f"{path}: the file is empty") from None
    except OSError as error:
        raise WeightsError(f"{path}: it cannot be read: {error.strerror}") from error


def let_go(data: mmap.mmap, start: int, size: int) -> None:
    """Takes pages of a mapped file out of this process; who touches them again maps them again.

    Without it a file that is copied to a device would count twice, as its copy and as mapped pages.
    """
    page = mmap.PAGESIZE
    first = -(-start // page) * page
    length = (start + size) // page * page - first
    if length > 0 and hasattr(data, "madvise"):
        data.madvise(mmap.MADV_DONTNEED, first, length)


def possible(shape: tuple[int, ...], dtype: np.dtype) -> bool:
    """Whether an array may have a shape: even without elements its other sizes count."""
    count = dtype.itemsize
    for n in shape:
        count *= max(n, 1)
    return len(shape) <= 64 and count < 1 << 62


def view(
    data: mmap.mmap | bytes, dtype: np.dtype, shape: tuple[int, ...], start: int
) -> np.ndarray:
    """An array that lies in mapped bytes; its shape is `possible`."""
    count = 1
    for n in shape:
        count *= n
    if not count:
        return np.zeros(shape, dtype)
    return np.frombuffer(data, dtype, count, start).reshape(shape)
