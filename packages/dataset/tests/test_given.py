"""What a loader is given in place of a dataset: arrays are their rows, slips are named at once."""

import re

import numpy as np
import pytest

from ingle.dataset import ArrayDataset, DataValueError, Loader

ROWS = np.arange(12.0).reshape(6, 2)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_samples_of_an_array_are_its_rows(workers):
    # NumPy's own `take` takes elements of what it lays flat.
    found = [*Loader(ROWS, 4, tensors=False, workers=workers)]
    assert [batch.tolist() for batch in found] == [ROWS[:4].tolist(), ROWS[4:].tolist()]
    found[0][:] = 0
    assert ROWS[1, 1] == 3


def test_the_samples_of_a_tensor_are_its_rows():
    it = pytest.importorskip("ingle.tensor")
    shuffled = [row for batch in Loader(it.asarray(ROWS), 4, shuffle=True) for row in batch]
    assert sorted(row.tolist() for row in shuffled) == ROWS.tolist()


class OfPyTorch:
    """What PyTorch's loader shows."""

    collate_fn = batch_sampler = None

    def __iter__(self):
        return iter([ROWS])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("images/train", "a text, 'images/train'. Datasets of files: ImageFolder("),
        (b"images", "a text, b'images'"),
        ({"x": ROWS}, "a dict, whose samples would be its keys. Write ArrayDataset(...) of it"),
        ((ROWS, ROWS), "a tuple of 2 arrays, which would be 2 samples. Write ArrayDataset(x, y)"),
        (Loader(ROWS), "a Loader, which gives batches already. Go through it as it is"),
        (OfPyTorch(), "a OfPyTorch, which gives batches already"),
        (ROWS[0, 0], "a single value"),
        (3, "a dataset has __len__ and __getitem__, or __iter__; int has neither"),
    ],
)
def test_what_is_no_dataset(given, told):
    with pytest.raises((DataValueError, TypeError), match="^Loader: .*" + re.escape(told)):
        Loader(given, 4)


def test_targets_in_the_place_of_a_size():
    told = r"got an array of shape \(4,\); arrays go together: Loader\(ArrayDataset\(x, y\), 32\)"
    with pytest.raises(DataValueError, match=told):
        Loader(ROWS, np.zeros(4, np.int64))


def test_a_list_of_arrays_is_a_dataset_of_them():
    assert [b.tolist() for b in Loader([ROWS, ROWS], 2, tensors=False)] == [[ROWS.tolist()] * 2]
    pairs = ((ROWS[0], 1), (ROWS[1], 2))
    assert len(next(iter(Loader(pairs, 2)))[1]) == 2
    assert len(Loader(ArrayDataset(ROWS, ROWS), 4)) == 2


def test_many_samples_asked_for_as_pytorch_does():
    class Table:
        """Like a table of `datasets`, whose `take` is that of the first rows."""

        def __len__(self):
            return 6

        def __getitem__(self, index):
            raise AssertionError

        def __getitems__(self, indices):
            return [{"x": ROWS[i]} for i in indices]

        def take(self, count):
            raise AssertionError

    assert [b["x"].tolist() for b in Loader(Table(), 4, tensors=False)][1] == ROWS[4:].tolist()
