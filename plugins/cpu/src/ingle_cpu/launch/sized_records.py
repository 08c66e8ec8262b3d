"""Tables for all sizes as bytes; see `plan_store`."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence

import numpy as np

from ingle.tensor.dtypes import as_dtype

from ..matmul.winners import winners
from ..threads.table import Table
from .code_places import (
    FIELDS,
    CodePlaces,
    arrays_of,
    check_entries,
    count,
    put_back,
    read_tuned,
    recalled,
)
from .table_set import SymbolicTable


def written_table(symbolic: SymbolicTable) -> bytes:
    """A table for all sizes.

    Raises:
        LookupError: it has code of an unknown origin.
    """
    table = symbolic.table
    places = CodePlaces(table.code)
    entries, args = table.entries[:, :FIELDS].copy(), symbolic.filled([0] * len(symbolic.sized))
    said = {
        **places.taken_out(entries, args, symbolic.addressed),
        "sized": symbolic.sized,
        "scalars": symbolic.scalars,
        "tuned": symbolic.tuned,
        "sizes": [entries.size, len(table.base_of), len(args)],
    }
    text = json.dumps(said, separators=(",", ":"), allow_nan=False).encode()
    arrays = [a.astype("<i8").tobytes() for a in (entries, table.base_of, args)]
    return b"".join([struct.pack("<Q", len(text)), text, *arrays])


def read_table(content: bytes, buffers: int, scalars: Sequence[str]) -> SymbolicTable | None:
    """The table of such bytes; None where an object is gone, or the tuner has learnt something
    since.

    Args:
        content: the bytes.
        buffers: how many buffers there are, but scratch memory.
        scalars: the dtypes of the numbers that it takes.

    Raises:
        ValueError, TypeError, KeyError, IndexError, struct.error: they are none.
    """
    (length,) = struct.unpack_from("<Q", content)
    said = json.loads(content[8 : 8 + length])
    tuned = read_tuned(said["tuned"])
    if not all(winners().agrees(key, asked) for key, asked in tuned.items()):
        return None
    code = recalled(said["objects"])
    if code is None:
        return None
    numbers = np.frombuffer(content, "<i8", offset=8 + length).astype(np.int64)
    entries, base_of, args = arrays_of(numbers, said["sizes"])
    check_entries(entries, len(base_of), len(args))
    if len(entries) != len(said["functions"]):
        raise ValueError("arrays of different lengths")
    addressed = put_back(said, code, entries, args)
    table = Table(
        entries, base_of=base_of, offset_of=np.zeros(len(base_of), np.int64),
        buffers=buffers + 1, args=args, code=code,
    )  # fmt: skip
    places = [count(n) for n in said["sized"]]
    known = [(count(at), count(n), as_dtype(name).name) for at, n, name in said["scalars"]]
    if any(n >= len(scalars) or name != scalars[n] for _, n, name in known):
        raise ValueError("a number of another type")
    if any(at >= len(args) for at in (*places, *[at for at, _, _ in known])):
        raise ValueError("a number goes nowhere")
    return SymbolicTable(table, sized=places, scalars=known, addressed=addressed, tuned=tuned)
