"""Loaders whose batches are made by other processes."""

from __future__ import annotations

import gc
import multiprocessing
import operator
import os
import signal
import subprocess
import sys
import time
import weakref
from concurrent.futures import Future
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
    worker_processes,
)
from ingle.dataset.worker_processes import Workers

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


class ReadsOnlyHere:
    """What goes into a pickle, and does not come out of it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("seven",)


def what_stays(index: int) -> Any:
    return ReadsOnlyHere() if index else (one for one in ())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("index", "why"), [(0, "another process.*cannot pickle"), (1, "unpickled.*'seven'")]
)
def test_batches_that_cannot_go_to_the_program_are_named(index: int, why: str) -> None:
    made = loader(MemoryDataset([index]).map(what_stays), collate=list)
    with pytest.raises(BatchError, match=f"(?s)batch 0 .*{why}"):
        list(made)


def interrupted(index: int) -> int:
    signal.raise_signal(signal.SIGINT)
    return index


@pytest.mark.slow
def test_interrupts_are_the_programs_own_to_handle() -> None:
    """A terminal sends Ctrl-C to all processes; a training, say, has the step go on."""
    with loader(MemoryDataset([1, 2]).map(interrupted)) as made:
        assert [batch.tolist() for batch in made] == [[1, 2]]


def sleep_unless_first(index: int) -> int:
    time.sleep(1000 * (index > 3))
    return index


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [False, True])
def test_a_loader_is_closed_while_a_sample_never_comes(persistent: bool) -> None:
    made = loader(MemoryDataset(range(8)).map(sleep_unless_first), persistent=persistent)
    running = iter(made)
    assert next(running).tolist() == [0, 1, 2, 3]
    start = time.monotonic()
    made.close()
    assert time.monotonic() - start < 60
    assert list(running) == []


@pytest.mark.slow
def test_the_death_of_a_process_is_seen_though_its_side_of_the_pipe_stays_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on Windows, where a process died before it took its side."""
    made, copies = multiprocessing.Pipe, list[int]()

    def copied() -> Any:
        pair = made()
        copies.append(os.dup(pair[1].fileno()))
        return pair

    monkeypatch.setattr(multiprocessing, "Pipe", copied)
    try:
        with pytest.raises(BatchError, match="died"):
            list(loader(MemoryDataset([3, 3]).map(os._exit)))
    finally:
        for copy in copies:
            os.close(copy)


class Owner:
    pass


def test_what_is_asked_for_while_the_workers_are_closed_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = []

    class Closing:
        """Another thread closes the workers just before the process is asked for its batch."""

        def __init__(self, held: bytes) -> None:
            pass

        def make(self, indices: Any) -> Future[bytes]:
            workers.close()
            return Future()

        def end(self) -> None:
            ended.append(self)

        def join(self, patience: float) -> None:
            assert ended

    monkeypatch.setattr(worker_processes, "_Process", Closing)
    owner = Owner()
    workers = Workers(MemoryDataset([1]), None, 1, owner)
    with pytest.raises(RuntimeError, match="closed while it was iterated over"):
        list(workers.batches(iter([np.array([0])])))
    assert len(ended) == 2, "once more, for what came behind the first end"


def test_a_batch_goes_to_the_process_with_the_least_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    class Counting:
        """What it was asked for, and how much of that it has made."""

        def __init__(self, held: bytes) -> None:
            self.asked: list[int] = []
            self.made = 0
            started.append(self)

        def waiting(self) -> int:
            return len(self.asked) - self.made

        def make(self, indices: Any) -> Future[bytes]:
            self.asked.append(*indices)
            return Future()

        def end(self) -> None:
            pass

        def join(self, patience: float) -> None:
            pass

    monkeypatch.setattr(worker_processes, "_Process", Counting)
    owner = Owner()
    workers = Workers(MemoryDataset([1]), None, 2, owner)
    for number in range(6):
        if number == 4:
            started[1].made = 2
        workers._begin(np.array([number]))
    assert [process.asked for process in started] == [[0, 2], [1, 3, 4, 5]]


@pytest.mark.slow
def test_a_batch_that_nobody_wants_any_more_stops_none_behind_it() -> None:
    owner = Owner()
    workers = Workers(MemoryDataset([0.2, 0.0]).map(time.sleep), None, 1, owner)
    unwanted, wanted = (workers._begin(np.array([index])) for index in (0, 1))
    assert unwanted.cancel()
    wanted.result(timeout=120)
    workers.close()


def test_closed_workers_keep_no_dataset() -> None:
    owner = Owner()
    workers = Workers(MemoryDataset([1]), None, 1, owner)
    known = weakref.ref(workers)
    workers.close()
    del workers
    gc.collect()
    assert known() is None


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
import os, signal, sys, time
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
        BODY
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["SIGINT", "SIGKILL"])
def test_a_process_that_is_stuck_ends_with_its_program(tmp_path: Any, number: int) -> None:
    assert gone({ended(tmp_path, "pass", number)})


@pytest.mark.slow
@pytest.mark.parametrize("body", ["break", "sys.exit()", "raise KeyboardInterrupt"])
def test_a_program_that_leaves_a_loop_ends_though_a_process_is_stuck(
    tmp_path: Any, body: str
) -> None:
    assert gone({ended(tmp_path, body, None)})


def ended(folder: Any, body: str, number: int | None) -> int:
    """The worker process of a program that has ended, by a signal if one is given."""
    (folder / "stuck.py").write_text(STUCK.replace("BODY", body))
    command = [sys.executable, str(folder / "stuck.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        process = int(program.stdout.readline())
        if number is not None:
            program.send_signal(number)
        try:
            program.communicate(timeout=60)
        finally:
            program.kill()
    return process
