"""How tensors print."""

import numpy as np
import pytest

import ingle.tensor as it

TAIL = ", device=numpy, backend=numpy)"


@pytest.fixture(autouse=True)
def _on_numpy():
    """What is printed names the device."""
    with it.device("numpy"):
        yield


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([1.0, 2.5], "float32", "tensor([1. , 2.5], shape=(2,), dtype=float32"),
        ([1.0, -0.1], "bfloat16", "tensor([ 1.        , -0.10009766], shape=(2,), dtype=bfloat16"),
        (3, "int8", "tensor(3, shape=(), dtype=int8"),
        (0.5, "float64", "tensor(0.5, shape=(), dtype=float64"),
        ([True, False], "bool", "tensor([ True, False], shape=(2,), dtype=bool"),
        ([1 + 2j], "complex64", "tensor([1.+2.j], shape=(1,), dtype=complex64"),
        ([float("nan"), float("inf")], "float32", "tensor([nan, inf], shape=(2,), dtype=float32"),
        ([], "float32", "tensor([], shape=(0,), dtype=float32"),
    ],
)
def test_values_shape_dtype_device_backend(values, dtype, expected):
    assert repr(it.asarray(values, dtype=dtype)) == expected + TAIL


def test_rows_line_up():
    lines = repr(it.asarray([[1, 2], [3, 4]])).splitlines()
    assert lines[0] == "tensor([[1, 2],"
    assert lines[1] == "        [3, 4]], shape=(2, 2), dtype=int64" + TAIL


def test_an_empty_matrix_shows_its_shape():
    assert repr(it.zeros((0, 3))) == "tensor([], shape=(0, 3), dtype=float32" + TAIL


def test_large_tensors_are_summarised_as_numpy_does():
    x = it.zeros((100, 100))
    assert "..." in repr(x)
    assert len(repr(x)) < 500
    with np.printoptions(threshold=4, edgeitems=1):
        assert repr(it.arange(9)).startswith("tensor([0, ..., 8]")


def test_values_are_read_once(monkeypatch):
    x = it.ones((2000, 10))
    reads = []
    download = x.backend.download
    monkeypatch.setattr(x.backend, "download", lambda h: reads.append(h) or download(h))
    repr(x)
    assert len(reads) == 1


def test_a_recording_tensor_names_its_backend():
    x = it.asarray([1.0]).require_grad()
    assert repr(x).endswith("device=numpy, backend=autodiff(numpy))")
    assert str(x) == repr(x)
