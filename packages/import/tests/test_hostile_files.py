"""Files made to do harm: sizes that overflow, bombs, cycles. The error names file and field."""

from __future__ import annotations

import io
import itertools
import json
import pickle
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from fuzzing import little_memory
from onnx import TensorProto, helper

from ingle import importer
from ingle.importer import ModelError, WeightsError
from ingle.importer.weights import arrays_file

LIMITS = (1 << 31, 1 << 32, (1 << 62) - 1, 1 << 62, 1 << 63, (1 << 64) - 1)


def refused(path: Path, data: bytes, match: str) -> None:
    path.write_bytes(data)
    with pytest.raises(WeightsError, match=match) as caught:
        list(importer.open_weights(path).values())
    assert path.name in str(caught.value)


def gguf(
    *, tensors: int = 1, settings: bytes = b"", dims: Any = (2,), kind: int = 0, start: int = 0,
    name: int = 1, data: bytes = bytes(64), count: int = 0,
) -> bytes:  # fmt: skip
    """A GGUF file with one tensor."""
    head = b"GGUF" + struct.pack("<IQQ", 3, tensors, count) + settings
    head += struct.pack("<Q", name) + b"x" + struct.pack("<I", len(dims))
    head += struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind, start)
    return head + bytes(-len(head) % 32) + data


def setting(kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", 1) + b"a" + struct.pack("<I", kind) + value


def test_sizes_of_gguf_that_overflow(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf())
    assert importer.open_weights(path)["x"].tolist() == [0, 0]
    for n in LIMITS:
        for data in [
            gguf(dims=(n,)), gguf(dims=(2, n)), gguf(dims=(n, n)), gguf(dims=(0, n, n)),
            gguf(dims=(n,), kind=2), gguf(dims=(32, n), kind=8), gguf(start=n), gguf(name=n),
            gguf(tensors=n), gguf(count=n), gguf(dims=(1,) * 9),
        ]:  # fmt: skip
            refused(path, data, "damaged")
        for kind in (0, 4, 6, 7, 8, 9, 12):
            array = setting(9, struct.pack("<IQ", kind, n))
            refused(path, gguf(settings=array, count=1), "damaged")
        refused(path, gguf(settings=setting(8, struct.pack("<Q", n)), count=1), "damaged")
    nested = b"".join(struct.pack("<IQ", 9, 1) for _ in range(50))
    refused(path, gguf(settings=setting(9, nested), count=1), "damaged")
    refused(path, gguf(kind=99), "quantized as number 99")


def safetensors(header: Any, data: bytes = bytes(64)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_sizes_of_safetensors_that_overflow(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    for n in (*LIMITS, 1 << 70, -1, 2.0, True, None, "4"):
        for shape, ends in [([n], [0, 16]), ([n, 0, n], [0, 0]), ([4], [0, n]), ([4], [n, 16])]:
            entry = {"x": {"dtype": "F32", "shape": shape, "data_offsets": ends}}
            refused(path, safetensors(entry), "damaged")
    for n in LIMITS:
        refused(path, struct.pack("<Q", n) + b'{"x"', "header")
    for header in (b"{" * 100_000, b'{"x": ' * 50_000, b"{}x", b'{"x": 1}', b'{"x": {"dtype": 3}}'):
        refused(path, safetensors(header), "damaged")
    deep = {"x": {"dtype": "F32", "shape": [1] * 70, "data_offsets": [0, 4]}}
    refused(path, safetensors(deep), "damaged")


def archive(entries: dict[str, bytes], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as made:
        for name, data in entries.items():
            made.writestr(name, data)
    return file.getvalue()


def npy(shape: Any, data: bytes = b"", descr: str = "<f4") -> bytes:
    head = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


def zip_bomb(size: int) -> bytes:
    """An archive of an array of zeros, packed piece by piece."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = npy((size // 4,))
    packed, check = pack.compress(head), zlib.crc32(head)
    piece = bytes(1 << 20)
    for _ in range(size >> 20):
        packed += pack.compress(piece)
        check = zlib.crc32(piece, check)
    packed += pack.flush()
    total = len(head) + size
    common = struct.pack("<HHHHHIII", 20, 0, 8, 0, 0, check, len(packed), total)
    names = struct.pack("<HH", 5, 0)
    local = b"PK\x03\x04" + common + names + b"x.npy" + packed
    central = b"PK\x01\x02\x14\x00" + common + names + bytes(14) + b"x.npy"
    end = struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)
    return local + central + b"PK\x05\x06" + end


@pytest.mark.slow
def test_zip_bombs(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    small = zip_bomb(1 << 20)
    path.write_bytes(small)
    assert importer.open_weights(path)["x"].shape == (1 << 18,)
    data = zip_bomb(arrays_file.MOST_FROM_LITTLE + (1 << 20))
    assert len(data) < 1 << 20
    refused(path, data, "zip bomb")
    for n in (1 << 40, 1 << 62, 1 << 63, 1 << 70, -1):
        for shape in ((n,), (n, 0, n), (2, n)):
            refused(path, archive({"x.npy": npy(shape, bytes(64))}), r"damaged|claims")
    refused(path, archive({"x.npy": npy((16,), bytes(60))}), "damaged")
    refused(path, archive({"x.npy": npy("no", bytes(60))}), "damaged")
    refused(path, archive({"x.npy": npy((2,), bytes(16), "|O")}), "objects")


def torch_file(data: bytes, how: int = zipfile.ZIP_STORED) -> bytes:
    return archive({"a/data.pkl": data, "a/data/0": bytes(64)}, how)


def test_what_could_be_packed_is_not_unpacked(tmp_path: Path) -> None:
    # As an old lzma file this asks for a dictionary of 3 GiB; as a pickle it is damaged.
    data = struct.pack("<BIQ", 0, 3 << 30, 1 << 20) + bytes(2000)
    with little_memory():
        refused(tmp_path / "old.pt", data, "damaged|no file")


@pytest.mark.slow
def test_pickle_bombs(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    laughs = pickle.dumps({}, 2)[:-1]
    # Each of 40 dicts holds the one before it twice.
    laughs = b"\x80\x02}q\x00" + b"".join(
        b"}q" + bytes([i + 1]) + b"(U\x01ah" + bytes([i]) + b"U\x01bh" + bytes([i]) + b"u"
        for i in range(40)
    ) + b"."  # fmt: skip
    refused(path, torch_file(laughs), "million names|no tensors")
    name = "n" * 100_000
    long: Any = {}
    for _ in range(15):
        long = {name: long, "x": 1}
    refused(path, torch_file(pickle.dumps(long, 2)), "letters")
    refused(path, torch_file(b"\x80\x02" + b"]" * 100_000 + b"."), "pickle|no tensors|damaged")
    refused(path, torch_file(b"\x80\x02" + b"(" * 1_000_000 + b"l."), "pickle|no tensors|damaged")
    for size in (1 << 31, (1 << 32) - 1):
        for op in (b"T", b"B", b"X", b"\x8b"):
            refused(path, torch_file(b"\x80\x02" + op + struct.pack("<I", size) + b"."), "pickle")
    for op in (b"\x8d", b"\x8e", b"\x96"):
        refused(path, torch_file(b"\x80\x04" + op + struct.pack("<Q", 1 << 60) + b"."), "pickle")
    refused(
        path, torch_file(b"\x80\x02" + b"J\xff\xff\xff\x7f0" * 10 + b"r\xff\xff\xff\x7f."), "memo"
    )
    digits = b"I" + b"9" * 5000 + b"\n."
    refused(path, torch_file(b"\x80\x02" + digits), "pickle|no tensors")
    refused(path, torch_file(b"\x80\x02}." + bytes(1 << 22), zipfile.ZIP_DEFLATED), "compressed")


class Calls:
    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (eval, ("1",)), (exec, ("",)), (__import__, ("os",)), (getattr, (1, "real")),
        (bytearray, (1 << 40,)), (itertools.repeat, (0,)), (np.zeros, (1 << 40,)), (open, ("x",)),
    ],
)  # fmt: skip
def test_names_that_are_refused(tmp_path: Path, function: Any, arguments: Any) -> None:
    for protocol in (0, 2, 4):
        data = pickle.dumps({"x": Calls(function, *arguments)}, protocol)
        refused(
            tmp_path / "m.pt", torch_file(data), f"refused: its pickle names .*{function.__name__}"
        )


def model(nodes: list[Any], **more: Any) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], **more)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_cycles_of_nodes(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    node = helper.make_node
    for nodes in [
        [node("Add", ["x", "y"], ["y"])],
        [node("Neg", ["b"], ["a"]), node("Neg", ["a"], ["b"]), node("Neg", ["b"], ["y"])],
        [node("Neg", ["x"], ["y"]), node("Neg", ["y"], ["y"])],
    ]:
        path.write_bytes(model(nodes).SerializeToString())
        with pytest.raises(ModelError, match=r"m\.onnx.*"):
            importer.load_onnx(path)


@pytest.mark.parametrize("names", [["f"], ["f", "g"]], ids=["itself", "each other"])
def test_functions_that_call_themselves(tmp_path: Path, names: list[str]) -> None:
    made = model([helper.make_node("f", ["x"], ["y"], domain="local")])
    made.opset_import.append(helper.make_opsetid("local", 1))
    for name, called in zip(names, names[1:] + names[:1], strict=True):
        call = helper.make_node(called, ["a"], ["b"], domain="local")
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
        made.functions.append(helper.make_function("local", name, ["a"], ["b"], [call], imports))
    path = tmp_path / "m.onnx"
    path.write_bytes(made.SerializeToString())
    with pytest.raises(ModelError, match=r"m\.onnx.*Cycle"):
        importer.load_onnx(path)


def nested(depth: int) -> bytes:
    """A model of branches in branches, written field by field: libraries refuse to."""

    def field(number: int, data: bytes) -> bytes:
        size, length = b"", len(data)
        while length > 127:
            size, length = size + bytes([length & 127 | 128]), length >> 7
        return bytes([number << 3 | 2]) + size + bytes([length]) + data

    graph = field(2, b"last")
    for _ in range(depth):
        attribute = field(1, b"then_branch") + field(6, graph) + b"\xa0\x01\x05"
        node = field(1, b"x") + field(2, b"y") + field(4, b"If") + field(5, attribute)
        graph = field(1, node) + field(2, b"level")
    return b"\x08\x08" + field(7, graph) + field(8, b"\x10\x11")


@pytest.mark.parametrize("depth", [5, 32, 1000])
def test_graphs_in_graphs(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(nested(depth))
    with pytest.raises(ModelError, match=r"m\.onnx"):
        importer.load_onnx(path)


def test_tensors_that_are_not_what_they_say(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    for n in (1 << 31, 1 << 40, (1 << 63) - 1, -1):
        for dims in ([n], [n, n], [n, 0]):
            tensor = TensorProto(name="w", data_type=1, dims=dims, raw_data=bytes(8))
            made = model([helper.make_node("Add", ["x", "w"], ["y"])], initializer=[tensor])
            path.write_bytes(made.SerializeToString())
            with pytest.raises(ModelError, match=r"m\.onnx.*'?w"):
                importer.load_onnx(path)(np.zeros(2, np.float32))
    sparse = onnx.SparseTensorProto(
        values=helper.make_tensor("w", 1, [1], [1.0]),
        indices=helper.make_tensor("i", 7, [1], [0]), dims=[1 << 40],
    )  # fmt: skip
    made = model([helper.make_node("Add", ["x", "w"], ["y"])], sparse_initializer=[sparse])
    path.write_bytes(made.SerializeToString())
    with pytest.raises(ModelError, match="sparse tensor 'w'"):
        importer.load_onnx(path)


@pytest.mark.parametrize(
    "body",
    [
        "n = Constant <value = int64[2] {4611686018427387904, 4}> ()\n y = ConstantOfShape(n)",
        "n = Constant <value = int64[2] {1099511627776, 2}> ()\n y = Expand(x, n)",
        "n = Constant <value = int64[2] {1099511627776, 1}> ()\n y = Tile(x, n)",
        "n = Constant <value = int64[4] {0, 0, 1099511627776, 1}> ()\n y = Pad(x, n)",
        "n = Constant <value = float[2] {1000000, 1000}> ()\n y = Resize (x, , n)",
        "n = Constant <value = int64 {1099511627776}> ()\n y = HannWindow(n)",
        "n = Constant <value = int64 {1099511627776}> ()\n z = Cast <to = 7> (x)\n"
        " v = Constant <value = float[2] {0, 1}> ()\n y = OneHot(z, n, v)",
        "y = RandomNormal <shape = [1099511627776, 4]> ()",
    ],
)  # fmt: skip
def test_a_shape_that_no_memory_holds_is_refused(body: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["": 17]>
    net (float[1, 2] x) => (float[A, B] y) {{ {body} }}"""
    loaded = importer.load_onnx(onnx.parser.parse_model(text))
    with pytest.raises(ModelError, match="elements"):
        loaded(np.ones((1, 2), np.float32))


def test_more_axes_than_numpy_goes_through() -> None:
    ones = ", ".join(["1"] * 40)
    text = f"""<ir_version: 8, opset_import: ["": 20]>
    net (float[1, 2] x, string[1] s) => (float[A] y, string[B] t) {{
        n = Constant <value = int64[40] {{{ones}}}> ()
        y = Expand (x, n)
        many = Reshape (s, n)
        t = StringConcat (many, s)
    }}"""
    loaded = importer.load_onnx(onnx.parser.parse_model(text))
    with pytest.raises(ModelError, match=r"StringConcat.*32 dimensions"):
        loaded(np.ones((1, 2), np.float32), np.asarray(["a"], object))
