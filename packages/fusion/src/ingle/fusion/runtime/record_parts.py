"""What records of plans have in common: a JSON text with bytes behind it, compressed, and checks of
what it says."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from ingle.tensor.errors import IngleError


class UnsuitableError(Exception):
    """A record that says something that is not so."""


NONSENSE = (
    UnsuitableError, IngleError, zlib.error, struct.error, ValueError, KeyError, TypeError,
    IndexError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip
"""What bytes lead to that are no record."""


def packed(said: object, sections: Sequence[bytes], most: int) -> bytes | None:
    """What a record says, and bytes that it has besides; None if that is more than so many bytes.

    Raises:
        TypeError, ValueError: something in it is no data.
    """
    text = json.dumps(said, separators=(",", ":"), allow_nan=False).encode()
    whole = b"".join([struct.pack("<Q", len(text)), text, *sections])
    return None if len(whole) > most else zlib.compress(whole, 1)


def unpacked(content: bytes, most: int) -> tuple[Any, bytes]:
    """What a record says, and the bytes behind it; of more than so many bytes, the first ones.

    Raises:
        zlib.error, struct.error, ValueError: it is none.
    """
    whole = zlib.decompressobj().decompress(content, most)
    (length,) = struct.unpack_from("<Q", whole)
    return json.loads(whole[8 : 8 + length]), whole[8 + length :]


def must(condition: bool) -> None:
    """Refuses a record of which something is not so.

    Raises:
        UnsuitableError: it is not.
    """
    if not condition:
        raise UnsuitableError


def count(n: Any) -> int:
    """A number of a record that counts something.

    Raises:
        UnsuitableError: it is negative, too large, or none.
    """
    if type(n) is not int or not 0 <= n < 1 << 62:  # without a call: a plan has thousands
        raise UnsuitableError
    return n
