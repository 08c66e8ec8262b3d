"""Weights of other frameworks: read as their own libraries read them, written as these expect."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import tarfile
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import ingle.tensor as it
from ingle import importer, nn
from ingle.importer import WeightsError
from ingle.importer.weights.gguf_blocks import KINDS, PACKERS, packed, unpacked
from ingle.tensor.errors import OperandError

RNG = np.random.default_rng(0)
ARRAYS = {
    "a.weight": RNG.normal(size=(3, 4)).astype(np.float32),
    "a.half": RNG.normal(size=5).astype(np.float16),
    "b.brain": RNG.normal(size=(2, 2)).astype(ml_dtypes.bfloat16),
    "b.steps": np.asarray([7], np.int64),
}


def same(weights: importer.Weights) -> None:
    assert set(weights) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert weights.shape(name) == array.shape
        assert weights[name].dtype == array.dtype
        np.testing.assert_array_equal(weights[name], array)


def test_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors.numpy.save(ARRAYS, {"note": "x"}))
    weights = importer.open_weights(path)
    same(weights)
    assert weights.metadata == {"note": "x"}
    assert not weights["a.weight"].flags.owndata  # it lies in the file


def test_sharded_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    files = importer.save_safetensors(path, ARRAYS, shard_size=40)
    assert [f.name for f in files][:1] == ["model-00001-of-00002.safetensors"]
    same(importer.open_weights(files[-1]))
    same(importer.open_weights(tmp_path))
    index = json.loads(files[-1].read_text("utf-8"))
    for elsewhere in ("../elsewhere.safetensors", str(path), "", ".", ".."):
        index["weight_map"]["a.half"] = elsewhere
        files[-1].write_text(json.dumps(index), "utf-8")
        with pytest.raises(WeightsError, match="no file beside it"):
            importer.open_weights(files[-1])


def test_safetensors_that_end_too_early(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    content = safetensors.numpy.save({"a.weight": ARRAYS["a.weight"]})
    path.write_bytes(content[:-1])
    with pytest.raises(WeightsError, match=r"damaged or no safetensors file: 'a\.weight' has the"):
        importer.open_weights(path)


def test_npz(tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    np.savez_compressed(path, x=np.arange(6).reshape(2, 3), y=np.float32(2))
    weights = importer.open_weights(path)
    assert weights["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert weights.shape("y") == ()
    np.savez(path, x=np.asarray([{}], object))
    with pytest.raises(WeightsError, match="Python objects"):
        importer.open_weights(path)


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_pytorch(tmp_path: Path, legacy: bool) -> None:
    torch = pytest.importorskip("torch")
    base = torch.arange(12.0).reshape(3, 4)
    state = OrderedDict(
        whole=base, turned=base.T, part=base[1:, 2], half=base.half(), brain=base.bfloat16(),
        count=torch.tensor(3), flags=torch.tensor([True, False]), empty=torch.zeros(0, 2),
        parameter=torch.nn.Parameter(base),
    )  # fmt: skip
    path = tmp_path / "model.pt"
    torch.save({"state_dict": state, "epoch": 4}, path, _use_new_zipfile_serialization=not legacy)
    weights = importer.open_weights(path)
    assert list(weights) == list(state)
    for name, expected in state.items():
        assert weights.shape(name) == tuple(expected.shape)
        np.testing.assert_array_equal(
            weights[name].astype(np.float64), expected.detach().double().numpy()
        )
    assert weights["brain"].dtype == ml_dtypes.bfloat16


def test_the_oldest_format_of_pytorch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    storages, tensors = io.BytesIO(), io.BytesIO()
    values = np.arange(6, dtype=np.float32)
    pickle.dump(1, storages, 2)
    pickle.dump((11, "cpu", torch.FloatStorage), storages, 2)
    storages.write(struct.pack("<q", 6) + values.tobytes())
    pickle.dump([], storages, 2)
    pickle.dump(1, tensors, 2)
    pickle.dump((22, 11, torch.FloatTensor), tensors, 2)
    tensors.write(struct.pack("<i4x", 2) + struct.pack("<5q", 2, 3, 3, 1, 0))

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj: object) -> object:
            return "22" if isinstance(obj, Here) else None

    class Here:
        pass

    named = io.BytesIO()
    Pickler(named, 2).dump(OrderedDict(x=Here()))
    path = tmp_path / "old.pth.tar"
    with tarfile.open(path, "w") as archive:
        for name, part in (("storages", storages), ("tensors", tensors), ("pickle", named)):
            info = tarfile.TarInfo(name)
            info.size = len(part.getvalue())
            archive.addfile(info, io.BytesIO(part.getvalue()))
    assert torch.load(path, weights_only=False)["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert importer.open_weights(path)["x"].tolist() == [[0, 1, 2], [3, 4, 5]]


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("exit 7",)


def test_a_hostile_pickle_is_refused_by_name(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    for new in (True, False):
        path = tmp_path / f"{new}.pt"
        torch.save({"x": Hostile()}, path, _use_new_zipfile_serialization=new)
        with pytest.raises(WeightsError, match=r"refused: its pickle names \w+\.system"):
            importer.open_weights(path)
    bomb = tmp_path / "bomb.pt"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"\0" * 10_000_000)
    with pytest.raises(WeightsError, match="compressed"):
        importer.open_weights(bomb)
    memo = tmp_path / "memo.pt"
    with zipfile.ZipFile(memo, "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02}r\xff\xff\xff\x7f.")
    with pytest.raises(WeightsError, match="memo places"):
        importer.open_weights(memo)


def test_a_tensor_stays_in_its_storage(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "x.pt"
    torch.save({"x": torch.zeros(4, 4)}, path)
    data = path.read_bytes()
    assert data.count(b"K\x04K\x04\x86") == 1
    path.write_bytes(data.replace(b"K\x04K\x04\x86", b"K\x04K\x7f\x86"))
    with pytest.raises(WeightsError, match="reaches beyond its storage"):
        importer.open_weights(path)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_blocks_are_read_as_by_the_gguf_package(kind: str) -> None:
    gguf = pytest.importorskip("gguf")
    size = KINDS[kind][2]
    data = np.random.default_rng(3).integers(0, 256, (7, size), np.uint8)
    with np.errstate(all="ignore"):
        expected = gguf.dequantize(data, gguf.GGMLQuantizationType[kind])
    np.testing.assert_array_equal(unpacked(kind, data), expected.reshape(-1))


@pytest.mark.parametrize("kind", sorted(PACKERS))
def test_blocks_are_written_as_by_the_gguf_package(kind: str) -> None:
    gguf = pytest.importorskip("gguf")
    x = np.random.default_rng(4).normal(size=(5, 64)).astype(np.float32)
    x[0] = 0
    expected = gguf.quantize(x, gguf.GGMLQuantizationType[kind])
    np.testing.assert_array_equal(packed(kind, x), expected.reshape(-1))


def test_gguf(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "test")
    writer.add_uint32("test.layers", 2)
    writer.add_array("test.words", ["a", "b"])
    writer.add_float32("test.eps", 0.5)
    x = RNG.normal(size=(3, 64)).astype(np.float32)
    writer.add_tensor("plain", x)
    q = gguf.quantize(x, gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("blocks", q, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    weights = importer.open_weights(path)
    assert weights.metadata["test.words"] == ["a", "b"]
    assert weights.metadata["test.layers"] == 2
    np.testing.assert_array_equal(weights["plain"], x)
    assert weights.dtype("blocks") == "Q8_0"
    np.testing.assert_allclose(weights["blocks"], x, atol=0.03)


def test_gguf_that_is_written_is_read_by_the_gguf_package(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    path = tmp_path / "m.gguf"
    model = nn.Linear(64, 3)
    notes = {"general.architecture": "test", "test.sizes": [1, 2], "test.on": True, "x.y": -1.5}
    importer.save_gguf(path, model, kind="Q8_0", metadata=notes)
    reader = gguf.GGUFReader(path)
    found = {t.name: t for t in reader.tensors}
    assert found["weight"].tensor_type.name == "Q8_0"
    assert reader.get_field("test.sizes").contents() == [1, 2]
    assert reader.get_field("x.y").contents() == -1.5
    x = gguf.dequantize(found["weight"].data, found["weight"].tensor_type)
    np.testing.assert_allclose(x, model.weight.numpy(), atol=2e-3)
    other = nn.Linear(64, 3)
    assert importer.load_weights(other, path).complete
    np.testing.assert_array_equal(other.weight.numpy(), x)


@pytest.mark.parametrize("save", [importer.save_safetensors, importer.save_gguf])
def test_what_is_no_weights_is_named(tmp_path: Path, save: Any) -> None:
    path = tmp_path / "w"
    model = nn.Linear(2, 3)
    with pytest.raises(OperandError, match=r"got str; the path comes first: save_\w+\("):
        save(model, str(path))
    with pytest.raises(OperandError, match="got list"):
        save(path, [np.ones(3)])
    with pytest.raises(WeightsError, match="got int under 'epoch'"):
        save(path, {"epoch": 3})
    with pytest.raises(WeightsError, match="got ndarray under 3"):
        save(path, {3: np.ones(3)})
    assert not path.exists()
    save(path, dict(model.named_parameters()))
    np.testing.assert_array_equal(importer.open_weights(path)["bias"], model.bias.numpy())


def test_loading_reports_what_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    state = {
        "model.0.weight": np.ones((3, 2), np.float64), "model.0.bias": np.ones(4, np.float32),
        "model.9.x": np.ones(1, np.float32),
    }  # fmt: skip
    importer.save_safetensors(path, state)
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    before = model[1].weight.tolist()
    with pytest.raises(nn.StateError) as caught:
        importer.load_weights(model, path, rename={"^model\\.": ""})
    for part in ("missing: 1.weight, 1.bias", "unexpected: 9.x", "has shape (3,), the file (4,)"):
        assert part in str(caught.value)
    assert model[0].weight.tolist() != [[1, 1]] * 3
    report = importer.load_weights(model, path, rename={"^model\\.": ""}, strict=False)
    assert report.loaded == ["0.weight"]
    assert report.mismatched == {"0.bias": ((3,), (4,))}
    assert model[0].weight.tolist() == [[1, 1]] * 3
    assert model[1].weight.tolist() == before
    with pytest.raises(WeightsError, match="both renamed"):
        importer.load_state_dict(path, rename=lambda name: "same")
    kept = importer.load_state_dict(
        path, rename=lambda n: n if "bias" in n else None, dtype="float16"
    )
    assert kept["model.0.bias"].dtype is it.float16
    assert list(kept) == ["model.0.bias"]


@pytest.mark.parametrize("given", [{"weight": 1.0}, None, b"bytes"])
def test_weights_that_are_no_path(given: Any) -> None:
    with pytest.raises(importer.WeightsError, match="expected the path of a file of weights, got"):
        importer.load_weights(nn.Linear(1, 1), given)
