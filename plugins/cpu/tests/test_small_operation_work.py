"""How many frames of Python operations on few elements take; each takes some 50 ns and more."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import ingle.tensor as it
from ingle.tensor import locks
from ingle_cpu.background.queue import queue
from ingle_cpu.memory import queues


def frames_of(function: Callable[[], Any]) -> list[str]:
    """The names of the functions that are entered, where all is known that can be.

    Those of the shortest of some calls: now and then a stream looks at what it holds.
    """
    for _ in range(20):
        function()
    return min([_frames_of_one(function) for _ in range(5)], key=len)


def _frames_of_one(function: Callable[[], Any]) -> list[str]:
    frames: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        # From Python 3.14 on, a lock that signals cannot leave taken has frames of its own.
        if event == "call" and frame.f_code.co_filename != locks.__file__:
            frames.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return frames


def given(*shape: int) -> it.Tensor:
    return it.asarray(np.ones(shape, np.float32), device="cpu")


def test_an_add_that_is_read_takes_few_frames() -> None:
    x, y = given(4), given(4)
    frames = frames_of(lambda: (x + y).numpy())
    assert (x + y).tolist() == [2.0, 2.0, 2.0, 2.0]
    assert len(frames) <= 28, frames


def test_a_queue_in_the_background_adds_no_frame_to_a_read() -> None:
    x, y = given(4), given(4)
    queue()
    assert queues
    frames = frames_of(lambda: (x + y).numpy())
    assert len(frames) <= 28, frames


@pytest.mark.parametrize(
    ("name", "most"), [("linear", 18), ("layer_norm", 28), ("slice", 25), ("reshape", 18)]
)
def test_an_operation_that_is_written_down_takes_few_frames(name: str, most: int) -> None:
    x, weight, bias = given(2, 8), given(8, 8), given(8)
    calls: dict[str, Callable[[], it.Tensor]] = {
        "linear": lambda: it.linear(x, weight, bias),
        "layer_norm": lambda: it.layer_norm(x, (8,), bias, bias),
        "slice": lambda: x[:, 2:6],
        "reshape": lambda: it.reshape(x, (2, 2, 4)),
    }
    frames = frames_of(calls[name])
    assert len(frames) <= most, frames


@pytest.mark.usefixtures("first_operations")
@pytest.mark.parametrize(("name", "most"), [("sum", 41), ("exp", 32), ("slice", 38)])
def test_a_kernel_that_is_read_takes_few_frames(name: str, most: int) -> None:
    x = given(2, 8)
    calls: dict[str, Callable[[], it.Tensor]] = {
        "sum": lambda: it.sum(x, axis=1),
        "exp": lambda: it.exp(x),
        "slice": lambda: x[:, 2:6],
    }
    frames = frames_of(lambda: calls[name]().numpy())
    assert len(frames) <= most, frames
