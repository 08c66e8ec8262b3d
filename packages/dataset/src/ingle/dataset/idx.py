"""Reading IDX files, the format of MNIST: a short header, then the array, plain or gzipped.

Four bytes of magic (two zeros, the type of the elements, the number of axes), one big-endian
32-bit size for each axis, then the elements in C order, big-endian too.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import DataFileError, MissingDataError

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: str | Path) -> NDArray[Any]:
    """The array in an IDX file; a file that begins as gzip does is unpacked on the way.

    Raises:
        MissingDataError: there is no such file.
        DataFileError: the file is truncated, has bytes left over, or is of another format.
    """
    path = Path(path)
    data = _contents(path)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _TYPES:
        raise DataFileError(
            f"{path}: not an IDX file: it begins with {data[:4].hex(' ') or 'nothing'}, expected "
            f"00 00, a type (08 for bytes) and a number of axes.{_CURE}"
        )
    dtype, ndim = np.dtype(_TYPES[data[2]]), data[3]
    header = 4 + 4 * ndim
    if len(data) < header:
        raise DataFileError(
            f"{path}: truncated in its header: {len(data)} bytes, expected {header}.{_CURE}"
        )
    shape = struct.unpack(f">{ndim}I", data[4:header])
    expected = header + math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        what = "truncated" if len(data) < expected else "longer than its header says"
        raise DataFileError(
            f"{path}: {what}: {len(data)} bytes, expected {expected} for shape {shape} of "
            f"{dtype.newbyteorder('=')}.{_CURE}"
        )
    values = np.frombuffer(data, dtype, offset=header).reshape(shape)
    return values.astype(dtype.newbyteorder("="))


_CURE = " Delete the file and download it again, or copy it from where it is whole"


def _contents(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise MissingDataError(f"{path}: there is no such file") from None
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataFileError(
            f"{path}: the gzip data is truncated or corrupt after {len(data)} bytes on disk "
            f"({error}).{_CURE}"
        ) from None
