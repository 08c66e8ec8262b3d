"""What measurements of products have found on this machine, kept for later processes."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import NamedTuple

from ingle.fusion.device import DiskStore, disk
from ingle.fusion.device.executables import folder_digest
from ingle.fusion.device.tuning import Entry, Tuner

from ..jit.engine import engine
from .problem import Variation

SECONDS = 0.1
"""What a process may spend on measurements."""


class Asked(NamedTuple):
    """What the tuner said of a problem.

    Attributes:
        variation: the winner; None for the first guess.
        due: whether it could not be measured for want of time, so that the next process shall.
    """

    variation: Variation | None
    due: bool


class Winners(Tuner):
    """The winners of one kind of machine.

    Args:
        store: where winners are kept.
        name: of their entry there.
        seconds: what may be spent on measurements.
    """

    def __init__(self, store: DiskStore, name: str, seconds: float = SECONDS) -> None:
        super().__init__(store, name, engine().machine.cpu, variation_in, seconds)

    def agrees(self, key: str, asked: Asked) -> bool:
        """Whether the answer about a problem would be the same now."""
        found = self.known(key)
        if found is None:
            return asked.variation is None and not (asked.due and self.left > 0)
        return variation_in(found) == asked.variation


def variation_in(entry: Entry) -> Variation:
    """What an entry says has won."""
    return Variation(*entry["variation"])


@functools.cache
def winners() -> Winners:
    """Those of this process."""
    # What was measured holds for this machine and for the code of this version.
    try:
        code = folder_digest(Path(__file__).parent)
    except OSError:  # nobody knows whose code was measured where there are no sources
        return Winners(DiskStore(None), "")
    key = hashlib.sha256(engine().machine.fingerprint + code.encode()).hexdigest()
    return Winners(disk(), f"tuning-{key[:16]}.json")
