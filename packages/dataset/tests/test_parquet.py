"""Parquet files, written by pyarrow itself."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path

import pytest

from ingle.dataset import DataFileError, Loader, MissingDataError, ParquetDataset

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
    with pytest.raises(IndexError, match="no row 3; there are 3"):
        ParquetDataset(written(tmp_path / "t.parquet"))[3]
