"""Event files read by a parser of their own here, and by TensorBoard where it is installed."""

import math
import os
import struct

import numpy as np
import pytest
from learners import loader, make

from ingle import optim
from ingle.nn import FileWriteError
from ingle.tensor.errors import ArgumentError
from ingle.train import EventWriter, NumberLogger, TensorBoardLogger
from ingle.train.tensorboard import crc32c


def remainder(data):
    """CRC32C bit by bit, as a division of polynomials."""
    crc = 0xFFFFFFFF
    for byte in data:
        for bit in range(8):
            top = (crc ^ (byte >> bit)) & 1
            crc = (crc >> 1) ^ (0x82F63B78 * top)
    return crc ^ 0xFFFFFFFF


def records(path):
    """The data of a file's records, whose checksums are right."""
    data, found = path.read_bytes(), []
    while data:
        (size,) = struct.unpack("<Q", data[:8])
        body = data[12 : 12 + size]
        for part, said in ((data[:8], data[8:12]), (body, data[12 + size : 16 + size])):
            crc = remainder(part)
            turned = ((crc >> 15) | (crc << 17)) & 0xFFFFFFFF
            assert struct.unpack("<I", said)[0] == (turned + 0xA282EAD8) % 2**32
        found.append(body)
        data = data[16 + size :]
    return found


def fields(data):
    """The fields of a protocol buffer: number and value."""
    found, at = [], 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            value = data[at : at + size]
            at += size
        found.append((key >> 3, value))
    return found


def numbers(folder):
    """What a folder's files hold, by name, void steps left out: {name: [(step, value)]}."""
    found = {}
    for path in sorted(folder.iterdir()):
        for number, body in enumerate(records(path)):
            event = dict(fields(body))
            assert struct.unpack("<d", event[1])[0] > 1e9
            if number == 0:
                assert event[3] == b"brain.Event:2"
            if 7 in event:
                assert fields(event[7]) == [(1, 1)]
                found = {
                    name: [row for row in rows if row[0] < event[2]] for name, rows in found.items()
                }
            for _, value in fields(event.get(5, b"")):
                parts = dict(fields(value))
                row = (event[2], struct.unpack("<f", parts[2])[0])
                found.setdefault(parts[1].decode(), []).append(row)
    return found


def single(value):
    return float(np.float32(value))


@pytest.mark.parametrize(
    ("data", "crc"),
    [(bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E)],
    ids=["zeros", "ones", "rising"],
)
def test_the_checksum_is_that_of_rfc_3720(data, crc):
    assert crc32c(data) == remainder(data) == crc


def test_a_training_is_in_the_file(tmp_path):
    learner = make(callbacks=[TensorBoardLogger(tmp_path / "deep" / "run", every=2)])
    history = learner.fit(loader(), epochs=2, valid=loader(), valid_every=3)
    found = numbers(tmp_path / "deep" / "run")
    assert [step for step, _ in found["loss"]] == [2, 4, 6, 8, 10]
    assert found["lr"] == [(step, single(0.1)) for step in (2, 4, 6, 8, 10)]
    assert found["train/loss"] == [(r["step"], single(r["train/loss"])) for r in history]
    assert [step for step, _ in found["valid/loss"]] == [3, 5, 6, 9, 10]
    assert found["valid/loss"][-1][1] == single(history[-1]["valid/loss"])
    assert set(found) == {"loss", "lr", "train/loss", "valid/loss", "waited", "seconds"}


def test_a_resumed_training_makes_later_steps_void(tmp_path):
    run, kept = tmp_path / "run", tmp_path / "kept"
    make(callbacks=[TensorBoardLogger(run)], checkpoints=kept, checkpoint_every=3).fit(
        loader(), epochs=1
    )
    (kept / "step-00000005.safetensors").unlink()
    (kept / "latest").write_text("step-00000003.safetensors\n")
    make(callbacks=[TensorBoardLogger(run)], checkpoints=kept).fit(loader(), epochs=2, resume=True)
    assert len(list(run.iterdir())) == 2
    assert [step for step, _ in numbers(run)["loss"]] == list(range(1, 11))


def test_numbers_of_any_size(tmp_path):
    writer = EventWriter(tmp_path)
    writer.begin(0)
    writer.write(2**40, {"large": 1e300, "none": math.nan, "größe": -1e300, "int": 3})
    found = numbers(tmp_path)
    assert found["large"] == [(2**40, math.inf)]
    assert found["größe"] == [(2**40, -math.inf)]
    assert found["int"] == [(2**40, 3.0)]
    assert math.isnan(found["none"][0][1])


def test_rates_of_all_groups():
    class Kept(list):
        def begin(self, step):
            self.clear()

        def write(self, step, numbers):
            self.append(dict(numbers))

        def close(self):
            self.append("closed")

    kept, learner = Kept(), make()
    layers = [{"params": learner.model[0], "lr": 0.1}, {"params": learner.model[2], "lr": 0.01}]
    learner.optimizer = optim.SGD(layers, lr=1.0)
    learner.callbacks.append(NumberLogger(kept, every=5))
    learner.fit(loader(), epochs=1)
    assert (kept[0]["lr"], kept[0]["lr/1"]) == (0.1, 0.01)
    assert "lr" not in kept[1]
    assert kept[2:] == ["closed"]
    with pytest.raises(ArgumentError, match="NumberLogger: every must be at least 0, got -1"):
        NumberLogger(kept, every=-1)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileWriteError, match="file"):
        EventWriter(tmp_path / "file" / "run").begin(0)


def test_tensorboard_reads_it(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run, kept = tmp_path / "run", tmp_path / "kept"
    make(callbacks=[TensorBoardLogger(run)], checkpoints=kept).fit(loader(), epochs=1)
    learner = make(callbacks=[TensorBoardLogger(run)], checkpoints=kept)
    history = learner.fit(loader(), epochs=2, resume=True)
    found = accumulator.EventAccumulator(os.fspath(run)).Reload()
    assert [event.step for event in found.Scalars("loss")] == list(range(1, 11))
    values = [event.value for event in found.Scalars("train/loss")]
    assert values == [single(r["train/loss"]) for r in history]
