import numpy as np
import pytest

from ingle.dataset import DataValueError, HuggingFaceDataset, Loader, SampleError

ROWS = [{"text": "abc"[: i % 3 + 1], "label": i, "x": [float(i), 0.5]} for i in range(10)]


class Table:
    """Columns in memory, with the access that Hugging Face's tables have."""

    column_names = ("text", "label", "x")

    def __init__(self):
        self.asked = []

    def __len__(self):
        return len(ROWS)

    def __getitem__(self, key):
        self.asked.append(key)
        if isinstance(key, int):
            return dict(ROWS[key])
        return {name: [ROWS[i][name] for i in key] for name in self.column_names}


@pytest.mark.parametrize("make", [Table, lambda: ROWS])
def test_samples_and_batches(make):
    data = HuggingFaceDataset(make())
    assert data[-1] == ROWS[9]
    batch = data.take([3, 1])
    assert batch["text"] == ["a", "ab"]
    assert batch["label"].tolist() == [3, 1]
    assert batch["x"].tolist() == [[3.0, 0.5], [1.0, 0.5]]
    pairs = HuggingFaceDataset(make(), ["label", "text"])
    assert pairs[2] == (2, "abc")
    labels = [y.tolist() for y, _ in Loader(pairs, 4, tensors=False)]
    assert labels == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert list(pairs.filter(lambda p: p[0] > 7).map(lambda p: p[1])) == ["abc", "a"]
    assert "10 samples, columns label, text" in repr(pairs)


def test_a_batch_is_one_access():
    table = Table()
    list(Loader(HuggingFaceDataset(table, ["label"]), 5, tensors=False))
    assert table.asked == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_columns_that_are_arrays_stay_as_they_are():
    array = np.arange(3)

    class Formatted(Table):
        def __getitem__(self, key):
            return {"label": array}

    assert HuggingFaceDataset(Formatted(), ["label"]).take([0, 1, 2])[0] is array


@pytest.mark.parametrize(
    ("given", "columns", "message"),
    [
        ({"train": ROWS, "test": ROWS}, None, r"the splits 'train', 'test'; .*dataset\['train'\]"),
        ((r for r in ROWS), None, "generator has no length"),
        (ROWS, ["txt"], "no column 'txt', only 'text', 'label', 'x'"),
        (Table(), ["txt"], "no column 'txt', only 'text', 'label', 'x'"),
        ([1, 2], None, "sample 0 of list is 1, and should be a dict"),
    ],
)
def test_what_is_no_table(given, columns, message):
    with pytest.raises(DataValueError, match=message):
        HuggingFaceDataset(given, columns)


def test_rows_that_lack_a_column_are_named():
    with pytest.raises(SampleError, match=r"sample 1 .*no column 'label', only 'text'"):
        list(Loader(HuggingFaceDataset([ROWS[0], {"text": "a"}], ["label"])))


@pytest.mark.slow  # the import of the package takes seconds
def test_the_package_itself():
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_list(ROWS)
    data = HuggingFaceDataset(table, ["x", "text"])
    (x, text), *_ = Loader(data, 4, shuffle=True, seed=1, tensors=False)
    assert (x.shape, len(text)) == ((4, 2), 4)
    assert data[3] == ([3.0, 0.5], "a")
    arrays = HuggingFaceDataset(table.with_format("numpy")).take([1, 2])
    assert arrays["x"].tolist() == [[1.0, 0.5], [2.0, 0.5]]
    with pytest.raises(DataValueError, match="splits 'train'"):
        HuggingFaceDataset(datasets.DatasetDict(train=table))
    with pytest.raises(DataValueError, match="no length"):
        HuggingFaceDataset(table.to_iterable_dataset())
