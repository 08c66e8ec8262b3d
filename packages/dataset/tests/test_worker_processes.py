"""Loaders whose batches are made by other processes."""

from __future__ import annotations

import operator
import os
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


def loader(dataset: Any, **options: Any) -> Loader:
    return Loader(dataset, 4, workers=2, worker_kind="processes", tensors=False, **options)


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
