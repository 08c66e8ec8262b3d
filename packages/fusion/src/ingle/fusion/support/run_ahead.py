"""Whether plans run ahead: in the background, while Python goes on."""

from __future__ import annotations

from ingle.tensor import settings
from ingle.tensor.errors import ArgumentError

MOST = 32
"""Plans that may wait at most: each holds the memory that it reads."""


class _Setting:
    __slots__ = ("plans",)

    def __init__(self) -> None:
        self.plans = 0


setting = _Setting()
"""How many plans may run ahead at this moment; asked at each call."""


def run_ahead(plans: int) -> None:
    """Lets so many plans run in the background while Python goes on; 0, as at first, none.

    A call of a compiled function, and the end of a step of plain code, then return when their
    memory is found, if what they run takes more than a millisecond. It runs after what was asked
    for before, and a read of a value waits for it: numbers are the same. `INGLE_RUN_AHEAD=2`
    sets it from the start.

    An error that only a run can find, such as an index out of range, is raised where somebody
    waits next: where a value is read, at `synchronize`, or at a later call. It names the line of
    the call that it comes from. What this call was to compute has no value then, and cells hold
    what they held before it, as do those that later calls wrote what they made of it to.

    Args:
        plans: 0 to 32. With 2 one runs and one waits, which is enough to hide what Python does.

    Raises:
        ArgumentError: `plans` is no such number.

    >>> import ingle.tensor as it
    >>> from ingle.fusion import compile, run_ahead
    >>> run_ahead(2)
    >>> square = compile(lambda x: x @ x)
    >>> [square(it.ones((4, 4)))[0, 0].item() for _ in range(3)]
    [4.0, 4.0, 4.0]
    >>> run_ahead(0)
    """
    if type(plans) is not int or not 0 <= plans <= MOST:
        raise ArgumentError(f"run_ahead: plans is {plans!r}; give a number from 0 to {MOST}")
    setting.plans = plans


def run_ahead_limit() -> int:
    """How many plans may run ahead."""
    return setting.plans


def _from_environment() -> None:
    meaning = "how many plans may run while Python goes on"
    setting.plans = settings.whole_number("INGLE_RUN_AHEAD", 0, MOST, meaning) or 0


_from_environment()
