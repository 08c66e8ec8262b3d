"""Small files of each format, and mutations of them that a number repeats."""

from __future__ import annotations

import contextlib
import io
import resource
import struct
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest

import ingle.tensor as it
from ingle import importer
from ingle.importer.onnx.running import Body
from ingle.tensor.errors import IngleError

MEMORY = 2 << 30
"""Bytes that no file may make this process take beyond what it has."""

PLAIN = """<ir_version: 8, opset_import: ["": 17]>
net (float[N, 4] x) => (float[N, 2] y)
<float[2, 4] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[2] b = {0, 1}, int64[2] shape = {-1, 2}> {
    a = Gemm <transB = 1> (x, w, b)
    c = Reshape(a, shape)
    positive = Constant <value = bool {1}> ()
    y = If (positive) <
        then_branch = yes () => (float[M, 2] p) { p = Relu(c) },
        else_branch = no () => (float[M, 2] q) { q = Neg(c) }
    >
}"""
LOOP = """<ir_version: 8, opset_import: ["": 17, "local": 1]>
net (float[2, 4] x) => (float[2, 4] y, float[K, 2, 4] all) <bool go = {1}, int64 n = {3}> {
    y, all = Loop (n, go, x) <
        body = step (int64 i, bool before, float[2, 4] s)
            => (bool after, float[2, 4] t, float[2, 4] u)
        { after = Identity(before)  f = local.twice(s)  t = Tanh(f)  u = Identity(t) }
    >
}
<opset_import: ["": 17], domain: "local"> twice (a) => (b) { b = Add(a, a) }"""
SHAPES = """<ir_version: 8, opset_import: ["": 17]>
net (float[2, 4] x) => (float[A] y) <int64[1] two = {2}, int64[1] rest = {-1}, int64[4] pads =
    {0, 1, 0, 1}, float[2, 1, 3] k = {1, 2, 1, 0, 1, 0}, int64[2] parts = {1, 3}> {
    s = Shape(x)
    n = Gather <axis = 0> (s, two)
    z = ConstantOfShape(two)
    p = Pad(x, pads)
    q = Unsqueeze(p, two)
    t = Transpose <perm = [0, 2, 1]> (q)
    c = Conv <pads = [1, 1]> (t, k)
    f = Concat <axis = 0> (two, rest)
    g = Tile(z, two)
    h, i = Split <axis = 1> (x, parts)
    m = Expand(h, f)
    y = Reshape(c, rest)
}""".replace("n = Gather <axis = 0> (s, two)\n", "").replace("f = Concat <axis = 0> (two, rest)\n",
    "f = Concat <axis = 0> (two, two)\n")  # fmt: skip


def models() -> list[bytes]:
    """ONNX files."""
    return [onnx.parser.parse_model(t).SerializeToString() for t in (PLAIN, LOOP, SHAPES)]


ARRAYS = {"x": np.ones((4, 8), np.float32), "y.z": np.arange(3)}


def _by(write: Callable[[Path], object], folder: Path) -> bytes:
    path = folder / "seed"
    write(path)
    return path.read_bytes()


def weights(kind: str, folder: Path) -> list[bytes]:
    """Files of weights of a format."""
    if kind == "safetensors":
        return [_by(lambda p: importer.save_safetensors(p, ARRAYS), folder)]
    if kind == "gguf":
        notes = {"a": [1, 2], "b": "text", "general.alignment": 32, "d": ["x", "yz"], "e": 0.5}
        plain = _by(lambda p: importer.save_gguf(p, ARRAYS, metadata=notes), folder)
        wide = {"w": np.ones((2, 32), np.float32)}
        blocks = _by(lambda p: importer.save_gguf(p, wide, kind="Q4_0"), folder)
        return [plain, blocks]
    if kind == "npz":
        found = []
        for save in (np.savez, np.savez_compressed):
            file = io.BytesIO()
            save(file, **ARRAYS)
            found.append(file.getvalue())
        return found
    import torch

    state = {"model": {k: torch.from_numpy(v) for k, v in ARRAYS.items()}, "epoch": 3}
    return [
        _by(lambda p, z=z: torch.save(state, p, _use_new_zipfile_serialization=z), folder)
        for z in (True, False)
    ]


NUMBERS = [
    *(struct.pack("<B", n) for n in (0, 1, 0x7F, 0x80, 0xFF)),
    *(struct.pack("<I", n) for n in (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)),
    *(struct.pack("<Q", n) for n in (0, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)),
    b"\xff\xff\xff\xff\x7f", b"\xff" * 9 + b"\x01", b"\x80\x80\x80\x80\x08", b"99999999999", b"-1",
]  # fmt: skip
"""What sizes are broken with: limits of integers, as bytes, varints and digits."""


def mutated(seeds: list[bytes], number: int) -> bytes:
    """The mutation of that number: bytes that are others, more, fewer, or somewhere else."""
    random = Random(number)
    data = bytearray(random.choice(seeds))
    ways = random.choice((3, 7))  # all of the length that they were, or any
    for _ in range(random.choice((1, 1, 1, 2, 3, 5, 9))):
        at = random.randrange(len(data) + 1)
        way = random.randrange(ways)
        if way <= 1 and at < len(data):
            data[at] = random.randrange(256)
        elif way == 2 and at < len(data):
            data[at] ^= 1 << random.randrange(8)
        elif way == 3:
            new = random.choice(NUMBERS)
            data[at : at + len(new)] = new
        elif way == 4:
            end = at + random.randrange(1, 40)
            data[at:at] = data[random.randrange(len(data) + 1) :][: end - at]
        elif way == 5:
            del data[at : at + random.randrange(1, 20)]
        elif random.random() < 0.3:
            del data[at:]
    return bytes(data)


Leaf = tuple[tuple[tuple[str, int | None], ...], str, int | None]


def leaves(message: Any, path: tuple[tuple[str, int | None], ...] = ()) -> Iterator[Leaf]:
    """Where a protobuf message has numbers and texts: the way there, the field and the place."""
    for field, value in message.ListFields():
        many = not hasattr(value, "ListFields") and hasattr(value, "append")
        for i, one in enumerate(value) if many else [(None, value)]:
            if hasattr(one, "ListFields"):
                yield from leaves(one, (*path, (field.name, i)))
            else:
                yield path, field.name, i


@cache
def parsed(seed: bytes) -> tuple[Any, list[Leaf]]:
    message = onnx.load_model_from_string(seed)
    return message, list(leaves(message))


INTEGERS = (0, 1, -1, 2, 3, 7, 8, 16, 127, 1 << 20, 1 << 31, (1 << 31) - 1, 1 << 40, -(1 << 63))


def rewired(seeds: list[bytes], number: int) -> bytes:
    """A model that parses, in which some numbers and names are others."""
    random = Random(number)
    seed, places = parsed(random.choice(seeds))
    model = onnx.ModelProto()
    model.CopyFrom(seed)
    for _ in range(random.choice((1, 1, 2, 3))):
        owner: Any = model
        path, name, at = random.choice(places)
        for step, i in path:
            owner = getattr(owner, step) if i is None else getattr(owner, step)[i]
        old = getattr(owner, name) if at is None else getattr(owner, name)[at]
        new: Any = random.choice(INTEGERS)
        if isinstance(old, float):
            new = random.choice((0.0, -1.0, float("inf"), float("nan"), 1e30))
        elif isinstance(old, (str, bytes)):
            other = random.choice(places)
            new = other[1] if random.random() < 0.2 else random.choice(NAMES)
            new = new.encode() if isinstance(old, bytes) else new
        try:
            if at is None:
                setattr(owner, name, new)
            else:
                getattr(owner, name)[at] = new
        except ValueError:  # a number that its field cannot hold
            continue
    return bytes(model.SerializeToString())


NAMES = [
    "", *"xywbacpqstufgkmhiz", "shape", "Add", "Loop", "If", "Reshape", "local", "twice", "NOTSET",
    "Concat", "Expand", "ConstantOfShape", "Tile", "Range", "axis", "body", "positive",
]  # fmt: skip


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """Whatever asks for more than `MEMORY` more gets an error, which no format may hide."""
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


STEPS = 200
"""How often the bodies of one model run: a loop goes on for as long as its model says."""


def run_model(data: bytes) -> None:
    """Loads a model and runs it once."""
    steps = count()
    run = Body.__call__

    def limited(body: Body, *inputs: Any) -> list[Any]:
        if next(steps) >= STEPS:
            raise importer.ModelError("a model that runs for long")
        return run(body, *inputs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Body, "__call__", limited)
        importer.load_onnx(data, device="numpy")(np.ones((2, 4), np.float32))


def read_weights(path: Path) -> Callable[[bytes], None]:
    """Reads every array of a file; an error has to name it."""

    def read(data: bytes) -> None:
        path.write_bytes(data)
        try:
            for name, array in importer.open_weights(path).items():
                assert array.size < 1 << 20, name
        except importer.WeightsError as error:
            if path.name not in str(error):
                raise AssertionError(f"an error that does not name the file: {error}") from error
            raise

    return read


Change = Callable[[list[bytes], int], bytes]


def refused(
    seeds: list[bytes], use: Callable[[bytes], None], numbers: range, change: Change = mutated
) -> int:
    """How many of these mutations are refused; any other error than ours goes on, with its number.

    All seeds are used first as they are.
    """
    found = 0
    with it.device("numpy"):
        for seed in seeds:
            use(seed)
        with little_memory():
            for number in numbers:
                try:
                    use(change(seeds, number))
                except IngleError:
                    found += 1
                except BaseException as error:
                    error.add_note(f"at mutation {number}")
                    raise
    return found
