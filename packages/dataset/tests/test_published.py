"""Published data sets, from small files of the same formats on a server on this machine."""

import gzip
import hashlib
import io
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from ingle.dataset import (
    AG_NEWS_CLASSES,
    CALIFORNIA_FEATURES,
    FASHION_CLASSES,
    DataFileError,
    DataValueError,
    DownloadError,
    MissingDataError,
    ag_news,
    california_housing,
    cifar10,
    cifar100,
    download,
    fashion_mnist,
)

SOURCES = "ingle.dataset."


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def served(tmp_path):
    """A folder and the address at which its files are served."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def digest(data, kind="sha256"):
    return hashlib.new(kind, data).hexdigest()


def archive(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def test_fashion_mnist(served, tmp_path, monkeypatch, idx_bytes):
    folder, url = served
    checksums = {}
    for part, count in (("train", 12), ("t10k", 4)):
        for kind, array in (
            ("images-idx3", np.full((count, 28, 28), 51, np.uint8)),
            ("labels-idx1", np.arange(count, dtype=np.uint8) % 10),
        ):
            data = gzip.compress(idx_bytes(array))
            (folder / f"{part}-{kind}-ubyte.gz").write_bytes(data)
            checksums[f"{part}-{kind}-ubyte"] = digest(data)
    monkeypatch.setattr(SOURCES + "fashion_source.CHECKSUMS", checksums)
    options = {"mirrors": [url], "progress": False}
    sizes = [len(fashion_mnist(tmp_path / "f", s, **options)) for s in ("train", "valid", "test")]
    assert sizes == [10, 2, 4]
    image, label = fashion_mnist(tmp_path / "f", "valid", download=False)[1]
    assert (image.shape, float(image.max()), int(label)) == ((1, 28, 28), np.float32(0.2), 1)
    with pytest.raises(MissingDataError, match=r"fashion_mnist: .*download=True"):
        fashion_mnist(tmp_path / "g", download=False)
    with pytest.raises(DataValueError, match="fashion_mnist: split"):
        fashion_mnist(split="dev")
    assert len(FASHION_CLASSES) == 10


def cifar_file(rng, count, kinds):
    labels = np.stack([rng.integers(0, k, count) for k in kinds], axis=1).astype(np.uint8)
    pixels = rng.integers(0, 256, (count, 3072), dtype=np.uint8)
    return labels, pixels, np.concatenate([labels, pixels], axis=1).tobytes()


class TestCifar:
    @pytest.fixture
    def tens(self, served, monkeypatch):
        folder, url = served
        rng = np.random.default_rng(0)
        parts = [cifar_file(rng, 4, (10,)) for _ in range(6)]
        names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
        inside = {f"cifar-10-batches-bin/{n}": p[2] for n, p in zip(names, parts, strict=True)}
        # In another order than that of the numbers, and with a file beside them.
        data = archive({"x/readme.html": b"hi", **dict(reversed(inside.items()))})
        name = "cifar-10-binary.tar.gz"
        (folder / name).write_bytes(data)
        monkeypatch.setattr(SOURCES + "cifar_source.CHECKSUMS", {name: digest(data)})
        return {"mirrors": [url], "progress": False}, parts

    def test_images_and_labels(self, tens, tmp_path):
        options, parts = tens
        labels = np.concatenate([p[0][:, 0] for p in parts[:5]])
        pixels = np.concatenate([p[1] for p in parts[:5]]).reshape(-1, 3, 32, 32)
        train = cifar10(tmp_path, "train", dtype="uint8", **options).arrays
        valid = cifar10(tmp_path, "valid", dtype="uint8", **options).arrays
        np.testing.assert_array_equal(np.concatenate([train[0], valid[0]]), pixels)
        np.testing.assert_array_equal(np.concatenate([train[1], valid[1]]), labels)
        assert (len(train[0]), train[1].dtype) == (18, np.int64)
        image, label = cifar10(tmp_path, "test", download=False)[3]
        assert image.dtype == np.float32
        np.testing.assert_allclose(image.ravel() * 255, parts[5][1][3], rtol=1e-6)
        assert label == parts[5][0][3, 0]

    def test_archives_cut_or_of_another_kind(self, tens, tmp_path):
        options, _ = tens
        cifar10(tmp_path, **options)
        path = tmp_path / "cifar-10-binary.tar.gz"
        data = path.read_bytes()
        for length in (0, 1, 50, len(data) // 2, len(data) // 8):
            path.write_bytes(data[:length])
            with pytest.raises(DataFileError, match=r"binary\.tar\.gz: .*truncated or corrupt"):
                cifar10(tmp_path)
        path.write_bytes(archive({"a/data_batch_1.bin": bytes(3073)}))
        with pytest.raises(DataFileError, match=r"no data_batch_2\.bin; is it the binary"):
            cifar10(tmp_path)
        path.write_bytes(archive({"a/test_batch.bin": bytes(3074)}))
        with pytest.raises(DataFileError, match="has 3074 bytes, expected records of 3073"):
            cifar10(tmp_path, "test")
        path.write_bytes(archive({"a/test_batch.bin": bytes([10]) + bytes(3072)}))
        with pytest.raises(DataFileError, match=r"test_batch\.bin: label 10 at index 0"):
            cifar10(tmp_path, "test")

    def test_arguments(self, tmp_path):
        with pytest.raises(DataValueError, match="dtype must be"):
            cifar10(tmp_path, dtype="int8")
        with pytest.raises(DataValueError, match="cifar100: split"):
            cifar100(tmp_path, "dev")
        with pytest.raises(DataValueError, match="'fine' or 'coarse'"):
            cifar100(tmp_path, labels="all")

    def test_fine_and_coarse(self, served, tmp_path, monkeypatch):
        folder, url = served
        labels, _, content = cifar_file(np.random.default_rng(1), 20, (20, 100))
        name = "cifar-100-binary.tar.gz"
        data = archive({"cifar-100-binary/train.bin": content})
        (folder / name).write_bytes(data)
        monkeypatch.setattr(SOURCES + "cifar_source.CHECKSUMS", {name: digest(data)})
        options = {"mirrors": [url], "progress": False}
        fine = cifar100(tmp_path, **options).arrays[1]
        coarse = cifar100(tmp_path, labels="coarse", **options).arrays[1]
        np.testing.assert_array_equal(np.stack([coarse, fine], 1), labels[:18])

    def test_a_file_with_another_checksum_is_not_kept(self, served, tmp_path):
        folder, url = served
        (folder / "cifar-10-binary.tar.gz").write_bytes(b"x")
        with pytest.raises(DownloadError, match="the checksum is wrong"):
            cifar10(tmp_path / "c", mirrors=[url], progress=False)
        assert list((tmp_path / "c").iterdir()) == []


class TestCalifornia:
    TEXT = "".join(
        f"{-120 - i / 7:f},{37 + i / 9:f},{i + 1}.0,{880 + i}.0,{129 + i}.0,{322 + i}.0,"
        f"{126 + i}.0,{8 - i / 5:f},{100_000 + 1000 * i}.0\n"
        for i in range(30)
    )

    def test_features_are_scikit_learns(self, served, tmp_path, monkeypatch):
        from sklearn.datasets import _california_housing, fetch_california_housing
        from sklearn.datasets._base import RemoteFileMetadata

        folder, url = served
        data = archive({"CaliforniaHousing/cal_housing.data": self.TEXT.encode()})
        (folder / "housing").write_bytes(data)
        monkeypatch.setattr(SOURCES + "california_source.CHECKSUM", digest(data))
        remote = RemoteFileMetadata("cal_housing.tgz", url + "housing", digest(data))
        monkeypatch.setattr(_california_housing, "ARCHIVE", remote)
        bunch = fetch_california_housing(data_home=tmp_path / "sk")
        options = {"urls": [url + "housing"], "progress": False}
        parts = [california_housing(tmp_path, s, **options) for s in ("train", "valid", "test")]
        assert [len(p) for p in parts] == [21, 3, 6]
        features = np.concatenate([p.arrays[0] for p in parts])
        prices = np.concatenate([p.arrays[1] for p in parts])
        assert (features.dtype, prices.shape) == (np.float32, (30, 1))
        order = np.argsort(prices[:, 0])
        np.testing.assert_allclose(features[order], bunch.data, rtol=1e-6)
        np.testing.assert_allclose(prices[order, 0], bunch.target, rtol=1e-6)
        assert len(CALIFORNIA_FEATURES) == features.shape[1]

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b"no archive", "truncated or corrupt"),
            (archive({"a": b""}), r"no cal_housing\.data"),
            (archive({"cal_housing.data": b""}), "is empty"),
            (archive({"cal_housing.data": TEXT.encode() + b"1,2\n"}), "row 30: expected 9 finite"),
            (archive({"cal_housing.data": b"1,2,x"}), "row 0: could not convert.*'x'"),
            (archive({"cal_housing.data": b"1,2,3,4,5,6,0,8,9"}), "row 0 has 0 households"),
        ],
        ids=["no archive", "no file", "empty", "short row", "words", "no households"],
    )
    def test_archives_of_another_form(self, tmp_path, data, message):
        (tmp_path / "cal_housing.tgz").write_bytes(data)
        with pytest.raises(DataFileError, match=r"cal_housing\.tgz: .*" + message):
            california_housing(tmp_path)


class TestAgNews:
    def text(self, count):
        return "".join(f'"{i % 4 + 1}","Title ""{i}""","About {i}, \\$"\n' for i in range(count))

    def test_texts_and_labels(self, served, tmp_path, monkeypatch):
        folder, url = served
        checksums = {}
        for name, count in (("train.csv", 80), ("test.csv", 6)):
            data = self.text(count).encode()
            (folder / name).write_bytes(data)
            checksums[name] = digest(data, "md5")
        monkeypatch.setattr(SOURCES + "ag_news_source.CHECKSUMS", checksums)
        options = {"mirrors": [url], "progress": False}
        train = ag_news(tmp_path, "train", **options)
        valid = ag_news(tmp_path, "valid", **options)
        assert (len(train), len(valid)) == (76, 4)
        expected = {(f'Title "{i}" About {i}, \\$', i % 4) for i in range(80)}
        assert set(train) | set(valid) == expected
        assert sorted(label for _, label in valid) == [0, 1, 2, 3]
        test = ag_news(tmp_path, "test", **options)
        assert test[5] == ('Title "5" About 5, \\$', 1)
        assert len(AG_NEWS_CLASSES) == 4

    def test_a_bad_row_is_named(self, tmp_path):
        (tmp_path / "test.csv").write_text(self.text(3) + '"5","a","b"\n')
        with pytest.raises(
            DataFileError,
            match=r"test\.csv: line 4, row 3: column 'label' has '5': expected one of '1', '2'",
        ):
            ag_news(tmp_path, "test")


def test_one_checksum_is_owed(tmp_path):
    for checksums in ({}, {"md5": "a", "sha256": "b"}):
        with pytest.raises(DataValueError, match="give one checksum"):
            download(["http://127.0.0.1:9/"], tmp_path / "file", **checksums)
