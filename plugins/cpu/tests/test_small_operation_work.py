"""How many frames of Python an operation on few elements takes that is read at once."""

import sys
from types import FrameType
from typing import Any

import numpy as np

import ingle.tensor as it

MOST_FRAMES = 28
"""Of `(x + y).numpy()`; each takes some 50 ns and more."""


def test_an_add_that_is_read_takes_few_frames() -> None:
    x = it.asarray(np.arange(4, dtype=np.float32), device="cpu")
    y = it.asarray(np.ones(4, np.float32), device="cpu")
    for _ in range(20):
        (x + y).numpy()
    frames: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            frames.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        found = (x + y).numpy()
    finally:
        sys.setprofile(before)
    assert found.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert len(frames) <= MOST_FRAMES, frames
