"""Ctrl-C while training: a whole step, a checkpoint, and how to go on."""

import signal
import threading

import numpy as np
import pytest
from learners import loader, make, weights

from ingle.train import Callback, TrainingInterruptedError


@pytest.fixture(autouse=True)
def python_handles_ctrl_c():
    """A shell starts what runs in its background with Ctrl-C ignored."""
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, old)


class CtrlC(Callback):
    def __init__(self, step, times=1):
        self.step, self.times = step, times

    def on_step(self, learner, loss):
        if learner.steps == self.step:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("step", [2, 5, 7], ids=["within", "at the end", "in the second"])
def test_the_step_is_saved_and_training_goes_on_as_if_never_interrupted(tmp_path, step):
    whole = make()
    whole.fit(loader(), epochs=3)
    part = make(checkpoints=tmp_path, callbacks=[CtrlC(step)])
    with pytest.raises(TrainingInterruptedError, match=rf"after step {step}, .*resume=True") as e:
        part.fit(loader(), epochs=3)
    assert (e.value.step, e.value.checkpoint) == (step, part.checkpoints.latest())
    assert part.stopped == "interrupted by Ctrl-C"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    rest = make(checkpoints=tmp_path)
    rest.fit(loader(), epochs=3, resume=True)
    np.testing.assert_array_equal(weights(whole), weights(rest))
    assert [r["train/loss"] for r in whole.history] == [r["train/loss"] for r in rest.history]


def test_without_a_folder_it_says_what_would_help():
    learner = make(callbacks=[CtrlC(2)])
    with pytest.raises(KeyboardInterrupt, match=r"step 2, in epoch 1: .*checkpoints=FOLDER"):
        learner.fit(loader(), epochs=1)
    assert learner.steps == 2


def test_a_second_one_interrupts_at_once(tmp_path):
    learner = make(checkpoints=tmp_path, callbacks=[CtrlC(2, times=2)])
    with pytest.raises(KeyboardInterrupt) as e:
        learner.fit(loader(), epochs=1)
    assert not isinstance(e.value, TrainingInterruptedError)
    assert learner.checkpoints.paths() == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_program_with_a_handler_of_its_own_keeps_it():
    seen = []
    old = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        assert len(make(callbacks=[CtrlC(2)]).fit(loader(), epochs=1)) == 1
    finally:
        signal.signal(signal.SIGINT, old)
    assert seen == [signal.SIGINT]


def test_training_in_another_thread():
    found = []
    thread = threading.Thread(target=lambda: found.extend(make().fit(loader(), epochs=1)))
    thread.start()
    thread.join()
    assert len(found) == 1


def test_behind_the_last_step_there_is_no_further_epoch():
    class Late(Callback):
        def on_fit_end(self, learner):
            signal.raise_signal(signal.SIGINT)

    learner = make(callbacks=[Late()])
    with pytest.raises(TrainingInterruptedError, match=r"^interrupted after .* in epoch 2:"):
        learner.fit(loader(), epochs=2)
