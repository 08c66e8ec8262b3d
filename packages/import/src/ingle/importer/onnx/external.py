"""Data of ONNX tensors that lies in files beside the model: mapped into memory, never elsewhere."""

from __future__ import annotations

import math
import mmap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ModelError
from ..weights.source import let_go, mapped

if TYPE_CHECKING:
    import onnx


class ExternalData:
    """The files that a model's tensors lie in, each mapped once.

    Attributes:
        folder: of the model; empty for one that came from no file, which has none.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._files: dict[str, mmap.mmap] = {}
        self._places: dict[str, tuple[mmap.mmap, int, int]] = {}

    def bytes_of(self, message: onnx.TensorProto, size: int) -> memoryview:
        """The bytes of a tensor as they lie in its file.

        Args:
            message: a tensor whose data is external.
            size: how many bytes its shape and dtype take.

        Raises:
            ModelError: the file is missing, too short, or not in the model's folder.
        """
        told = {entry.key: entry.value for entry in message.external_data}
        location = told.get("location", "")
        offset, length = (self._number(told, key) for key in ("offset", "length"))
        offset = offset or 0
        if length is not None and length != size:
            raise ModelError(f"external data of {length} bytes, and its shape takes {size}")
        if not size:
            return memoryview(b"")
        data = self._mapped(location)
        if offset + size > len(data):
            raise ModelError(
                f"external data of {size} bytes at {offset} of {location!r}, which has {len(data)}"
            )
        self._places[message.name] = data, offset, size
        return memoryview(data)[offset : offset + size]

    def let_go(self, name: str) -> None:
        """Gives back the memory of a tensor that was copied to a device."""
        if name in self._places:
            let_go(*self._places[name])

    def _number(self, told: dict[str, str], key: str) -> int | None:
        if key not in told:
            return None
        if not told[key].isascii() or not told[key].isdigit() or len(told[key]) > 18:
            raise ModelError(f"the {key} of its external data is {told[key][:40]!r}")
        return int(told[key])

    def _mapped(self, location: str) -> mmap.mmap:
        if location in self._files:
            return self._files[location]
        if not self.folder:
            raise ModelError(
                f"its data lies in {location!r}, and a model in memory has no folder; load it by "
                "its path"
            )
        root = Path(self.folder).resolve()
        try:
            path = (root / location).resolve()
            inside = path.is_relative_to(root) and path.is_file()
        except (OSError, ValueError):  # a loop of links, or a name that no file has
            inside = False
        if not inside:
            raise ModelError(f"its data lies in {location[:200]!r}, which is no file of {root}")
        self._files[location] = mapped(path)
        return self._files[location]


def on_disk(message: onnx.TensorProto) -> bool:
    """Whether the data of a tensor lies in another file."""
    return bool(message.data_location == type(message).EXTERNAL)


def packed_size(shape: tuple[int, ...], dtype: np.dtype, bits: int) -> int:
    """Bytes that a tensor takes in a file, where several elements of few bits share one."""
    count = math.prod(shape)
    return count * dtype.itemsize if bits >= 8 else -(-count * bits // 8)
