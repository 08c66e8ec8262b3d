"""TensorBoard's event files, written without TensorBoard.

A file is a row of records as TFRecord has them: the length, its checksum, the data, its checksum.
The data are protocol buffers of the message Event (tensorflow/core/util/event.proto).
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from ingle.nn import writing
from ingle.tensor import argument_checks

from .number_logging import NumberLogger

_files = itertools.count()


class EventWriter:
    """A `NumberWriter` for TensorBoard: each beginning is an event file of its own in a folder.

    The file says from which step on earlier files of the folder are void, so that a resumed
    training looks as if it had never been interrupted. Each call is in the file when it returns.

    Args:
        folder: that of the run; made when training begins.

    Raises:
        FileWriteError: the disk is full or read-only.

    >>> import pathlib, tempfile
    >>> from ingle.train import EventWriter
    >>> writer = EventWriter(tempfile.mkdtemp())
    >>> writer.begin(0)
    >>> writer.write(1, {"loss": 0.5})
    >>> writer.close()
    >>> [path.name[:20] for path in pathlib.Path(writer.folder).iterdir()]
    ['events.out.tfevents.']
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = argument_checks.path("EventWriter", "folder", folder)
        self.path: Path | None = None

    def begin(self, step: int) -> None:
        # TensorBoard reads the files of a folder in the order of their names.
        name = f"{int(time.time()):010}.{socket.gethostname()}.{os.getpid()}.{next(_files):06}"
        path = self.folder / f"events.out.tfevents.{name}"
        with writing(path):
            self.folder.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._append(_event(0, _bytes(3, b"brain.Event:2")))
        self._append(_event(step + 1, _bytes(7, _number(1, 1))))

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        if self.path is None:
            self.begin(step - 1)
        values = [
            _bytes(1, _bytes(1, name.encode()) + b"\x15" + struct.pack("<f", _single(value)))
            for name, value in numbers.items()
        ]
        self._append(_event(step, _bytes(5, b"".join(values))))

    def close(self) -> None:
        self.path = None

    def _append(self, event: bytes) -> None:
        assert self.path is not None
        with writing(self.path), self.path.open("ab") as file:
            file.write(record(event))


class TensorBoardLogger(NumberLogger):
    """Writes the numbers of a training for TensorBoard, which need not be installed.

    `tensorboard --logdir runs` shows them. Names, and what `every` means, are `NumberLogger`'s.

    Args:
        folder: that of the run, such as "runs/first".
        every: write each so many steps; 0 for evaluations and epochs alone.

    >>> import tempfile
    >>> import ingle.tensor as it, numpy as np
    >>> from ingle import nn, optim
    >>> from ingle.dataset import ArrayDataset, Loader
    >>> from ingle.train import Learner, TensorBoardLogger
    >>> model = nn.Linear(1, 1)
    >>> logger = TensorBoardLogger(tempfile.mkdtemp(), every=10)
    >>> learner = Learner(
    ...     model, optim.SGD(model, lr=0.1), it.mse_loss, callbacks=[logger], progress=False)
    >>> x = np.ones((4, 1), np.float32)
    >>> history = learner.fit(Loader(ArrayDataset(x, x), 4), epochs=1)
    """

    def __init__(self, folder: str | os.PathLike[str], *, every: int = 1) -> None:
        super().__init__(EventWriter(folder), every=every)


def record(data: bytes) -> bytes:
    """Bytes as a TFRecord.

    >>> from ingle.train.tensorboard import record
    >>> len(record(b"abc"))
    19
    """
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)


def crc32c(data: bytes) -> int:
    """The CRC of Castagnoli's polynomial (RFC 3720, 12.1), which is not zlib's.

    >>> from ingle.train.tensorboard import crc32c
    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _table() -> list[int]:
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _table()


def _masked(data: bytes) -> bytes:
    """The checksum as TFRecord has it, turned and moved."""
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def _event(step: int, what: bytes) -> bytes:
    return b"\x09" + struct.pack("<d", time.time()) + _number(2, step) + what


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _single(value: float) -> float:
    """The number in the range of float32: beyond it, an infinity."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value
