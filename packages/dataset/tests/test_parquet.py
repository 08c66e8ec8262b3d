"""Parquet files, written by pyarrow itself."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path

import pytest

from ingle.dataset import DataFileError, Loader, MissingDataError, ParquetDataset, SampleIndexError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@dataclass
class Item:
    label: int
    text: str


def written(path: Path) -> Path:
    table = pa.table({"text": ["a", "b", "c"], "size": [0.5, 1.5, 2.5], "label": [0, 1, None]})
    pq.write_table(table, path, row_group_size=2)
    return path


def test_rows_and_batches(tmp_path: Path) -> None:
    data = ParquetDataset(written(tmp_path / "t.parquet"))
    assert len(data) == 3
    assert data[1] == {"text": "b", "size": 1.5, "label": 1}
    assert data[-1]["label"] is None
    chosen = data.map(lambda row: row["size"])
    batches = list(Loader(chosen, 2, shuffle=True, seed=1, tensors=False))
    assert sorted(v for b in batches for v in b.tolist()) == [0.5, 1.5, 2.5]
    assert pickle.loads(pickle.dumps(data))[0] == data[0]


def test_fields_name_columns(tmp_path: Path) -> None:
    data = ParquetDataset(written(tmp_path / "t.parquet"), Item)
    assert data.columns == ("text", "label")
    assert data[0] == Item(0, "a")
    with pytest.raises(DataFileError, match=r"t\.parquet: row 2: column 'label' has None"):
        data[2]


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="there is no such file"):
        ParquetDataset(tmp_path / "no.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DataFileError, match=r"bad\.parquet: it is not a Parquet file"):
        ParquetDataset(tmp_path / "bad.parquet")

    @dataclass
    class Other:
        colour: str

    with pytest.raises(DataFileError, match="colour"):
        ParquetDataset(written(tmp_path / "t.parquet"), Other)
    with pytest.raises(IndexError, match="index 3 is out of range; there are 3"):
        ParquetDataset(written(tmp_path / "t.parquet"))[3]


def test_values_that_python_has_no_object_for(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    day = pa.array([2**40], pa.int64()).cast(pa.timestamp("s"))
    text = pa.array([b"\xff"]).view(pa.string())
    for column in (day, text):
        pq.write_table(pa.table({"a": column, "label": [1], "text": ["b"]}), path)
        with pytest.raises(DataFileError, match=r"t\.parquet: rows \[0\]: a value cannot be read"):
            ParquetDataset(path)[0]
        assert ParquetDataset(path, Item)[0] == Item(1, "b")


def test_indices_as_those_of_other_datasets(tmp_path: Path) -> None:
    data = ParquetDataset(written(tmp_path / "t.parquet"))
    assert data.take([-2, 0])["text"] == ["b", "a"]
    with pytest.raises(SampleIndexError, match="index 3 is out of range; there are 3 samples"):
        data[3]
    with pytest.raises(SampleIndexError, match="indices must be one row of integers, got bool"):
        data.take([True, False, True])
