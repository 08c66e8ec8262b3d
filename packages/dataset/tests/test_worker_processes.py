"""Loaders whose batches are made by other processes."""

from __future__ import annotations

import gc
import operator
import os
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

from ingle.dataset import (
    ArrayDataset,
    BatchError,
    DataValueError,
    Loader,
    MemoryDataset,
    SampleError,
)

pytestmark = pytest.mark.sampled(3)


def loader(dataset: Any, **options: Any) -> Loader:
    return Loader(dataset, 4, workers=2, worker_kind="processes", tensors=False, **options)


@pytest.mark.slow
def test_batches_are_those_of_no_workers_and_resume() -> None:
    data = ArrayDataset(np.arange(22.0), np.arange(22)).map(operator.itemgetter(0))
    plain = Loader(data, 4, shuffle=True, seed=3, tensors=False)
    want = [b.tolist() for b in plain]
    with loader(data, shuffle=True, seed=3) as made:
        running = iter(made)
        first = [next(running).tolist() for _ in range(2)]
        state = made.state()
    resumed = loader(data, shuffle=True, seed=3)
    resumed.load_state(state)
    assert first + [b.tolist() for b in resumed] == want


@pytest.mark.slow
def test_errors_of_samples_and_dead_processes_are_named() -> None:
    wrong = MemoryDataset([1, 2, "x", 4]).map(operator.neg)
    with pytest.raises(SampleError, match=r"sample 2 of .* TypeError") as caught:
        list(loader(wrong))
    assert caught.value.index == 2
    with pytest.raises(BatchError, match=r"one of the 2 worker processes died.*`if __name__"):
        list(loader(MemoryDataset([3, 3]).map(os._exit)))


def test_what_cannot_be_pickled_is_refused() -> None:
    with pytest.raises(DataValueError, match=r"cannot go to another process.*top of a module"):
        list(loader(MemoryDataset([1]).map(lambda x: x)))
    with pytest.raises(DataValueError, match="worker_kind must be"):
        Loader([1], 1, worker_kind="fibers")  # type: ignore[arg-type]


class Own:
    """Samples that say which process made them."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return os.getpid()


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def gone(processes: set[int]) -> bool:
    end = time.monotonic() + 20
    while any(map(alive, processes)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(alive, processes))


def makers(made: Loader) -> set[int]:
    return {int(process) for batch in made for process in batch}


@pytest.mark.slow
def test_processes_stay_between_epochs_until_the_loader_is_closed() -> None:
    made = loader(Own(), persistent=True)
    first = makers(made)
    next(iter(made))  # left early
    assert makers(made) | first == first or len(makers(made) | first) <= 2
    everyone = first | makers(made)
    assert len(everyone) <= 2
    assert all(map(alive, everyone))
    made.close()
    assert gone(everyone)
    assert makers(made).isdisjoint(everyone)  # new ones
    with loader(Own()) as plain:
        once = makers(plain)
        assert gone(once)
        assert makers(plain).isdisjoint(once)
    everyone = makers(made)
    del made
    gc.collect()
    assert gone(everyone)


class Mortal(Own):
    """Its process dies at sample 5, as long as a file is there."""

    def __init__(self, file: str) -> None:
        self.file = file

    def __getitem__(self, index: int) -> int:
        if index == 5 and os.path.exists(self.file):
            os._exit(1)
        return index


@pytest.mark.slow
def test_processes_that_died_are_replaced_in_the_next_loop(tmp_path: Any) -> None:
    file = tmp_path / "deadly"
    file.touch()
    with loader(Mortal(str(file)), persistent=True) as made:
        with pytest.raises(BatchError, match="died"):
            list(made)
        file.unlink()
        assert [batch.tolist() for batch in made] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_only_processes_stay() -> None:
    with pytest.raises(DataValueError, match="persistent=True keeps processes"):
        Loader(range(4), 2, persistent=True)


STUCK = """
import os, signal, time
from ingle.dataset import Loader, MemoryDataset

def sample(index):
    if index:
        print(os.getpid(), flush=True)
        time.sleep(1000)
    return index

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started it may ignore it
    data = MemoryDataset([0, 1]).map(sample)
    for batch in Loader(data, 1, workers=1, worker_kind="processes", tensors=False):
        pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["SIGINT", "SIGKILL"])
def test_a_process_that_is_stuck_ends_with_its_program(tmp_path: Any, number: int) -> None:
    (tmp_path / "stuck.py").write_text(STUCK)
    command = [sys.executable, str(tmp_path / "stuck.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        process = int(program.stdout.readline())
        program.send_signal(number)
        try:
            program.communicate(timeout=60)
        finally:
            program.kill()
    assert gone({process})
