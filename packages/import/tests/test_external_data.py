"""Data of ONNX models in files beside them: mapped, and only from the model's folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ingle import importer
from ingle.importer import ModelError
from ingle.importer.onnx.reading import Reader, parse
from ingle.testkit.bits import same_bits

ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.arange(5, dtype=np.int8),
    "c": np.float16([1.5, -2]),
    "d": np.asarray([3, -8, 7], ml_dtypes.int4),
    "e": np.zeros((0, 4), np.float32),
    "f": np.asarray(7, np.int64),
    "g": np.asarray([1.0, 2.0], ml_dtypes.bfloat16),
}


def model(folder: Path, **changes: str) -> Path:
    """A model whose initializers lie in `data.bin`, one behind the other without gaps."""
    tensors, data = [], b""
    for name, array in ARRAYS.items():
        tensor = numpy_helper.from_array(array, name)
        raw = tensor.raw_data
        told = {"location": "data.bin", "offset": str(len(data)), "length": str(len(raw))}
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {**told, **(changes if name == "a" else {})}.items():
            if value:
                tensor.external_data.add(key=key, value=value)
        tensors.append(tensor)
        data += raw
    (folder / "data.bin").write_bytes(data)
    node = helper.make_node("Add", ["x", "a"], ["y"])
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy"]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


@pytest.mark.slow
def test_every_dtype_is_read_from_its_file(tmp_path: Path) -> None:
    path = model(tmp_path)
    found = Reader(*parse(path)).read().initializers
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert same_bits(found[name], array)
        assert not found[name].flags.writeable
    assert not found["a"].flags.owndata  # it lies in the file
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(importer.load_onnx(path)(x).numpy(), x + ARRAYS["a"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"location": "../data.bin"}, "data.bin"),
        ({"location": "/etc/passwd"}, "passwd"),
        ({"location": "inner/../../data.bin"}, "data.bin"),
        ({"location": "missing.bin"}, "missing.bin"),
        ({"location": "folder"}, "folder"),
        ({"offset": "-4"}, "a|offset"),
        ({"offset": "9" * 30}, "offset|out of range"),
        ({"offset": "4611686018427387904"}, "offset|24 bytes at|exceed"),
        ({"offset": "60"}, "24 bytes at 60|exceed"),
        ({"length": "8"}, "8 bytes"),
        ({"length": "1e3"}, "1e3|length|invalid"),
    ],
)
def test_other_places_are_refused(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    inner = tmp_path / "inner"
    (inner / "folder").mkdir(parents=True)
    (tmp_path / "data.bin").write_bytes(bytes(100))
    path = model(inner, **changes)
    with pytest.raises(ModelError, match=message) as caught:
        importer.load_onnx(path)
    assert "model.onnx" in str(caught.value)
    # Without onnx's checker, whose rules another version may change, too.
    with pytest.raises(ModelError, match=re.escape(f"{path}: initializer 'a'")):
        Reader(onnx.load(path, load_external_data=False), str(path), str(inner)).read()


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "secret").write_bytes(bytes(100))
    path = model(inner, location="link")
    os.symlink(tmp_path / "secret", inner / "link")
    with pytest.raises(ModelError, match=r"model\.onnx"):
        importer.load_onnx(path)
    with pytest.raises(ModelError, match="no file of"):
        Reader(onnx.load(path, load_external_data=False), str(path), str(inner)).read()


def test_a_model_in_memory_has_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = model(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=r"data\.bin|external"):
        importer.load_onnx(path.read_bytes())
    with pytest.raises(ModelError, match="load it by its path"):
        Reader(onnx.load(path, load_external_data=False), "the model", "").read()
