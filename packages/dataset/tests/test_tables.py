import csv
import gzip
import pickle
import sqlite3
import threading
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest

from ingle.dataset import (
    CsvDataset,
    DataFileError,
    DataValueError,
    Loader,
    MissingDataError,
    SqliteDataset,
    write_sqlite,
)


@dataclass
class Person:
    name: str
    age: int | None
    height: float
    member: bool
    size: Literal["S", "M", 3]


@dataclass
class Point:
    x: float
    label: int

    def __post_init__(self):
        if self.label < 0:
            raise ValueError("labels count from 0")


HEADER = "height,name,age,member,size,extra\n"


def write(tmp_path, text, name="file.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


class TestCsv:
    def test_rows_are_objects_of_the_dataclass(self, tmp_path):
        path = write(tmp_path, HEADER + '1.5,"A, ""B""\nC",7,yes,M,\n2,D,,0,3,x\n')
        assert list(CsvDataset(path, Person)) == [
            Person('A, "B"\nC', 7, 1.5, True, "M"),
            Person("D", None, 2.0, False, 3),
        ]

    def test_dicts_are_those_of_the_standard_library(self, tmp_path):
        rows = [{"a": f"{i};{i}", "b": 'q"' * i, "c": "\n" * i} for i in range(5)]
        path = tmp_path / "file.csv"
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, "abc")
            writer.writeheader()
            writer.writerows(rows)
        assert list(CsvDataset(path)) == rows
        zipped = tmp_path / "file.csv.gz"
        zipped.write_bytes(gzip.compress(path.read_bytes()))
        assert list(CsvDataset(zipped)) == rows

    def test_marks_tabs_names_and_empty_lines(self, tmp_path):
        path = write(tmp_path, b"\xef\xbb\xbfa\tb\r\n\r\n1\t2\r\n")
        assert list(CsvDataset(path, delimiter="\t", types={"b": int})) == [{"a": "1", "b": 2}]
        path = write(tmp_path, "1,2\n3,4\n")
        rows = CsvDataset(path, columns=["x", "label"], row=Point)
        assert rows[-1] == Point(3.0, 4)
        assert "2 rows of x, label" in repr(rows)
        assert list(CsvDataset(write(tmp_path, "\xe9\n1\n".encode("latin-1")), encoding="latin-1"))

    def test_rows_make_batches(self, tmp_path):
        path = write(tmp_path, "x,label\n1,0\n2,1\n3,2\n")
        (batch,) = Loader(CsvDataset(path, Point).filter(lambda p: p.x > 1), tensors=False)
        assert {k: v.tolist() for k, v in batch.items()} == {"x": [2.0, 3.0], "label": [1, 2]}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("x,label\n1,0\nabc,1\n", r"line 3, row 1: column 'x' has 'abc': expected a number"),
            ("x,label\n\n1,1.5\n", r"line 3, row 0: column 'label' has '1.5': expected an integer"),
            ("x,label\n,1\n", r"column 'x' has '': .*make the type `float \| None`"),
            ("x,label\n1,-1\n", "line 2, row 0: Point refuses .*labels count from 0"),
            ("x,label\n1\n", r"line 2, row 0: 1 fields, expected 2 \(x, label\), got '1'"),
            ("x,label\n1,2,3\n", "3 fields, expected 2 .*give the delimiter"),
            ("x;label\n1;2\n", "there is no column 'x', only 'x;label'"),
            ("x,lable\n1,2\n", "no column 'label', only 'x', 'lable'; did you mean 'lable'"),
            ("x,x\n1,2\n", "the column 'x' is there 2 times"),
            ('x,label\n1,"2\n', "behind line 1: .*quote that is not closed"),
            (b"x,label\n1,2\n\xff,3\n", "behind line .: the bytes ff 2c 33 0a are not utf-8"),
            ("", "the file is empty"),
        ],
    )
    def test_bad_rows_are_named(self, tmp_path, text, message):
        with pytest.raises(DataFileError, match=r"file\.csv: .*" + message):
            CsvDataset(write(tmp_path, text), Point)

    def test_words_and_choices(self, tmp_path):
        for line, message in (
            ("1,A,1,perhaps,S,", "'member' has 'perhaps': expected true or false"),
            ("1,A,1,no,L,", "'size' has 'L': expected one of 'S', 'M', '3'"),
        ):
            with pytest.raises(DataFileError, match=message):
                CsvDataset(write(tmp_path, HEADER + line), Person)
        with pytest.raises(DataFileError, match="column 'a' has 'x': KeyError"):
            CsvDataset(write(tmp_path, "a\nx\n"), types={"a": {}.__getitem__})

    def test_gzip_cut_anywhere_is_refused(self, tmp_path):
        data = gzip.compress(("a,b\n" + "1,2\n" * 500).encode())
        for length in range(4, len(data), 5):
            with pytest.raises(DataFileError, match=r"file\.csv\.gz: .*truncated or corrupt"):
                CsvDataset(write(tmp_path, data[:length], "file.csv.gz"))

    def test_arguments_that_make_no_sense(self, tmp_path):
        @dataclass
        class Odd:
            x: list[int]

        path = write(tmp_path, "x\n1\n")
        with pytest.raises(DataValueError, match=r"'x' has the type list.*types="):
            CsvDataset(path, Odd)
        assert CsvDataset(path, Odd, types={"x": list})[0] == Odd(["1"])
        with pytest.raises(DataValueError, match="row must be a dataclass"):
            CsvDataset(path, dict)
        with pytest.raises(DataValueError, match="one character"):
            CsvDataset(path, delimiter=",,")
        with pytest.raises(DataValueError, match="no encoding 'nope'"):
            CsvDataset(path, encoding="nope")
        with pytest.raises(MissingDataError, match="no such file"):
            CsvDataset(tmp_path / "none.csv")
        with pytest.raises(DataFileError, match="cannot be read: Is a directory"):
            CsvDataset(tmp_path)


class TestSqlite:
    @pytest.fixture
    def path(self, tmp_path):
        path = tmp_path / "data.db"
        write_sqlite(path, 'po"ints', [Point(i / 2, i) for i in range(1200)])
        return path

    def test_rows_come_back(self, path):
        points = SqliteDataset(path, 'po"ints', Point)
        assert len(points) == 1200
        assert points[3] == points[-1197] == Point(1.5, 3)
        assert list(points) == [Point(i / 2, i) for i in range(1200)]
        assert points.columns == ("x", "label")
        assert "1200 rows of x, label" in repr(points)

    def test_batches_keep_order_and_doubles(self, path):
        batch = SqliteDataset(path, 'po"ints').take([5, 1, 5, -1])
        assert batch["label"].tolist() == [5, 1, 5, 1199]
        order = np.random.default_rng(0).permutation(1200)
        np.testing.assert_array_equal(SqliteDataset(path, 'po"ints').take(order)["label"], order)

    def test_loaders_threads_and_processes(self, path):
        points = SqliteDataset(path, 'po"ints', Point)
        total = sum(int(b["label"].sum()) for b in Loader(points, 64, shuffle=True, tensors=False))
        assert total == 1200 * 1199 // 2
        found = []
        thread = threading.Thread(target=lambda: found.append(points[7]))
        thread.start()
        thread.join()
        assert found == [pickle.loads(pickle.dumps(points))[7]]

    def test_gaps_in_row_ids(self, path):
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute('DELETE FROM "po""ints" WHERE label % 2')
        points = SqliteDataset(path, 'po"ints', Point)
        assert [p.label for p in points] == list(range(0, 1200, 2))
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute('DELETE FROM "po""ints" WHERE label = 4')
        with pytest.raises(DataFileError, match=r"row 2 \(row id 5\) is gone"):
            points[2]

    def test_bytes_and_none(self, tmp_path):
        path = tmp_path / "data.db"
        image = np.arange(4, dtype=np.uint8)
        write_sqlite(path, "t", [{"a": image.tobytes(), "b": None, "c": np.int64(3)}])
        row = SqliteDataset(path, "t", types={"a": lambda b: np.frombuffer(b, np.uint8)})[0]
        np.testing.assert_array_equal(row["a"], image)
        assert (row["b"], row["c"]) == (None, 3)

    def test_values_of_another_type_are_named(self, tmp_path):
        path = tmp_path / "data.db"
        write_sqlite(path, "t", [{"x": 1, "label": 1}, {"x": None, "label": "two"}])
        points = SqliteDataset(path, "t", Point)
        assert points[0] == Point(1.0, 1)
        with pytest.raises(
            DataFileError,
            match=r"data\.db, table 't': row 1 \(row id 2\): column 'x' has None: expected a number"
            r", got NoneType; make the type `float \| None`",
        ):
            points[1]

    def test_files_and_tables_that_are_not_there(self, path, tmp_path):
        with pytest.raises(MissingDataError, match="no such file"):
            SqliteDataset(tmp_path / "none.db", "t")
        assert not (tmp_path / "none.db").exists()
        (tmp_path / "text.db").write_text("no database " * 100)
        with pytest.raises(DataFileError, match=r"text\.db: SQLite cannot read it: file is not"):
            SqliteDataset(tmp_path / "text.db", "t")
        with pytest.raises(DataFileError, match="no table 'points', only 'po\"ints'"):
            SqliteDataset(path, "points")
        with pytest.raises(DataFileError, match="no column 'name'"):
            SqliteDataset(path, 'po"ints', types={"name": str})
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE VIEW v AS SELECT 1 AS a")
            connection.execute("CREATE TABLE w (a PRIMARY KEY) WITHOUT ROWID")
        for name in "vw":
            with pytest.raises(DataFileError, match="CREATE TABLE rows AS"):
                SqliteDataset(path, name)

    def test_writing_is_all_or_nothing(self, tmp_path):
        path = tmp_path / "data.db"
        for rows, message in (
            ([], "no rows for the table 't'"),
            ([{"a": 1}, {"b": 1}], "row 1 has the columns b, and row 0 has a"),
            ([{"a": 1}, {"a": [1]}], "row 1 has a value that SQLite cannot hold"),
            ([{"a": 1}, {"a": 1 << 70}], "row 1 has a value that SQLite cannot hold"),
            ([{"a": 1}, 5], "row 1 must be a dict"),
        ):
            with pytest.raises(DataValueError, match=message):
                write_sqlite(path, "t", rows)
            with pytest.raises(DataFileError, match="no table at all"):
                SqliteDataset(path, "t")
        write_sqlite(path, "t", [{"a": 1}])
        with pytest.raises(DataFileError, match=r"table 't': table .*t.* already exists"):
            write_sqlite(path, "t", [{"a": 2}])
        assert list(SqliteDataset(path, "t")) == [{"a": 1}]
