import numpy as np
import pytest

from ingle.dataset import (
    ArrayDataset,
    ConcatDataset,
    Dataset,
    DataValueError,
    IterableDataset,
    Loader,
    MapDataset,
    MemoryDataset,
    SampleIndexError,
    Subset,
    check_labels,
    split,
)


def test_a_list_is_a_dataset_and_a_generator_is_a_stream():
    assert isinstance([1, 2], Dataset)
    assert isinstance((i for i in range(2)), IterableDataset)
    assert not isinstance((i for i in range(2)), Dataset)


def test_one_array_gives_rows_several_give_tuples_names_give_dicts():
    x, y = np.arange(6.0).reshape(3, 2), np.array([4, 5, 6])
    assert ArrayDataset(x)[1].tolist() == [2, 3]
    row, label = ArrayDataset(x, y)[-1]
    assert (row.tolist(), label) == ([4, 5], 6)
    assert ArrayDataset(x=x, y=y)[0]["y"] == 4
    assert ArrayDataset({"x": x, "y": y})[0]["x"].tolist() == [0, 1]
    assert "x=float64[3, 2]" in repr(ArrayDataset(x=x))


def test_take_equals_one_by_one():
    data = ArrayDataset(np.arange(10), np.arange(10) ** 2)
    a, b = data.take(np.array([3, 1]))
    assert (a.tolist(), b.tolist()) == ([3, 1], [9, 1])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((), "got none"),
        ((np.zeros(3), np.zeros(4)), "array 0 has 3, array 1 has 4"),
        ((np.float64(1),), "single value"),
        ((np.array([object()]),), "Python objects"),
    ],
)
def test_arrays_that_do_not_fit(arrays, message):
    with pytest.raises(DataValueError, match=message):
        ArrayDataset(*arrays)


@pytest.mark.parametrize("index", [3, -4, 10**9])
def test_index_out_of_range_names_the_range(index):
    with pytest.raises(SampleIndexError, match=rf"index {index} is out of range; .*3 samples"):
        ArrayDataset(np.zeros(3))[index]


@pytest.mark.parametrize("index", ["a", 1.5, slice(0, 2), None])
def test_index_of_another_type_says_what_to_use(index):
    with pytest.raises(SampleIndexError, match="subset"):
        ArrayDataset(np.zeros(3))[index]


def test_map_is_lazy_and_chains():
    calls = []

    def double(x):
        calls.append(x)
        return 2 * x

    data = MapDataset([1, 2, 3], double).map(lambda x: x + 1)
    assert calls == []
    assert data[2] == 7
    assert calls == [3]
    assert list(data) == [3, 5, 7]


def test_subset_counts_from_the_end_too():
    assert list(Subset([10, 20, 30], [-1, 0])) == [30, 10]
    assert list(ArrayDataset(np.arange(5)).subset(np.flatnonzero([1, 0, 1, 0, 0]))) == [0, 2]
    assert len(Subset([1], [])) == 0


def test_subset_refuses_masks_and_wrong_indices():
    with pytest.raises(SampleIndexError, match="flatnonzero"):
        Subset([1, 2], np.array([True, False]))
    with pytest.raises(SampleIndexError, match="index 2 is out of range"):
        Subset([1, 2], [0, 2])
    with pytest.raises(SampleIndexError, match="out of range"):
        Subset([1, 2], [0])[1]


def test_concat_finds_the_part_even_past_empty_ones():
    data = ConcatDataset([1, 2], [], [3], [])
    assert (len(data), list(data), data[-1]) == (3, [1, 2, 3], 3)
    assert list(ArrayDataset(np.array([7])) + range(8, 10)) == [7, 8, 9]
    assert len(ConcatDataset()) == 0
    with pytest.raises(SampleIndexError):
        data[3]


def test_split_is_disjoint_complete_and_repeatable():
    parts = split(range(1000), 700, 200, 100, seed=3)
    assert [len(p) for p in parts] == [700, 200, 100]
    assert sorted(i for p in parts for i in p) == list(range(1000))
    assert [list(p) for p in parts] == [list(p) for p in split(range(1000), 700, 200, 100, seed=3)]
    assert list(parts[0]) != list(split(range(1000), 700, 200, 100, seed=4)[0])


def test_split_by_shares_uses_every_sample():
    for count in (1, 3, 7, 10, 101):
        parts = ArrayDataset(np.arange(count)).split(1 / 3, 1 / 3, 1 / 3)
        assert sorted(int(i) for p in parts for i in p) == list(range(count))


def test_the_order_of_a_split_never_changes():
    # Written down once: who holds out data must hold out the same in every later version.
    assert list(split(range(10), 10, seed=0)[0]) == [0, 2, 9, 1, 8, 5, 4, 3, 6, 7]


def test_stratified_split_keeps_the_shares_of_classes():
    labels = np.repeat([0, 1, 2], [100, 50, 10])
    train, test = split(labels, 0.8, 0.2, labels=labels)
    assert np.bincount(list(train)).tolist() == [80, 40, 8]
    assert np.bincount(list(test)).tolist() == [20, 10, 2]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((), "at least one"),
        ((8, 5), "sum to 13"),
        ((0.8, 0.5), "sum to 1.3"),
        ((-1,), "negative"),
        ((float("nan"),), "infinite"),
        ((5, 0.5), "all counts or all shares"),
    ],
)
def test_split_refuses_sizes(sizes, message):
    with pytest.raises(DataValueError, match=message):
        split(range(10), *sizes)


@pytest.mark.parametrize("seed", [-1, 1 << 64, 1.5, None, True])
def test_split_refuses_seeds(seed):
    with pytest.raises(DataValueError, match="seed"):
        split(range(10), 5, seed=seed)


def test_split_refuses_labels_that_do_not_fit():
    with pytest.raises(DataValueError, match="one for each of the 3"):
        split(range(3), 0.5, labels=[0, 1])
    with pytest.raises(DataValueError, match="shares"):
        split(range(2), 1, labels=[0, 1])


def test_check_labels_names_the_first_wrong_one():
    check_labels(np.zeros((2, 3), np.uint8), 1)
    check_labels(np.zeros(0, int), 1)
    with pytest.raises(DataValueError, match=r"label -1 at index 1 .*labels 0 to 2 .*2 of 4"):
        check_labels([0, -1, 3, 2], classes=3)
    with pytest.raises(DataValueError, match=r"at index \(1, 0\)"):
        check_labels([[0, 1], [2, 0]], classes=2)
    with pytest.raises(DataValueError, match="must be integers"):
        check_labels([0.0, 1.0], classes=3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ArrayDataset([[1], [2, 3]]), "array 0 is a list whose parts differ in length"),
        (lambda: MemoryDataset([1]).map(None), "map: expected a function of a sample, got None"),
        (
            lambda: MemoryDataset([1]).filter("x"),
            "filter: expected a function of a sample, got 'x'",
        ),
        (lambda: Loader([1], collate="x"), "Loader: collate must be a function, got 'x'"),
        (lambda: Loader([1], transform=3), "Loader: transform must be a function, got 3"),
    ],
)
def test_what_could_not_work_later_is_refused_at_once(make, message):
    with pytest.raises(DataValueError, match=message):
        make()


def test_sizes_of_a_split_that_are_no_numbers():
    for sizes in ([0.5, 0.5], "0.5", None):
        with pytest.raises(DataValueError, match=r"one by one.*split\(dataset, 0\.8, 0\.2\)"):
            split(range(10), sizes)
