import gc
import itertools
import json
import signal
import sys
import threading
import time
from collections import namedtuple

import numpy as np
import pytest

from ingle.dataset import (
    ArrayDataset,
    BatchError,
    DataValueError,
    EmptyDatasetError,
    Loader,
    MapDataset,
    MemoryDataset,
    MissingExtraError,
    SampleError,
    collate,
)
from ingle.dataset.ordering import shuffled


def loader_threads():
    return [t for t in threading.enumerate() if t.name == "ingle-loader"]


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    yield
    gc.collect()
    for thread in loader_threads():
        thread.join(5)
    assert not loader_threads()


class Stream:
    """Counts up, and can be begun again."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return iter(range(self.count))


def flat(loader):
    return [x for batch in loader for x in batch.tolist()]


def lists(loader):
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize("prefetch", [0, 1, 2, 50])
@pytest.mark.parametrize("dataset", [range(10), ArrayDataset(np.arange(10)), Stream(10)])
def test_batches_in_order(dataset, prefetch):
    loader = Loader(dataset, 4, prefetch=prefetch)
    assert lists(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert lists(Loader(dataset, 4, prefetch=prefetch, drop_last=True)) == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ]


def test_length_counts_batches():
    assert len(Loader(range(10), 4)) == 3
    assert len(Loader(range(10), 4, drop_last=True)) == 2
    assert len(Loader(range(8), 4)) == 2
    with pytest.raises(TypeError, match="stream of unknown length"):
        len(Loader(Stream(3), 2))


def test_each_epoch_has_its_own_order_and_every_sample():
    loader = Loader(range(100), 7, shuffle=True, seed=5)
    first, second = flat(loader), flat(loader)
    assert first != second
    assert sorted(first) == sorted(second) == list(range(100))
    assert loader.epoch == 2
    again = Loader(range(100), 7, shuffle=True, seed=5, prefetch=0)
    assert flat(again) == first
    assert flat(Loader(range(100), 7, shuffle=True, seed=6)) != first
    loader.epoch = 1
    assert flat(loader) == second


def test_orders_never_change():
    # Written down once: a run that resumes under a later version must see the same batches.
    assert shuffled(8, 1234, 2).tolist() == [7, 2, 6, 0, 5, 3, 1, 4]


def test_shuffling_is_even():
    counts = np.zeros((5, 5))
    for epoch in range(4000):
        counts[np.arange(5), shuffled(5, 0, epoch)] += 1
    assert np.abs(counts - 800).max() < 5 * np.sqrt(800)


def test_a_loop_left_early_begins_its_epoch_again():
    loader = Loader(range(9), 2, shuffle=True)
    first = next(iter(loader)).tolist()
    assert loader.epoch == 0
    assert lists(loader)[0] == first
    assert loader.epoch == 1


@pytest.mark.parametrize("prefetch", [0, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_resume_after_every_batch_of_three_epochs(prefetch, drop_last):
    def make():
        return Loader(
            range(11), 3, shuffle=True, seed=9, prefetch=prefetch, drop_last=drop_last,
            augment=lambda batch, rng: batch + rng.normal(size=batch.shape),
        )  # fmt: skip

    loader = make()
    whole, states = [], []
    for _ in range(3):
        for batch in loader:
            whole.append(batch.tolist())
            states.append(json.loads(json.dumps(loader.state())))
    for done, state in enumerate(states, 1):
        resumed = make()
        resumed.load_state(state)
        assert resumed.state() == state
        rest = []
        while resumed.epoch < 3:
            rest += lists(resumed)
        assert rest == whole[done:]


def test_a_stream_resumes_by_skipping():
    loader = Loader(Stream(7), 2)
    running = iter(loader)
    next(running), next(running)
    resumed = Loader(Stream(7), 2)
    resumed.load_state(loader.state())
    assert lists(resumed) == [[4, 5], [6]]
    loader.close()


def test_a_state_of_another_loader_is_refused():
    state = Loader(range(10), 2, shuffle=True).state()
    with pytest.raises(DataValueError, match="batch_size=2, this loader has batch_size=3"):
        Loader(range(10), 3, shuffle=True).load_state(state)
    with pytest.raises(DataValueError, match="samples=10, this loader has samples=11"):
        Loader(range(11), 2, shuffle=True).load_state(state)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_failing_sample_is_named_after_the_batches_before_it(prefetch):
    def fail(x):
        if x == 7:
            raise ZeroDivisionError("seven")
        return x

    running = iter(Loader(MapDataset(range(10), fail), 3, prefetch=prefetch))
    assert [next(running).tolist() for _ in range(2)] == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(
        SampleError, match=r"sample 7 of MapDataset .*ZeroDivisionError: seven"
    ) as e:
        next(running)
    assert e.value.index == 7
    assert isinstance(e.value.__cause__, ZeroDivisionError)
    with pytest.raises(StopIteration):
        next(running)


def test_a_failing_stream_names_the_sample():
    class Broken:
        def __iter__(self):
            yield from (1, 2, 3)
            raise OSError("disk")

    with pytest.raises(SampleError, match=r"sample 3 of the stream Broken .*disk") as e:
        list(Loader(Broken(), 2))
    assert e.value.index == 3


def test_a_failing_transform_names_the_batch():
    loader = Loader(range(4), 2, transform=lambda b: b / "x")
    with pytest.raises(BatchError, match="batch 0 of epoch 0"):
        list(loader)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_the_thread_ends_when_the_loop_is_left(prefetch):
    loader = Loader(itertools.count(), 2, prefetch=prefetch)
    running = iter(loader)
    assert next(running).tolist() == [0, 1]
    assert len(loader_threads()) == (1 if prefetch else 0)
    loader.close()
    assert not loader_threads()
    with pytest.raises(StopIteration):
        next(running)


def test_the_thread_ends_when_nobody_holds_the_loop():
    list(itertools.islice(Loader(itertools.count(), 2), 2))
    gc.collect()
    for thread in loader_threads():
        thread.join(5)
    assert not loader_threads()


def test_with_closes_and_a_second_loop_ends_the_first():
    with Loader(range(100), 2) as loader:
        first = iter(loader)
        next(first)
        second = iter(loader)
        with pytest.raises(StopIteration):
            next(first)
        assert next(second).tolist() == [0, 1]
    assert not loader_threads()


def test_prefetch_works_ahead_and_waiting_is_measured():
    def slow(x):
        time.sleep(0.01)
        return x

    ahead = Loader(MapDataset(range(20), slow), 1, prefetch=2)
    for _ in ahead:
        time.sleep(0.02)
    inline = Loader(MapDataset(range(20), slow), 1, prefetch=0)
    for _ in inline:
        pass
    assert ahead.stats.batches == inline.stats.batches == 20
    assert ahead.stats.produced >= 0.2
    assert inline.stats.waited >= 0.2
    assert ahead.stats.waited < ahead.stats.produced / 2
    assert "20 batches" in str(ahead.stats)


def test_the_thread_is_never_more_than_prefetch_batches_ahead():
    made = []

    def note(x):
        made.append(x)
        return x

    running = iter(Loader(MapDataset(range(50), note), 1, prefetch=3))
    next(running)
    time.sleep(0.1)
    # One handed out, three waiting, one in the thread's hands.
    assert len(made) == 5
    running.close()


@pytest.mark.parametrize("dataset", [[], ArrayDataset(np.zeros((0, 3)))])
def test_an_empty_dataset_is_refused_at_once(dataset):
    with pytest.raises(EmptyDatasetError, match="has no samples"):
        Loader(dataset)


def test_an_empty_stream_is_refused_at_its_end():
    with pytest.raises(EmptyDatasetError, match="has no samples"):
        list(Loader(Stream(0)))
    with pytest.raises(EmptyDatasetError, match="3 samples and batch_size is 4"):
        list(Loader(Stream(3), 4, drop_last=True))


def test_a_batch_larger_than_the_dataset():
    assert lists(Loader(range(3), 4)) == [[0, 1, 2]]
    with pytest.raises(EmptyDatasetError, match="3 samples and batch_size is 4; use a batch_size"):
        Loader(range(3), 4, drop_last=True)


@pytest.mark.parametrize(
    "settings",
    [{"batch_size": 0}, {"batch_size": 2.0}, {"prefetch": -1}, {"seed": -1}, {"batch_size": True},
     {"shuffle": "yes"}, {"drop_last": None}, {"tensors": "no"}, {"persistent": [1]}],
)  # fmt: skip
def test_settings_that_make_no_sense(settings):
    with pytest.raises(DataValueError, match=next(iter(settings))):
        Loader(range(3), **settings)


def test_what_is_no_dataset():
    with pytest.raises(TypeError, match="int has neither"):
        Loader(3)
    with pytest.raises(DataValueError, match="shuffle inside"):
        Loader(Stream(3), shuffle=True)


def test_collate_keeps_the_structure():
    batch = collate([{"x": np.zeros(2), "y": (1, "a")}, {"x": np.ones(2), "y": (2, "b")}])
    assert batch["x"].shape == (2, 2)
    assert batch["y"][0].tolist() == [1, 2]
    assert batch["y"][1] == ["a", "b"]
    assert lists(Loader(range(4), 2, collate=lambda s: np.array(s) * 10)) == [[0, 10], [20, 30]]


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([np.zeros(2), np.zeros(3)], r"number 1 .*\(3,\).*\(2,\)"),
        ([(1, 2), (1, 2, 3)], "same parts"),
        ([{"a": 1}, {"b": 1}], "same parts"),
        ([(np.zeros(2), 1), (np.zeros(3), 1)], r"the sample\[0\] number 1"),
        ([object(), object()], "collate function"),
        ([1.0, None], "the sample number 1 of the batch is None, which no array holds"),
        ([{"x": 2**70}], r"the sample\['x'\] number 0 .* is 1180591620717411303424, of type int"),
        ([np.array([None, 1])], "array.*, of type ndarray, which no array holds"),
        ([[1, [2, 3]]], "differ in length; pad them"),
        (["a", 3], "number 1 of the batch is 3"),
        ([3, "a"], "has the dtypes <U1, int64 in one batch, which no array holds together"),
        ([np.datetime64("2020-01-01"), 1.5], "dtypes datetime64.*, float64 in one batch"),
    ],
)
def test_samples_that_do_not_fit(samples, message):
    with pytest.raises(DataValueError, match=message):
        collate(samples)


class TestTensors:
    def test_arrays_of_a_batch_are_tensors_on_the_default_device(self):
        it = pytest.importorskip("ingle.tensor")
        Pair = namedtuple("Pair", "x name")
        samples = [
            {"a": (np.float32(i), i), "name": str(i), "pair": Pair(i, "n")} for i in range(6)
        ]
        loader = Loader(samples, 3)
        with it.device("numpy"):
            first, second = loader
        x, labels = first["a"]
        assert isinstance(x, it.Tensor)
        assert isinstance(labels, it.Tensor)
        assert (x.dtype, labels.dtype, x.device.name) == (it.float32, it.int64, "numpy")
        assert (x.tolist(), second["a"][1].tolist()) == ([0.0, 1.0, 2.0], [3, 4, 5])
        assert first["name"] == ["0", "1", "2"]
        assert it.relu(x - 1).tolist() == [0.0, 0.0, 1.0]

    def test_what_works_on_batches_sees_arrays(self):
        seen = []
        loader = Loader(range(4), 2, transform=lambda b: seen.append(type(b)) or b * 2,
                        augment=lambda b, rng: seen.append(type(b)) or b)  # fmt: skip
        batches = [np.asarray(b).tolist() for b in loader]
        assert batches == [[0, 2], [4, 6]]
        assert set(seen) == {np.ndarray}

    def test_arrays_stay_where_that_is_asked_for(self):
        (batch,) = Loader(range(4), 4, tensors=False)
        assert type(batch) is np.ndarray

    def test_without_the_package(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "ingle.tensor", None)
        (batch,) = Loader(range(4), 4)
        assert type(batch) is np.ndarray
        with pytest.raises(MissingExtraError, match="pip install ingle-tensor"):
            list(Loader(range(4), 4, tensors=True))


def test_batches_go_to_a_device_in_the_background(monkeypatch):
    import ingle.tensor as it

    threads, asarray = [], it.asarray

    def noted(*args, **options):
        threads.append(threading.current_thread().name)
        return asarray(*args, **options)

    monkeypatch.setattr(it, "asarray", noted)
    data = ArrayDataset(np.arange(10.0), np.arange(10))
    for device in ("numpy", "cpu"):
        for options in ({}, {"prefetch": 0}, {"workers": 2}):
            loader = Loader(data, 4, device=device, **options)
            with it.device("numpy"):
                batches = list(loader)
            assert {str(part.device) for batch in batches for part in batch} == {device}
            assert set(threads) == {"MainThread" if "prefetch" in options else "ingle-loader"}
            threads.clear()
            assert [batch[1].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    with pytest.raises(it.errors.BackendError, match="no backend named 'cqu'"):
        list(Loader(data, 4, device="cqu"))


@pytest.mark.parametrize("fused", [False, True])
def test_what_is_copied_goes_through_memory_that_the_device_reads_by_itself(monkeypatch, fused):
    import ingle.tensor as it
    from ingle.fusion import Fusion
    from ingle.tensor import plugins
    from ingle_numpy.backend import NumpyBackend

    staged = []

    class Staging(NumpyBackend):
        adopt = None  # its memory is its own

        def stage(self, array):
            staged.append((threading.current_thread().name, array.copy()))
            return self.upload(array)

    device = it.Device("staging")
    made = Fusion(Staging(device)) if fused else Staging(device)
    monkeypatch.setitem(
        plugins._descriptions, "staging", plugins.BackendDescription(create=lambda index: made)
    )
    monkeypatch.setitem(plugins._backends, device, made)
    data = ArrayDataset(np.arange(10.0), np.arange(10))
    loader = Loader(data, 5, device="staging", transform=lambda batch: batch)
    batches = list(loader)
    assert [part.tolist() for pair in batches for part in pair] == [a.tolist() for _, a in staged]
    assert {name for name, _ in staged} == {"ingle-loader"}
    assert {str(part.device) for pair in batches for part in pair} == {"staging"}
    with it.device("staging"):
        list(Loader(data, 5))
    assert len(staged) == 4  # in the thread that iterates nothing is gained by it


def test_only_what_nobody_else_holds_is_not_copied():
    """Whoever writes into an array that a dataset or a function keeps changes no batch."""
    import ingle.tensor as it

    base = np.arange(8.0)
    kept = []

    class Views(ArrayDataset):
        def take(self, indices):
            return base[int(indices[0]) : int(indices[-1]) + 1]

    class Keeps(ArrayDataset):
        def take(self, indices):
            kept.append(np.array(super().take(indices)))
            return kept[-1]

    def keep(batch, rng=None):
        kept.append(np.array(batch))
        return kept[-1]

    loaders = [
        Loader(Views(base), 4),
        Loader(Keeps(base), 4),
        Loader(Keeps(base).filter(lambda x: True), 4),
        Loader(Keeps(base).subset(range(8)), 4),
        Loader(ArrayDataset(base), 4, transform=keep),
        Loader(ArrayDataset(base), 4, augment=keep),
        Loader(ArrayDataset(base), 4, collate=keep),
    ]
    with it.device("cpu"):
        for loader in loaders:
            kept.clear()
            base[:] = np.arange(8.0)
            batches = list(loader)
            for array in (base, *kept):
                array[:] = -1.0
            base[:] = np.arange(8.0)
            assert [batch.tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        fresh = ArrayDataset(base).subset(range(8))
        assert [batch.tolist() for batch in Loader(fresh, 4)] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_threads_begin_further_batches_and_stop_with_the_loop():
    begun = []

    class Slow:
        def __len__(self):
            return 40

        def __getitem__(self, index):
            begun.append(index)
            return index

    with Loader(Slow(), 4, workers=2, prefetch=0, tensors=False) as loader:
        running = iter(loader)
        assert next(running).tolist() == [0, 1, 2, 3]
        del running
    assert 4 <= len(begun) <= 12


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals of POSIX")
@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"workers": 2, "prefetch": 0}])
def test_an_interrupt_does_not_wait_for_a_sample_that_never_comes(options):
    never, came = threading.Event(), []
    data = MemoryDataset(range(8)).map(lambda i: came.append(never.wait(20)) if i == 5 else i)
    running = iter(Loader(data, 2, tensors=False, **options))
    next(running)
    pressed = (threading.main_thread().ident, signal.SIGINT)
    interrupt = threading.Timer(0.1, signal.pthread_kill, pressed)
    interrupt.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            list(running)
        assert not came
        assert list(running) == []
    finally:
        never.set()
        interrupt.join()
