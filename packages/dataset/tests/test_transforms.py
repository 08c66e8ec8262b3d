import pickle

import numpy as np
import pytest

from ingle.dataset import (
    ArrayDataset,
    CachedDataset,
    DataValueError,
    EmptyDatasetError,
    FilterDataset,
    Loader,
    MemoryDataset,
    SampleError,
    SampleIndexError,
    WindowDataset,
    balancing_weights,
)


class Counting:
    """Numbers that remember how often each was made."""

    def __init__(self, count):
        self.made = [0] * count

    def __len__(self):
        return len(self.made)

    def __getitem__(self, index):
        self.made[index] += 1
        return index


def test_nothing_is_made_before_it_is_asked_for():
    source = Counting(10)
    chain = MemoryDataset(range(0)) + source
    chain = chain.map(lambda x: x * x).cache().filter(lambda x: x % 2 == 0)
    assert sum(source.made) == 0
    assert list(chain.shuffle(1).windows(2)[0]) == list(chain.shuffle(1).windows(2)[0])
    assert sorted(chain.shuffle(7)) == [0, 4, 16, 36, 64]
    assert source.made == [1] * 10


def test_memory_takes_any_iterable():
    assert list(MemoryDataset(x for x in "ab")) == ["a", "b"]
    given = ["x"]
    assert MemoryDataset(given).samples is given
    with pytest.raises(SampleIndexError, match="MemoryDataset: index 1 is out of range"):
        MemoryDataset(given)[1]


def test_filter_is_the_list_comprehension():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 100, 50)
    kept = ArrayDataset(values).filter(lambda x: x > 40)
    assert [int(x) for x in kept] == [x for x in values.tolist() if x > 40]
    np.testing.assert_array_equal(kept.take(np.array([2, 0])), values[values > 40][[2, 0]])
    assert int(kept[-1]) == values[values > 40][-1]


def test_filter_names_the_sample_on_which_it_fails():
    with pytest.raises(SampleError, match=r"sample 2 of list: ZeroDivisionError") as caught:
        len(FilterDataset([1, 2, 0], lambda x: 1 / x))
    assert caught.value.index == 2


def test_a_filter_that_keeps_nothing_has_no_batches():
    with pytest.raises(EmptyDatasetError, match="filter"):
        Loader(FilterDataset(range(3), lambda x: False))


@pytest.mark.parametrize("count", range(8))
@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("stride", [1, 3])
def test_windows_are_slices(count, size, stride):
    windows = WindowDataset(ArrayDataset(np.arange(count, dtype=np.int32)), size, stride)
    expected = [list(range(i, i + size)) for i in range(0, count - size + 1, stride)]
    assert [w.tolist() for w in windows] == expected
    assert len(windows) == len(expected)


def test_windows_keep_the_structure_and_make_batches():
    x, y = np.arange(6.0).reshape(6, 1), np.arange(6)
    windows = ArrayDataset(x=x, y=y).windows(3).map(lambda w: (w["x"][:-1], w["y"][-1]))
    (inputs, targets), _ = Loader(windows, 2, tensors=False)
    assert inputs.shape == (2, 2, 1)
    assert targets.tolist() == [2, 3]


@pytest.mark.parametrize(("size", "stride"), [(0, 1), (2, 0), (1.5, 1), (True, 1)])
def test_windows_refuse_sizes(size, stride):
    with pytest.raises(DataValueError, match="integer of at least 1"):
        WindowDataset(range(3), size, stride)


def test_a_cache_keeps_no_more_than_it_is_told():
    source = Counting(4)
    cached = CachedDataset(source, most=2)
    assert [cached[i] for i in (0, 1, 2, 0, 1, 2, -2)] == [0, 1, 2, 0, 1, 2, 2]
    assert source.made == [1, 1, 3, 0]
    cached.clear()
    assert cached[0] == 0
    assert source.made[0] == 2
    with pytest.raises(DataValueError, match="most"):
        CachedDataset(source, -1)


def test_draws_follow_the_weights():
    weights = np.array([0.0, 1.0, 3.0, 0.0, 6.0, 0.0])
    drawn = np.array(list(ArrayDataset(np.arange(6)).sample(20_000, weights=weights, seed=5)))
    shares = np.bincount(drawn, minlength=6) / len(drawn)
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=0.015)
    assert not shares[weights == 0].any()


@pytest.mark.slow
def test_draws_without_replacement_follow_the_weights():
    """The first of two draws has chances w; the second, of what is left."""
    weights = np.array([1.0, 2.0, 5.0])
    pairs = np.array(
        [
            list(
                ArrayDataset(np.arange(3)).sample(2, weights=weights, replacement=False, seed=seed)
            )
            for seed in range(3000)
        ]
    )
    assert (pairs[:, 0] != pairs[:, 1]).all()
    share = weights / weights.sum()
    for a in range(3):
        for b in set(range(3)) - {a}:
            expected = share[a] * weights[b] / (weights.sum() - weights[a])
            found = np.mean((pairs[:, 0] == a) & (pairs[:, 1] == b))
            assert abs(found - expected) < 0.03


def test_a_draw_is_the_same_for_ever():
    chosen = MemoryDataset(range(100)).sample(6, seed=2)
    assert list(chosen) == list(MemoryDataset(range(100)).sample(6, seed=2))
    assert list(chosen) != list(MemoryDataset(range(100)).sample(6, seed=3))
    everything = MemoryDataset(range(9)).sample(9, replacement=False, seed=4)
    assert sorted(everything) == list(range(9))


def test_balancing_weights_balance():
    labels = np.array(["a"] * 90 + ["b"] * 10)
    chosen = MemoryDataset(labels.tolist()).sample(4000, weights=balancing_weights(labels))
    assert abs(list(chosen).count("a") / 4000 - 0.5) < 0.03
    with pytest.raises(DataValueError, match=r"shape \(n,\), got \(1, 2\)"):
        balancing_weights([[0, 1]])


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        ([1, 2], {}, r"each of the 3 samples, got int64 of shape \(2,\)"),
        ([1, -2, 0], {}, "got -2 for sample 1"),
        ([1, np.nan, 0], {}, "got nan for sample 1"),
        ([0, 0, 0], {}, "all 3 weights are zero"),
        (["a", "b", "c"], {}, "one number for each"),
        ([0, 1, 1], {"count": 3, "replacement": False}, "2 of 3 have a weight"),
        ([0, 1, 1], {"count": -1}, "count must be"),
        ([0, 1, 1], {"seed": -1}, "seed"),
    ],
)
def test_draws_that_cannot_be(weights, options, message):
    with pytest.raises(DataValueError, match=message):
        MemoryDataset(range(3)).sample(**{"count": 2, "weights": weights, **options})
    with pytest.raises(DataValueError, match="no samples to draw"):
        MemoryDataset([]).sample(1)
    assert len(MemoryDataset([]).sample(0)) == 0


def test_datasets_travel_to_other_processes():
    chain = MemoryDataset([3, -1, 2]).map(abs).cache().filter(bool).shuffle(1)
    assert list(pickle.loads(pickle.dumps(chain))) == list(chain)
