"""Checkpoints: what comes back, that files are whole, and what is said of bad ones."""

from __future__ import annotations

import errno
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import ingle.tensor as it
from ingle import nn
from ingle.nn import CheckpointError, CheckpointNotFoundError, StateError, reading, saving
from ingle.tensor.errors import ArgumentError, OperandError
from ingle.testkit.bits import same_bits

FIXTURES = Path(__file__).parent / "fixtures"
DTYPES = [
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip
STORAGE = ["float8_e4m3fn", "float8_e5m2", "int4", "uint4", "int2", "uint2"]


def values() -> dict[str, Any]:
    """What the fixture of format 1 holds."""
    held: dict[str, Any] = {
        f"of.{name}": it.asarray([[0, 1], [2, 3]]).astype(name) for name in DTYPES
    }
    held["empty"] = it.zeros((0, 3))
    held["empty complex"] = it.zeros((2, 0), dtype="complex64")
    held["scalar"] = it.asarray(1.5)
    held["complex scalar"] = it.asarray(1.5 - 2j)
    held["transposed"] = it.asarray([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]).T
    held["odd"] = it.asarray(np.asarray([np.nan, np.inf, -0.0, 1e-45], np.float32))
    held["again"] = held["odd"]
    held["steps"] = 12
    held["rate"] = 0.1 + 0.2
    held["names"] = ["a", "ü"]
    held["flag"] = True
    held["nothing"] = None
    return held


METADATA = {"epoch": 4, "classes": ["zero", "one"], "nested": {"loss": 0.25}}


def check(checkpoint: nn.Checkpoint) -> None:
    expected = values()
    assert set(checkpoint) == set(expected)
    for name, value in expected.items():
        got = checkpoint[name]
        if isinstance(value, it.Tensor):
            assert got.dtype is value.dtype
            assert got.shape == value.shape
            assert same_bits(got, value)
        else:
            assert got == value
            assert type(got) is type(value)
    assert checkpoint.metadata == METADATA


def test_everything_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "all.safetensors"
    nn.save(path, values(), metadata=METADATA)
    checkpoint = nn.load(path)
    check(checkpoint)
    assert checkpoint.format == saving.FORMAT
    first = path.read_bytes()
    nn.save(path, values(), metadata=METADATA)
    assert path.read_bytes() == first


@pytest.mark.parametrize("version", range(1, saving.FORMAT + 1))
def test_every_format_loads_for_ever(version: int) -> None:
    checkpoint = nn.load(FIXTURES / f"format-{version}.safetensors")
    assert checkpoint.format == version
    check(checkpoint)


def test_modules_with_tied_weights(tmp_path: Path) -> None:
    model, other = (nn.ModuleList([nn.Linear(3, 4), nn.Linear(3, 4)]) for _ in range(2))
    for m in (model, other):
        m[1].weight = m[0].weight
    path = tmp_path / "tied.safetensors"
    nn.save(path, model)
    nn.load(path, other)
    np.testing.assert_array_equal(other[1].weight.raw.numpy(), model[0].weight.raw.numpy())
    assert path.stat().st_size < 1100
    assert set(nn.load(path)) == {"0.weight", "0.bias", "1.weight", "1.bias"}


def test_several_things_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    one, two = nn.Linear(2, 2), nn.Linear(3, 1)
    nn.save(path, {"one": one, "two": two, "step": 7})
    again = {"one": nn.Linear(2, 2), "two": nn.Linear(3, 1)}
    checkpoint = nn.load(path, again)
    assert checkpoint["step"] == 7
    assert set(checkpoint.section("one")) == {"weight", "bias"}
    np.testing.assert_array_equal(again["two"].weight.raw.numpy(), two.weight.raw.numpy())


def test_random_generators_and_cells_come_back(tmp_path: Path) -> None:
    """A generator is more than the counter that its cell holds."""
    path = tmp_path / "run.safetensors"
    generator, mean, epoch = it.random.Generator(7), it.Cell(it.ones(2) * 3), it.Cell(4)
    it.random.normal(3, generator=generator)
    nn.save(path, {"generator": generator, "mean": mean, "epoch": epoch})
    expected = it.random.normal(3, generator=generator)

    other, mean, epoch = it.random.Generator(1), it.Cell(it.zeros(2)), it.Cell(0)
    nn.load(path, {"generator": other, "mean": mean, "epoch": epoch})
    assert same_bits(it.random.normal(3, generator=other), expected)
    assert (mean.value.tolist(), epoch.value) == ([3.0, 3.0], 4)


def test_generators_and_cells_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    nn.save(path, {"a": it.random.Generator(7), "b": it.Cell(it.ones(2)), "c": it.Cell(4)})
    count, mean = it.Cell(0), it.Cell(it.zeros(3))
    for into, told in (
        ({"c": count, "d": it.Cell(0)}, "there is no 'd' in the file, nothing was set"),
        ({"c": count, "b": mean}, r"b: expected shape \(3,\), got \(2,\)"),
        ({"c": count, "b": it.Cell(0)}, "b: expected int, got Tensor"),
        ({"c": it.Cell(it.ones(2))}, r"c: expected shape \(2,\), got \(\)"),
    ):
        with pytest.raises(StateError, match=told):
            nn.load(path, into)
    with pytest.raises(ArgumentError, match="expected seed and drawn, got nothing"):
        nn.load(path, {"c": count, "b": it.random.Generator(1)})
    assert count.value == 0
    generator = it.random.Generator(1)
    nn.load(path, {"b": generator, "d": mean}, strict=False)
    assert (generator.state, mean.value.tolist()) == ((1, 0), [0.0, 0.0, 0.0])


def test_other_readers_and_writers_of_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "ours.safetensors"
    model = nn.Linear(3, 2)
    held = {"half": it.ones(3, dtype="float16"), "b": it.asarray([True]), "c": it.asarray([1 + 2j])}
    nn.save(path, {"model": model, **held})
    theirs = safetensors.numpy.load_file(path)
    np.testing.assert_array_equal(theirs["model.weight"], model.weight.raw.numpy())
    assert theirs["half"].dtype == np.float16
    assert theirs["c"].tolist() == [[1.0, 2.0]]
    plain = tmp_path / "theirs.safetensors"
    safetensors.numpy.save_file(
        {"weight": np.ones((2, 3), np.float32), "bias": np.ones(2, np.float32)}, plain
    )
    checkpoint = nn.load(plain, model)
    assert checkpoint.format is None
    assert model.weight.raw.tolist() == [[1.0] * 3] * 2


def test_a_dtype_that_numpy_lacks(tmp_path: Path) -> None:
    path = tmp_path / "f8.safetensors"
    safetensors.numpy.save_file({"w": np.ones(2, ml_dtypes.float8_e8m0fnu)}, path)
    with pytest.raises(CheckpointError, match=r"'w' has the dtype F8_E8M0.*convert it to float32"):
        nn.load(path)


@pytest.mark.parametrize("shape", [(3, 5), (8,), (), (0, 3)], ids=str)
@pytest.mark.parametrize("dtype", STORAGE)
def test_storage_dtypes(dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "small.safetensors"
    codes = np.random.default_rng(3).integers(-128, 128, shape, np.int8)
    values = codes.astype(getattr(ml_dtypes, dtype))
    tensor = it.asarray(values)
    nn.save(path, {"w": tensor, "tied": tensor, "other": it.ones(2)})
    checkpoint = nn.load(path)
    for name in ("w", "tied"):
        got = checkpoint[name]
        assert (got.dtype.name, got.shape) == (dtype, shape)
        assert same_bits(got, values)
    stored = reading.read(path, saving.FORMAT).arrays["w"]
    assert stored.nbytes == -(-values.size * tensor.dtype.bits // 8)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_pytorchs_float8(dtype: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    path = tmp_path / "theirs.safetensors"
    x = torch.linspace(-3, 3, 10).reshape(2, 5).to(getattr(torch, dtype))
    save_file({"before": torch.ones(3), "w": x}, path)
    ours = nn.load(path)["w"]
    assert ours.dtype.name == dtype
    assert ours.tolist() == x.float().tolist()
    nn.save(path, {"w": ours})
    assert torch.equal(load_file(path)["w"].float(), x.float())


def test_a_storage_dtype_is_not_cast_on_loading(tmp_path: Path) -> None:
    path = tmp_path / "f8.safetensors"
    nn.save(path, {"weight": it.ones((2, 3), dtype="float8_e5m2"), "bias": it.zeros(2)})
    with pytest.raises(StateError, match=r"weight: expected dtype float32, got float8_e5m2"):
        nn.load(path, nn.Linear(3, 2))


def test_pytorchs_bfloat16(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    save_file = pytest.importorskip("safetensors.torch").save_file
    layer = torch.nn.Linear(3, 2, dtype=torch.bfloat16)
    save_file(layer.state_dict(), tmp_path / "t.safetensors")
    ours = nn.Linear(3, 2, dtype="bfloat16")
    nn.load(tmp_path / "t.safetensors", ours)
    np.testing.assert_array_equal(
        ours.weight.raw.numpy().astype(np.float32), layer.weight.detach().float().numpy()
    )


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.safetensors"
    nn.save(path, nn.Linear(30, 20), metadata={"epoch": 1})
    return path


def test_missing(good: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match=r"no such file; the folder.*good"):
        nn.load(good.with_name("god.safetensors"))
    with pytest.raises(FileNotFoundError, match=r"holds no \.safetensors file"):
        nn.load(FIXTURES.parent / "none.safetensors")
    with pytest.raises(CheckpointError, match="does not exist either"):
        nn.load(good.parent / "x" / "y")
    with pytest.raises(CheckpointError, match="this is a folder"):
        nn.load(good.parent)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(good: Path) -> None:
    good.chmod(0)
    with pytest.raises(CheckpointError, match="Permission denied; change the file's rights"):
        nn.load(good)


def test_cut_off_anywhere(good: Path) -> None:
    data = good.read_bytes()
    for length in (0, 1, 7, 8, 9, 100, 400, len(data) - 1):
        good.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match=r"the file is damaged.*use an earlier"):
            nn.load(good)


def test_a_changed_byte_anywhere(good: Path) -> None:
    data, whole = good.read_bytes(), nn.load(good)
    header = 8 + int.from_bytes(data[:8], "little")
    rng = np.random.default_rng(0)
    for place in [*range(header), *rng.integers(header, len(data), 100)]:
        changed = bytearray(data)
        changed[place] ^= 1 << int(rng.integers(0, 8))
        good.write_bytes(changed)
        try:
            checkpoint = nn.load(good)
        except (CheckpointError, StateError):
            continue
        # Without its name the manifest is any safetensors file's metadata.
        if checkpoint.format is not None:
            assert checkpoint.metadata == {"epoch": 1}
            for name, value in whole.items():
                assert same_bits(checkpoint[name], value)


def test_a_damaged_tensor_is_named(good: Path) -> None:
    data = bytearray(good.read_bytes())
    data[-3] ^= 1
    good.write_bytes(data)
    with pytest.raises(CheckpointError, match="the checksum of 'weight' does not match"):
        nn.load(good)


def rewritten(path: Path, change: Any, sealed: bool = True) -> None:
    """The file with its manifest changed."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    manifest = json.loads(header["__metadata__"]["ingle"])
    change(header, manifest)
    if sealed:
        manifest["seal"] = reading.seal(manifest)
    header["__metadata__"]["ingle"] = json.dumps(manifest)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


def test_a_newer_format(good: Path) -> None:
    rewritten(good, lambda header, manifest: manifest.update(format=99))
    with pytest.raises(CheckpointError, match=r"format 99.*up to 1; upgrade with `pip install"):
        nn.load(good)


def test_a_changed_manifest_or_dtype(good: Path) -> None:
    data = good.read_bytes()
    rewritten(good, lambda header, manifest: manifest.update(metadata={"epoch": 2}), sealed=False)
    with pytest.raises(CheckpointError, match="the checksum of its manifest does not match"):
        nn.load(good)
    good.write_bytes(data.replace(b"F32", b"I32"))
    with pytest.raises(CheckpointError, match="the checksum of 'bias' does not match"):
        nn.load(good)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h, m: m.pop("format"), "its manifest cannot be read"),
        (lambda h, m: m.update(format=None), "its manifest cannot be read"),
        (lambda h, m: m.pop("values"), "its manifest makes no sense.*values"),
        (lambda h, m: m.update(format=[]), "its manifest cannot be read"),
        (lambda h, m: m.update(format=float("inf")), "its manifest cannot be read.*inf"),
        (lambda h, m: m.update(format=-1), "its manifest cannot be read"),
        (lambda h, m: m.update(crc32=7), "its manifest makes no sense"),
        (lambda h, m: m["crc32"].pop("bias"), "its manifest makes no sense.*other tensors"),
        (lambda h, m: m.update(complex={"bias": "O"}), "its manifest makes no sense.*'O'"),
        (lambda h, m: m.update(complex={"bias": "complex128"}), "makes no sense.*no complex128"),
        (lambda h, m: m.update(complex={"bias": [1]}), "its manifest makes no sense"),
        (lambda h, m: m.update(packed={"bias": ["int4", [40]]}), "makes no sense.*in .20,. bytes"),
        (lambda h, m: m.update(packed={"bias": ["int4", [10**30, 0]]}), "makes no sense.*packed"),
        (lambda h, m: m.update(packed={"bias": ["float32", [20]]}), "makes no sense.*packed"),
        (lambda h, m: m.update(packed={"other": ["int4", [2]]}), "makes no sense.*other"),
        (lambda h, m: m.update(packed=[1]), "its manifest makes no sense"),
        (lambda h, m: m.update(tied={"a": "other"}), "makes no sense.*'a' is tied to 'other'"),
        (lambda h, m: m.update(tied={"a": []}), "its manifest makes no sense"),
        (lambda h, m: m.update(tied={"bias": "weight"}), "makes no sense.*stands for two"),
        (lambda h, m: m.update(values=[1]), "its manifest makes no sense"),
        (lambda h, m: m.update(values={"bias": 1}), "makes no sense.*stands for two"),
        (lambda h, m: m["crc32"].update(other=1), "its manifest makes no sense.*other"),
        (lambda h, m: m["complex"].update(other="complex64"), "its manifest makes no sense.*other"),
        (lambda h, m: h["bias"].update(dtype="X99"), "the file is damaged: Error while deser"),
        (lambda h, m: h["bias"].update(shape=[7]), "the file is damaged: Error while deser"),
        (lambda h, m: h["bias"].pop("data_offsets"), "the file is damaged: Error while deser"),
    ],
)
def test_a_manifest_that_makes_no_sense(good: Path, change: Any, message: str) -> None:
    rewritten(good, change)
    with pytest.raises(CheckpointError, match=message):
        nn.load(good)


@pytest.mark.parametrize(
    "text",
    ['{"format": 1e400}', "[" * 100_000, '{"format": ' + "[" * 100_000, "1", "null", "[[1, 2, 3]]",
     '{"format": 1}', '{"format": 1, "seal": ' + "9" * 5000 + "}", '"\\ud800"', ""],
)  # fmt: skip
def test_a_manifest_that_no_reader_survives(good: Path, text: str) -> None:
    data = good.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"]["ingle"] = text
    raw = json.dumps(header).encode()
    good.write_bytes(len(raw).to_bytes(8, "little") + raw + data[8 + length :])
    with pytest.raises(CheckpointError, match="the file is damaged"):
        nn.load(good)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="a pipe or a device"):
        nn.load(tmp_path / "model.safetensors")


def test_a_disk_that_takes_nothing(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, model = good.read_bytes(), nn.Linear(2, 2)
    nn.save(good.with_name("other"), model)
    good.with_name("other").unlink()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(nn.FileWriteError, match=r"good.*No space left.*free some") as e:
                nn.save(good, model)
        assert e.value.errno == errno.ENOSPC
        assert good.read_bytes() == before
        assert [p.name for p in good.parent.iterdir()] == [good.name]
    with pytest.raises(OSError, match="a part of its path is a file"):
        nn.save(good / "below", model)
    with pytest.raises(OSError, match="cannot be written: File name too long; choose a shorter"):
        nn.save(good.with_name("x" * 300), model)


def test_errors_that_are_not_about_the_file_stay_what_they_are(good: Path) -> None:
    def copied(other: Path) -> None:
        with nn.atomic_write(good) as file:
            file.write(other.read_bytes())

    with pytest.raises(FileNotFoundError, match="other") as e:
        copied(good.with_name("other"))
    assert not isinstance(e.value, nn.FileWriteError)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
def test_a_body_that_fills_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = open
    monkeypatch.setattr("builtins.open", lambda path, mode: real("/dev/full", "wb"))
    with (
        pytest.raises(nn.FileWriteError, match="file: cannot be written: No space left"),
        nn.atomic_write(tmp_path / "file") as file,
    ):
        file.write(bytes(1 << 20))
    assert list(tmp_path.iterdir()) == []


def test_files_of_other_kinds(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    with pytest.raises(CheckpointError, match="this is not a checkpoint"):
        nn.load(path)
    for data in (b"PK\x03\x04" + bytes(50), pickle.dumps([1])):
        path.write_bytes(data)
        with pytest.raises(CheckpointError, match=r"pickled PyTorch file.*save_file"):
            nn.load(path)
    path.write_bytes((20).to_bytes(8, "little") + b"{" + b"x" * 40)
    with pytest.raises(CheckpointError, match="the file is damaged"):
        nn.load(path)


def test_a_file_of_another_model(good: Path) -> None:
    with pytest.raises(StateError, match=r"weight: expected shape \(3, 2\), got \(20, 30\)"):
        nn.load(good, nn.Linear(2, 3))
    with pytest.raises(OperandError, match="int has no load_state_dict"):
        nn.load(good, 3)


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with pytest.raises(CheckpointError, match="must be numbers, strings"):
        nn.save(path, {}, metadata={"a": object()})
    with pytest.raises(OperandError, match="expected a module or a mapping"):
        nn.save(path, [1])  # type: ignore[arg-type]
    with pytest.raises(OperandError, match="a name must be a string, got 3"):
        nn.save(path, {3: it.ones(1)})  # type: ignore[dict-item]
    with pytest.raises(OperandError, match="save: 'f': expected a tensor or array"):
        nn.save(path, {"f": print})
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(CheckpointError, match="must be numbers, strings"):
        nn.save(path, {}, metadata=deep)
    for name in ("__metadata__", "\ud800"):
        with pytest.raises(CheckpointError, match="nothing of the name"):
            nn.save(path, {name: it.ones(1)})
    with pytest.raises(CheckpointError, match=r"two values have the name 'a\.bias'"):
        nn.save(path, {"a": nn.Linear(2, 2), "a.bias": it.ones(2)})
    assert not path.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_file(good: Path) -> None:
    before = good.read_bytes()

    def interrupted() -> None:
        with nn.atomic_write(good) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert good.read_bytes() == before
    assert [p.name for p in good.parent.iterdir()] == [good.name]


KILLED = """
import os, sys
import numpy as np
from ingle import nn
import ingle.tensor as it
path = sys.argv[1]
for i in range(10**6):
    nn.save(path, {"x": it.full(200_000, float(i)), "i": i})
    if i == 2:
        print("ready", flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is POSIX")
def test_killed_while_saving(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    for delay in (0.0, 0.011, 0.023):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            if delay:
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(delay)
            process.kill()
        checkpoint = nn.load(path)
        assert checkpoint["x"].numpy().tolist() == [float(checkpoint["i"])] * 200_000
    nn.save(path, {})
    assert list(tmp_path.iterdir()) == [path]


def test_parts_of_processes_that_live_stay(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with nn.atomic_write(path):
        (living,) = tmp_path.iterdir()
        living.with_name(living.name.replace(str(os.getpid()), "999999999")).touch()
        with nn.atomic_write(path):
            assert living.exists()
            assert len(list(tmp_path.iterdir())) == 2
    assert list(tmp_path.iterdir()) == [path]


def test_exchanged_arguments_say_which_comes_first(tmp_path):
    model, path = nn.Linear(2, 3), tmp_path / "model.safetensors"
    with pytest.raises(OperandError, match=r"load: the path, which comes first.* got Linear"):
        nn.load(model, path)
    with pytest.raises(OperandError, match=r"save: .* the path comes first"):
        nn.save(model, path)
    with pytest.raises(OperandError, match=r"save: the path, which comes first, .* got Linear"):
        nn.save(model, model.state_dict())
    with (
        pytest.raises(OperandError, match=r"atomic_write: the path .* got int"),
        nn.atomic_write(3),
    ):
        raise AssertionError("it is no path")
