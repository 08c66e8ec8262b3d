"""Arrays of more than 2^31 elements: places that 32 bits cannot say.

One takes 2 GiB of bytes, and the check up to 6 GiB on the device and 2 GiB on the host, so that it
runs where a class declares that there is room.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor, asarray

from .checks import Findings

ROWS, COLUMNS = (1 << 15) + 1, 1 << 16
"""Of 2^31 + 65,536 bytes."""
TAIL = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.uint8)
"""What the last of them are; all others are zero."""


def check_huge(where: str) -> None:
    """Elements behind the first 2^31 are read, written, found and added up like others.

    Args:
        where: the device.
    """
    count = ROWS * COLUMNS
    zeros = it.zeros((count - len(TAIL),), dtype="uint8", device=where)
    x = it.concat([zeros, asarray(TAIL, device=where)])
    del zeros
    first = count - len(TAIL)
    places = asarray(np.array([first, 5, count - 3, -1]), device=where)
    calls: dict[str, tuple[Callable[[], Tensor], np.ndarray | int]] = {
        "slice": (lambda: x[-11:], np.concatenate([np.zeros(3, np.uint8), TAIL])),
        "steps": (lambda: x[::-1][: len(TAIL)], TAIL[::-1]),
        "take": (lambda: it.take(x, places, axis=0), np.array([3, 0, 9, 6], np.uint8)),
        "argmax": (lambda: it.argmax(x), count - 3),
        "max": (lambda: it.max(x), 9),
        "rows": (lambda: it.max(it.reshape(x, (ROWS, COLUMNS)), axis=1)[-2:], np.array([0, 9])),
        "arithmetic": (lambda: (x * 2 + 1)[-3:], TAIL[-3:] * 2 + 1),
        "assignment": (lambda: _assigned(x, first), np.array([0, 7, 1, 4])),
    }  # fmt: skip
    findings = Findings(f"{count} elements on {where}")
    for name, (compute, expected) in calls.items():
        with findings.at(name):
            got = compute().numpy()
            assert np.array_equal(got, expected), f"got {got}, expected {expected}"
    findings.close()


def _assigned(x: Tensor, place: int) -> Tensor:
    y = x + 0
    y[place] = 7
    return y[place - 1 : place + 3]
