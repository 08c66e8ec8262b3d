"""Reading IDX files, the format of MNIST: a short header, then the array, plain or gzipped.

Four bytes of magic (two zeros, the type of the elements, the number of axes), one big-endian
32-bit size for each axis, then the elements in C order, big-endian too.
"""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from .errors import DataFileError, MissingDataError

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


MOST = 2 << 30
"""Bytes that a gzipped file may unpack to: a few megabytes of gzip can hold gigabytes of zeros."""
_MOST_AXES = 32
_CURE = " Delete the file and download it again, or copy it from where it is whole"


def read_idx(path: str | Path, *, max_bytes: int = MOST) -> NDArray[Any]:
    """The array in an IDX file; a file that begins as gzip does is unpacked on the way.

    No more is read and unpacked than the header asks for.

    Args:
        path: of the file.
        max_bytes: the most that a gzipped file may unpack to; what is larger is refused.

    Raises:
        MissingDataError: there is no such file.
        DataFileError: the file is truncated, has bytes left over, is of another format, cannot be
            read, or unpacks to more than `max_bytes`.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "labels"
    >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))  # bytes, one axis of 3
    >>> read_idx(path).tolist()
    [7, 2, 1]
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            if zipped:
                with gzip.GzipFile(fileobj=file) as unpacked:
                    return _read(path, unpacked, max_bytes, None)
            return _read(path, file, None, os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        raise MissingDataError(f"{path}: there is no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataFileError(
            f"{path}: the gzip data is truncated or corrupt after {path.stat().st_size} bytes on "
            f"disk ({error}).{_CURE}"
        ) from None
    except OSError as error:
        raise DataFileError(f"{path}: it cannot be read: {error.strerror or error}") from error


def _read(
    path: Path, file: IO[bytes] | gzip.GzipFile, most: int | None, size: int | None
) -> NDArray[Any]:
    """The array; `most` is what may be unpacked, `size` the bytes there are, where it is known."""
    start = file.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in _TYPES or start[3] > _MOST_AXES:
        raise DataFileError(
            f"{path}: not an IDX file: it begins with {start.hex(' ') or 'nothing'}, expected "
            f"00 00, a type (08 for bytes) and a number of axes.{_CURE}"
        )
    dtype, ndim = np.dtype(_TYPES[start[2]]), start[3]
    header = 4 + 4 * ndim
    sizes = file.read(4 * ndim)
    if len(sizes) < 4 * ndim:
        raise DataFileError(
            f"{path}: truncated in its header: {4 + len(sizes)} bytes, expected {header}.{_CURE}"
        )
    shape = struct.unpack(f">{ndim}I", sizes)
    expected = header + math.prod(shape) * dtype.itemsize
    if most is not None and expected > most:
        raise DataFileError(
            f"{path}: it unpacks to {expected} bytes, an array of shape {shape}, and at most "
            f"{most} are read; if that is right, pass max_bytes={expected}"
        )
    if size is None or size == expected:
        data = file.read(expected - header)
        more = len(file.read(1)) if len(data) == expected - header else 0
        size = header + len(data) + more
    if size != expected:
        what = "truncated" if size < expected else "longer than its header says"
        raise DataFileError(
            f"{path}: {what}: {size} bytes{' or more' if most and size > expected else ''}, "
            f"expected {expected} for shape {shape} of {dtype.newbyteorder('=')}.{_CURE}"
        )
    try:
        values = np.frombuffer(data, dtype).reshape(shape)
    except ValueError as error:  # no elements, on axes too long for an array
        raise DataFileError(f"{path}: no array has the shape {shape}: {error}.{_CURE}") from None
    return values.astype(dtype.newbyteorder("="))
