import gzip
import hashlib
import tracemalloc

import numpy as np
import pytest

from ingle.dataset import (
    DataFileError,
    DataValueError,
    MissingDataError,
    MissingExtraError,
    digits,
    mnist,
    read_idx,
)
from ingle.dataset.digits_source import enlarge
from ingle.dataset.images import as_floats


@pytest.fixture
def folder(tmp_path, idx_bytes):
    """Small files as MNIST's: 60 for training, 10 for testing; some gzipped, some not."""
    rng = np.random.default_rng(0)
    for part, count, zipped in (("train", 60, True), ("t10k", 10, False)):
        images = idx_bytes(rng.integers(0, 256, (count, 28, 28), dtype=np.uint8))
        labels = idx_bytes((np.arange(count) % 10).astype(np.uint8))
        for kind, data in (
            (f"{part}-images-idx3-ubyte", images),
            (f"{part}-labels-idx1-ubyte", labels),
        ):
            name = f"{kind}.gz" if zipped else kind
            (tmp_path / name).write_bytes(gzip.compress(data) if zipped else data)
    return tmp_path


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (0, 2)])
@pytest.mark.parametrize("zipped", [False, True])
def test_idx_round_trip(tmp_path, idx_bytes, dtype, shape, zipped):
    array = (np.arange(np.prod(shape, dtype=int)) % 100).reshape(shape).astype(dtype)
    data = idx_bytes(array)
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(data) if zipped else data)
    read = read_idx(path)
    assert read.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(read, array)


def test_idx_cut_at_every_length_is_refused(tmp_path, idx_bytes):
    data = idx_bytes(np.arange(6, dtype=np.int16).reshape(2, 3))
    path = tmp_path / "file"
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(DataFileError, match=r"file: .*expected .*Delete the file"):
            read_idx(path)
    path.write_bytes(data + b"x")
    with pytest.raises(DataFileError, match="longer than its header says: 25 bytes, expected 24"):
        read_idx(path)


def test_gzip_cut_or_flipped_is_refused(tmp_path, idx_bytes):
    data = gzip.compress(idx_bytes(np.arange(200, dtype=np.uint8)))
    path = tmp_path / "file.gz"
    for length in range(2, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(DataFileError, match="truncated or corrupt"):
            read_idx(path)
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 0xFF
    path.write_bytes(flipped)
    with pytest.raises(DataFileError, match="corrupt"):
        read_idx(path)


@pytest.mark.slow
def test_a_bomb_is_not_unpacked(tmp_path, idx_bytes):
    """Gzip packs zeros a thousandfold: what is unpacked is bound by the header, and by a limit."""
    size = 64 << 20
    path, honest = tmp_path / "file.gz", tmp_path / "honest.gz"
    path.write_bytes(gzip.compress(idx_bytes(np.zeros(1, np.uint8)) + bytes(size), 1))
    header = bytes([0, 0, 8, 1]) + size.to_bytes(4, "big")
    honest.write_bytes(gzip.compress(header + bytes(size), 1))
    tracemalloc.start()
    try:
        with pytest.raises(DataFileError, match="longer than its header says: 10 bytes or more"):
            read_idx(path)
        with pytest.raises(DataFileError, match=rf"to {size + 8} bytes.*max_bytes={size + 8}"):
            read_idx(honest, max_bytes=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert read_idx(honest, max_bytes=size + 8).shape == (size,)


def test_sizes_that_no_file_has(tmp_path):
    """A header that asks for 16 exabytes, or for 255 axes; nothing is allocated for it."""
    path = tmp_path / "file"
    for sizes in ([2**32 - 1] * 2, [2**32 - 1] * 32, [0] + [2**32 - 1] * 31):
        header = bytes([0, 0, 8, len(sizes)]) + b"".join(n.to_bytes(4, "big") for n in sizes)
        for data in (header, gzip.compress(header)):
            path.write_bytes(data)
            with pytest.raises(DataFileError, match="file: "):
                read_idx(path)
    path.write_bytes(bytes([0, 0, 8, 255]) + bytes(4 * 255))
    with pytest.raises(DataFileError, match="not an IDX file"):
        read_idx(path)


def test_what_is_no_file(tmp_path):
    with pytest.raises(DataFileError, match="cannot be read: Is a directory"):
        read_idx(tmp_path)


def test_a_missing_file_and_another_format(tmp_path):
    with pytest.raises(MissingDataError, match="no such file"):
        read_idx(tmp_path / "none")
    (tmp_path / "page").write_text("<html>404</html>")
    with pytest.raises(DataFileError, match="begins with 3c 68 74 6d"):
        read_idx(tmp_path / "page")


def test_the_split_is_five_sixths_one_sixth_and_the_test_files(folder):
    sets = {s: mnist(folder, s, download=False) for s in ("train", "valid", "test")}
    assert {s: len(d) for s, d in sets.items()} == {"train": 50, "valid": 10, "test": 10}
    images, labels = sets["train"].arrays
    assert (images.shape, images.dtype, labels.dtype) == ((50, 1, 28, 28), np.float32, np.int64)
    assert images.min() >= 0
    assert images.max() == 1
    raw = read_idx(folder / "train-images-idx3-ubyte.gz")
    np.testing.assert_array_equal(sets["valid"].arrays[0][:, 0], raw[50:].astype(np.float32) / 255)
    assert sets["valid"].arrays[1].tolist() == list(range(10))


def test_other_names_and_folders_are_found(folder):
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for path in list(folder.glob("t10k*")):
        path.rename(raw / path.name.replace("-idx", ".idx"))
    assert len(mnist(folder, "test", download=False)) == 10


def test_mnist_says_which_file_is_missing(folder):
    (folder / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(MissingDataError, match=r"no train-labels-idx1-ubyte\.gz .*download=True"):
        mnist(folder, download=False)
    with pytest.raises(DataValueError, match="'train', 'valid' or 'test', got 'dev'"):
        mnist(folder, "dev")


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("t10k-images-idx3-ubyte", np.zeros((10, 8, 8), np.uint8), "expected images of 28x28"),
        ("t10k-labels-idx1-ubyte", np.zeros(9, np.uint8), "one label for each of the 10"),
        (
            "t10k-labels-idx1-ubyte",
            np.full(10, 11, np.uint8),
            "label 11 at index 0 is out of range",
        ),
    ],
)
def test_files_that_do_not_fit(folder, idx_bytes, name, array, message):
    (folder / name).write_bytes(idx_bytes(array))
    with pytest.raises(DataFileError, match=message):
        mnist(folder, "test", download=False)


def test_digits_are_real_scaled_and_split_for_ever():
    sets = {s: digits(s) for s in ("train", "valid", "test")}
    assert {s: len(d) for s, d in sets.items()} == {"train": 1258, "valid": 180, "test": 359}
    for data in sets.values():
        images, labels = data.arrays
        assert (images.dtype, images.shape[1:], labels.dtype) == (np.float32, (1, 28, 28), np.int64)
        assert images.min() == 0
        assert 0.9 < images.max() <= 1
        shares = np.bincount(labels, minlength=10) / len(labels)
        assert np.all(np.abs(shares - 0.1) < 0.02)
    everything = np.concatenate([d.arrays[0] for d in sets.values()])
    assert len(np.unique(everything.reshape(len(everything), -1), axis=0)) == 1797
    labels = hashlib.sha256(sets["test"].arrays[1].astype("<i8").tobytes()).hexdigest()
    # Written down once: accuracies are only comparable on the same held-out digits.
    assert labels.startswith("1460d085192c8d85")


def test_enlarging_keeps_the_shape_of_a_digit():
    from scipy.ndimage import center_of_mass
    from sklearn.datasets import load_digits

    small = load_digits().images[:50] / 16
    large = enlarge(small)
    for a, b in zip(small, large, strict=True):
        # The centre of mass moves with the magnification, and the ink grows with its square.
        expected = (np.array(center_of_mass(a)) - 3.5) * 2.5 + 13.5
        np.testing.assert_allclose(center_of_mass(b), expected, atol=0.5)
        np.testing.assert_allclose(b.sum(), a.sum() * 2.5**2, rtol=0.05)


def test_enlarging_a_flat_image_leaves_its_middle_flat():
    np.testing.assert_allclose(enlarge(np.full((1, 8, 8), 0.5))[0, 10:18, 10:18], 0.5, atol=1e-6)


def test_digits_without_scikit_learn_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.datasets", None)
    with pytest.raises(MissingExtraError, match=r'pip install "ingle-dataset\[digits\]"'):
        digits()
    with pytest.raises(DataValueError, match="split must be"):
        digits("dev")


def test_bytes_become_floats_without_an_array_in_between() -> None:
    every = np.arange(256, dtype=np.uint8)
    assert (as_floats(every) == every.astype(np.float32) / 255).all()
    pixels = np.random.default_rng(0).integers(0, 256, (64, 100, 100), np.uint8)[:, ::2]
    tracemalloc.start()
    try:
        made = as_floats(pixels)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert made.dtype == np.float32
    assert made.flags.c_contiguous
    assert (made == pixels.astype(np.float32) / 255).all()
    assert most < 1.2 * made.nbytes
