"""Tables for all sizes as bytes; see `plan_store`."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from ingle.tensor.dtypes import as_dtype

from ..matmul.winners import winners
from ..threads.abi import FUNCTION
from ..threads.table import Table
from .code_places import FIELDS, CodePlaces, check_entries, count, read_tuned, recalled
from .table_set import SymbolicTable


def written_table(symbolic: SymbolicTable) -> bytes:
    """A table for all sizes.

    Raises:
        LookupError: it has code of an unknown origin.
    """
    table = symbolic.table
    places = CodePlaces(table.code)
    entries, args = table.entries[:, :FIELDS].copy(), symbolic.filled([0] * len(symbolic.sized))
    functions = [places.of(int(a)) for a in entries[:, FUNCTION]]
    addressed = [[at, *places.of(int(args[at]))] for at in symbolic.addressed]
    entries[:, FUNCTION] = 0
    args[symbolic.addressed] = 0
    said = {
        "objects": places.objects,
        "functions": functions,
        "addressed": addressed,
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
    entries, base_of, args = _arrays(content[8 + length :], said["sizes"])
    check_entries(entries, len(base_of), len(args))
    if len(entries) != len(said["functions"]):
        raise ValueError("arrays of different lengths")

    def address(of: Any, number: Any) -> int:
        return code[count(of)].addresses[count(number)]

    entries[:, FUNCTION] = [address(*place) for place in said["functions"]]
    for at, *place in said["addressed"]:
        args[count(at)] = address(*place)
    table = Table(
        entries, base_of=base_of, offset_of=np.zeros(len(base_of), np.int64),
        buffers=buffers + 1, args=args, code=code,
    )  # fmt: skip
    places = [count(n) for n in said["sized"]]
    numbers = [(count(at), count(n), as_dtype(name).name) for at, n, name in said["scalars"]]
    if any(n >= len(scalars) or name != scalars[n] for _, n, name in numbers):
        raise ValueError("a number of another type")
    if any(at >= len(args) for at in (*places, *[at for at, _, _ in numbers])):
        raise ValueError("a number goes nowhere")
    addressed = [at for at, *_ in said["addressed"]]
    return SymbolicTable(table, sized=places, scalars=numbers, addressed=addressed, tuned=tuned)


def _arrays(content: bytes, sizes: Sequence[Any]) -> list[np.ndarray]:
    numbers = np.frombuffer(content, "<i8").astype(np.int64)
    first, second, third = map(count, sizes)
    if first % FIELDS or first + second + third != len(numbers):
        raise ValueError("arrays of other sizes")
    entries, *rest = np.split(numbers, np.cumsum([first, second]))
    return [entries.reshape(-1, FIELDS), *rest]
