"""PyTorch's files (`.pt`, `.pth`, `.bin`): zip archives, and the two formats before them."""

from __future__ import annotations

import io
import mmap
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np

from ..errors import WeightsError
from .source import Weights, mapped, possible
from .unpickling import Named, Table, load

STORAGES: dict[str, np.dtype] = {
    "DoubleStorage": np.dtype("<f8"), "FloatStorage": np.dtype("<f4"),
    "HalfStorage": np.dtype("<f2"), "BFloat16Storage": np.dtype(ml_dtypes.bfloat16),
    "LongStorage": np.dtype("<i8"), "IntStorage": np.dtype("<i4"), "ShortStorage": np.dtype("<i2"),
    "CharStorage": np.dtype("i1"), "ByteStorage": np.dtype("u1"), "BoolStorage": np.dtype("?"),
    "ComplexFloatStorage": np.dtype("<c8"), "ComplexDoubleStorage": np.dtype("<c16"),
    "UntypedStorage": np.dtype("u1"),
}  # fmt: skip
SCALARS: dict[str, np.dtype] = {
    "float64": np.dtype("<f8"), "float32": np.dtype("<f4"), "float16": np.dtype("<f2"),
    "bfloat16": np.dtype(ml_dtypes.bfloat16), "int64": np.dtype("<i8"), "int32": np.dtype("<i4"),
    "int16": np.dtype("<i2"), "int8": np.dtype("i1"), "uint8": np.dtype("u1"),
    "uint16": np.dtype("<u2"), "uint32": np.dtype("<u4"), "uint64": np.dtype("<u8"),
    "bool": np.dtype("?"), "complex64": np.dtype("<c8"), "complex128": np.dtype("<c16"),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}  # fmt: skip
DAMAGE = (
    zipfile.BadZipFile, zlib.error, tarfile.TarError, struct.error, EOFError, OSError, ValueError,
    LookupError, TypeError, NotImplementedError, OverflowError, RuntimeError,
)  # fmt: skip
"""What the readers of archives raise for contents that make no sense."""
MAGIC = 0x1950A86A20F9469CFC6C
"""The first number of the format before zip archives."""
LONGEST = 4096
"""Letters of a name; those of dicts in dicts become one."""
SECTIONS = ("state_dict", "model_state_dict", "model", "module", "net", "network")
"""Where training scripts put the state of the model in a larger checkpoint."""


@dataclass
class Storage:
    """Elements in a row.

    Attributes:
        data: what holds them.
        dtype: of the elements; bytes if the tensors say it.
        start, count: the first byte, and how many elements there are.
    """

    data: mmap.mmap | bytes
    dtype: np.dtype
    start: int
    count: int


def _tensor(
    storage: Storage, offset: int, shape: Any, strides: Any, dtype: np.dtype | None = None
) -> np.ndarray:
    """A view of a storage; its steps and sizes must stay inside."""
    if not isinstance(storage, Storage):
        raise ValueError(f"a tensor is made of {type(storage).__name__} and not of a storage")
    kind = dtype or storage.dtype
    sizes, steps = tuple(shape), tuple(strides)
    numbers = (offset, *sizes, *steps)
    if len(sizes) != len(steps) or not all(type(n) is int and n >= 0 for n in numbers):
        raise ValueError(f"a tensor of shape {sizes}, strides {steps} and offset {offset}")
    if not possible(sizes, kind):
        raise ValueError(f"a tensor of shape {sizes}")
    if 0 in sizes:
        return np.zeros(sizes, kind)
    last = offset + sum((n - 1) * s for n, s in zip(sizes, steps, strict=True))
    room = storage.count * storage.dtype.itemsize // kind.itemsize
    if last >= room:
        raise ValueError(
            f"a tensor of shape {sizes}, strides {steps} and offset {offset} reaches beyond its "
            f"storage of {room} elements: the file is damaged"
        )
    flat = np.frombuffer(storage.data, kind, room, storage.start)
    byte_steps = tuple(s * kind.itemsize for s in steps)
    return np.lib.stride_tricks.as_strided(flat[offset:], sizes, byte_steps, writeable=False)


def _rebuild(storage: Storage, offset: int, shape: Any, strides: Any, *_: Any) -> np.ndarray:
    return _tensor(storage, offset, shape, strides)


def _rebuild_typed(
    storage: Storage, offset: int, shape: Any, strides: Any, grad: Any, hooks: Any, dtype: Any,
    *_: Any,
) -> np.ndarray:  # fmt: skip
    return _tensor(storage, offset, shape, strides, dtype if isinstance(dtype, np.dtype) else None)


def _rebuild_parameter(data: Any, *_: Any) -> Any:
    return data


def _plain(*args: Any) -> tuple[Any, ...]:
    return args


def _table() -> Table:
    table: dict[tuple[str, str], Any] = {
        ("torch._utils", "_rebuild_tensor"): _rebuild,
        ("torch._utils", "_rebuild_tensor_v2"): _rebuild,
        ("torch._utils", "_rebuild_tensor_v3"): _rebuild_typed,
        ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
        ("torch._utils", "_rebuild_parameter_with_state"): _rebuild_parameter,
        ("torch", "Size"): lambda sizes=(): tuple(sizes),
        ("torch", "device"): _plain,
        ("torch.serialization", "_get_layout"): _plain,
    }
    for name in STORAGES:
        table["torch", name] = Named("torch", name)
        table["torch.storage", name] = Named("torch", name)
        table["torch.cuda", name] = Named("torch", name)
    for name, dtype in SCALARS.items():
        table["torch", name] = dtype
    return table


TABLE = _table()


def _kind(storage_type: Any, what: str) -> np.dtype:
    if not isinstance(storage_type, Named) or storage_type.name not in STORAGES:
        raise WeightsError(f"{what}: {storage_type!r} is no kind of storage")
    return STORAGES[storage_type.name]


class TorchFile(Weights):
    """A state dict that `torch.save` wrote; nothing in the file is run."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        data = mapped(path)
        try:
            if data[:4] == b"PK\x03\x04":
                found = _zip(path, data)
            elif data[257:262] == b"ustar":  # `is_tarfile` would unpack xz, with any memory
                found = _tar(path)
            else:
                found = _legacy(path, data)
        except WeightsError:
            raise
        except DAMAGE as error:
            raise WeightsError(f"{path}: it is damaged: {error}") from error
        self._arrays: dict[str, np.ndarray] = {}
        self._spread(_section(found), "", 0)
        if not self._arrays:
            raise WeightsError(f"{path}: it holds no tensors, but {type(found).__name__}")

    def _spread(self, value: Any, prefix: str, depth: int) -> None:
        """Tensors in dicts of dicts get names with dots; what is no tensor is metadata."""
        if not isinstance(value, Mapping) or depth > 16:
            self.metadata[prefix] = value
            return
        for key, inner in value.items():
            name = f"{prefix}.{key}" if prefix else str(key)
            if len(self._arrays) + len(self.metadata) > 1_000_000 or len(name) > LONGEST:
                raise WeightsError(f"{self.path}: a million names, or one of {len(name)} letters")
            if isinstance(inner, np.ndarray):
                self._arrays[name] = inner
            else:
                self._spread(inner, name, depth + 1)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._arrays[name].shape

    def dtype(self, name: str) -> str:
        return self._arrays[name].dtype.name


def _section(found: Any) -> Any:
    """The model's part of a checkpoint with an optimizer, an epoch and the like."""
    if isinstance(found, np.ndarray):
        return {"tensor": found}
    if isinstance(found, Mapping) and not any(isinstance(v, np.ndarray) for v in found.values()):
        for name in SECTIONS:
            if isinstance(found.get(name), Mapping):
                return found[name]
    return found


def _zip(path: Path, data: mmap.mmap) -> Any:
    with zipfile.ZipFile(path) as archive:
        entries = {info.filename: info for info in archive.infolist()}
        pickles = [name for name in entries if name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise WeightsError(f"{path}: a zip archive with {len(pickles)} data.pkl, expected one")
        prefix = pickles[0].removesuffix("data.pkl")
        if any(name.startswith(f"{prefix}code/") for name in entries):
            raise WeightsError(f"{path}: refused: a TorchScript archive, whose contents are code")
        order = entries.get(f"{prefix}byteorder")
        if order is not None and order.file_size < 16 and archive.read(order) == b"big":
            raise WeightsError(f"{path}: its numbers are big-endian, which is not supported")

        def place(info: zipfile.ZipInfo) -> int:
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > len(data):
                raise WeightsError(
                    f"{path}: {info.filename!r} is compressed, as PyTorch never does"
                )
            lengths = data[info.header_offset + 26 : info.header_offset + 30]
            name, extra = struct.unpack("<HH", lengths)
            start = int(info.header_offset) + 30 + int(name) + int(extra)
            if start + info.file_size > len(data):
                raise WeightsError(f"{path}: {info.filename!r} is cut off")
            return start

        def persistent(pid: Any) -> Storage:
            match pid:
                case ("storage", storage_type, str(key), _, int(count)):
                    pass
                case _:
                    raise WeightsError(f"{path}: a storage is called {pid!r:.80}")
            dtype = _kind(storage_type, str(path))
            info = entries.get(f"{prefix}data/{key}")
            if info is None or not 0 <= count * dtype.itemsize <= info.file_size:
                raise WeightsError(
                    f"{path}: storage {key!r} of {count} {dtype} is missing or cut off"
                )
            return Storage(data, dtype, place(info), count)

        info = entries[pickles[0]]
        start = place(info)
        file = io.BytesIO(data[start : start + info.file_size])
        return load(file, f"{path}: {info.filename}", TABLE, persistent)


def _legacy(path: Path, data: mmap.mmap) -> Any:
    """Pickles in a row, then the storages, each with its length in front."""
    file: IO[bytes] = data  # type: ignore[assignment]
    if load(file, str(path), TABLE) != MAGIC:
        raise WeightsError(f"{path}: this is no file of PyTorch")
    load(file, f"{path}: its version", TABLE)
    load(file, f"{path}: its system", TABLE)
    storages: dict[str, Storage] = {}

    def persistent(pid: Any) -> Storage:
        match pid:
            case ("storage", storage_type, str(key), _, int(count), None):
                return storages.setdefault(
                    key, Storage(data, _kind(storage_type, str(path)), 0, count)
                )
            case ("storage", _, _, _, _, _):
                raise WeightsError(f"{path}: a view of a storage, which is not supported")
        raise WeightsError(f"{path}: a storage is called {pid!r:.80}")

    result = load(file, str(path), {**TABLE, **_LATE}, persistent)
    for key in load(file, f"{path}: its storages", TABLE):
        storage = storages.get(key)
        if storage is None:
            raise WeightsError(f"{path}: storage {key!r} belongs to no tensor")
        _place(storage, file, len(data), path)
    return _finished(result, 0)


def _place(storage: Storage, file: IO[bytes], size: int, path: Path) -> None:
    (count,) = struct.unpack("<q", file.read(8))
    storage.start = file.tell()
    end = storage.start + count * storage.dtype.itemsize
    if count != storage.count or end > size:
        raise WeightsError(f"{path}: a storage of {count} elements, said to have {storage.count}")
    file.seek(end)


@dataclass
class _Later:
    """A tensor whose storage's place is only known behind the pickle."""

    storage: Storage
    offset: int
    shape: Any
    strides: Any


def _late(storage: Storage, offset: int, shape: Any, strides: Any, *_: Any) -> _Later:
    return _Later(storage, offset, shape, strides)


_LATE: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor"): _late,
    ("torch._utils", "_rebuild_tensor_v2"): _late,
}


def _finished(value: Any, depth: int) -> Any:
    if isinstance(value, _Later):
        return _tensor(value.storage, value.offset, value.shape, value.strides)
    if isinstance(value, Mapping) and depth < 16:
        return {key: _finished(inner, depth + 1) for key, inner in value.items()}
    return value


def _tar(path: Path) -> Any:
    """The first format: an archive of storages, tensors and a pickle that names them."""
    with tarfile.open(path, "r:") as archive:
        parts = {}
        for name in ("storages", "tensors", "pickle"):
            try:
                file = archive.extractfile(name)
            except KeyError:
                file = None
            if file is None:
                raise WeightsError(f"{path}: a tar archive without {name!r} is no file of PyTorch")
            parts[name] = io.BytesIO(file.read())
    what = str(path)
    objects: dict[Any, Any] = {}
    file = parts["storages"]
    whole = file.getvalue()
    for _ in range(_number(load(file, what, TABLE), what)):
        key, _, storage_type = load(file, what, TABLE)
        storage = Storage(whole, _kind(storage_type, what), 0, 0)
        (storage.count,) = struct.unpack("<q", file.read(8))
        file.seek(-8, io.SEEK_CUR)
        _place(storage, file, len(whole), path)
        objects[key] = storage
    for target, root, offset, count in load(file, what, TABLE):
        of = objects[root]
        if offset < 0 or count < 0 or offset + count > of.count:
            raise WeightsError(f"{path}: a view reaches beyond its storage")
        objects[target] = Storage(of.data, of.dtype, of.start + offset * of.dtype.itemsize, count)
    file = parts["tensors"]
    kinds = {("torch", n.replace("Storage", "Tensor")): Named("torch", n) for n in STORAGES}
    for _ in range(_number(load(file, what, TABLE), what)):
        key, storage_id, _ = load(file, what, {**TABLE, **kinds})
        ndim = _number(struct.unpack("<i4x", file.read(8))[0], what)
        numbers = struct.unpack(f"<{2 * ndim + 1}q", file.read(8 * (2 * ndim + 1)))
        objects[key] = _tensor(objects[storage_id], numbers[-1], numbers[:ndim], numbers[ndim:-1])

    def persistent(pid: Any) -> Any:
        if isinstance(pid, tuple):
            return pid[0]
        found = objects.get(int(pid))
        if found is None:
            raise WeightsError(f"{path}: its pickle names the object {pid!r}, which is not there")
        return found

    return load(parts["pickle"], what, {**TABLE, **kinds}, persistent)


def _number(value: Any, what: str) -> int:
    if type(value) is not int or not 0 <= value <= 1_000_000:
        raise WeightsError(f"{what}: a count is {value!r:.40}")
    return value
