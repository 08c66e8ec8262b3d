"""Which inputs may be written over at a step: a tree that finds them without looking at all."""

from __future__ import annotations

import numpy as np
import pytest

from ingle.fusion.schedule.donation import FOREVER, _Waiting


@pytest.mark.parametrize("count", [0, 1, 2, 3, 8, 13])
def test_inputs_that_no_later_step_reads_come_in_order(count: int) -> None:
    rng = np.random.default_rng(count)
    last = [int(n) for n in rng.integers(-1, 6, count)]
    waiting = _Waiting(last)
    for step in (-1, 5, 2, 0, 3):
        free = [number for number, n in enumerate(last) if n <= step]
        assert list(waiting.until(step)) == free
        if free:
            taken = free[len(free) // 2]
            waiting.give(taken)
            last[taken] = FOREVER
        # As if it had been made anew: what was given away is not looked for again.
        assert waiting._least == _Waiting(last)._least
