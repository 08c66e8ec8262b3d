import struct

import numpy as np
import pytest

TYPES = {"uint8": 8, "int8": 9, "int16": 11, "int32": 12, "float32": 13, "float64": 14}


@pytest.fixture(scope="session")
def idx_bytes():
    """Writes an array as the bytes of an IDX file."""

    def write(array):
        array = np.asarray(array)
        head = struct.pack(
            f">HBB{array.ndim}I", 0, TYPES[array.dtype.name], array.ndim, *array.shape
        )
        return head + array.astype(array.dtype.newbyteorder(">")).tobytes()

    return write
