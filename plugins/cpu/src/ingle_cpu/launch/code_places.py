"""What records of tables have in common: code by the keys of its objects, checks of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..jit.engine import Code, engine, lasting
from ..matmul.problem import Variation
from ..matmul.winners import Asked
from ..threads.abi import FUNCTION, WITH_PREVIOUS
from ..threads.table import TableEntry

FIELDS = len(TableEntry._fields)


class CodePlaces:
    """Finds out which object an address is in, and which of its functions it is.

    Args:
        code: of a table.

    Attributes:
        objects: key and functions' names of those that were met, in the order of their numbers.
    """

    def __init__(self, code: Sequence[Code]) -> None:
        self.objects: list[list[Any]] = []
        self._numbers: dict[str, int] = {}
        self._known: dict[int, tuple[Code, int]] = {}
        for each in (*lasting(), *code):
            self._known.update({a: (each, n) for n, a in enumerate(each.addresses)})

    def of(self, address: int) -> list[int]:
        """The numbers of the object and of the function.

        Raises:
            LookupError: nobody knows where it comes from.
        """
        code, function = self._known[address]
        number = self._numbers.setdefault(code.key, len(self.objects))
        if number == len(self.objects):
            self.objects.append([code.key, code.names])
        return [number, function]

    def taken_out(
        self, entries: np.ndarray, args: np.ndarray, addressed: Sequence[int]
    ) -> dict[str, Any]:
        """What a record says of the code in a table's copies, in which nothing is left of it.

        Args:
            entries, args: the copies.
            addressed: places of arguments that are addresses of code.

        Raises:
            LookupError: nobody knows where some of it comes from.
        """
        functions = [self.of(int(a)) for a in entries[:, FUNCTION]]
        placed = [[at, *self.of(int(args[at]))] for at in addressed]
        entries[:, FUNCTION] = 0
        args[addressed] = 0
        return {"objects": self.objects, "functions": functions, "addressed": placed}


def put_back(
    said: Mapping[str, Any], code: Sequence[Code], entries: np.ndarray, args: np.ndarray
) -> list[int]:
    """Puts addresses of code to where `CodePlaces.taken_out` has found them; the places of
    arguments."""

    def address(of: Any, number: Any) -> int:
        return code[count(of)].addresses[count(number)]

    entries[:, FUNCTION] = [address(*place) for place in said["functions"]]
    for at, *place in said["addressed"]:
        args[count(at)] = address(*place)
    return [at for at, *_ in said["addressed"]]


def arrays_of(numbers: np.ndarray, sizes: Sequence[Any]) -> list[np.ndarray]:
    """The entries of a table and other arrays, which lie one behind the other.

    Raises:
        ValueError: they are of other sizes.
    """
    counts = [count(n) for n in sizes]
    if counts[0] % FIELDS or sum(counts) != len(numbers):
        raise ValueError("arrays of other sizes")
    entries, *rest = np.split(numbers, np.cumsum(counts[:-1]))
    return [entries.reshape(-1, FIELDS), *rest]


def recalled(objects: Sequence[Any]) -> list[Code] | None:
    """The code of some objects; None where one is gone."""
    codes = [engine().recalled(key, tuple(names)) for key, names in objects]
    found = [code for code in codes if code is not None]
    return found if len(found) == len(codes) else None


def check_entries(entries: np.ndarray, pointers: int, args: int) -> None:
    """Raises ValueError where an entry reads what is not there.

    Args:
        entries: of a table that is to be made.
        pointers, args: how many it has.
    """
    _, pointer, arg, units, grain, flags = entries.T
    if (
        (pointer < 0).any() or (pointer > pointers).any()
        or (arg < 0).any() or (arg > args).any()
        or (units < 0).any() or (grain < 1).any() or (flags & ~WITH_PREVIOUS).any()
    ):  # fmt: skip
        raise ValueError("an entry that is none")


def read_tuned(said: Mapping[str, Any]) -> dict[str, Asked]:
    """How products were chosen, as a record says it."""
    return {
        key: Asked(None if variation is None else Variation(*variation), bool(due))
        for key, (variation, due) in said.items()
    }


def count(n: Any) -> int:
    """A number that is one.

    Raises:
        ValueError: it is negative, too large, or none.
    """
    if type(n) is not int or not 0 <= n < 1 << 62:
        raise ValueError(f"{n!r} is no count")
    return n
