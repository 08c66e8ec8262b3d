import errno
import json
import os
import zlib

import pytest

import ingle.tensor as it
from ingle import nn
from ingle.nn import CheckpointError
from ingle.tensor.errors import ArgumentError
from ingle.train import CheckpointStore, CheckpointWarning, TrainingError


def model():
    it.random.seed(0)
    return nn.Linear(2, 3)


def fill(store, steps, values=()):
    for i, step in enumerate(steps):
        record = {"valid/accuracy": values[i]} if values else None
        store.save(step, {"model": model()}, {"step": step}, record)


def names(store):
    return [p.name for p in store.paths()]


def test_the_newest_stay_and_latest_names_the_newest(tmp_path):
    store = CheckpointStore(tmp_path / "new" / "folder", keep=2)
    assert (store.paths(), store.latest(), store.best()) == ([], None, None)
    fill(store, [1, 2, 10, 9])
    assert names(store) == ["step-00000010.safetensors", "step-00000009.safetensors"]
    assert store.latest().name == "step-00000009.safetensors"
    assert sorted(p.name for p in store.folder.iterdir()) == ["latest", *sorted(names(store))]


@pytest.mark.parametrize(
    ("mode", "values", "best"),
    [("max", [0.1, 0.9, 0.5, 0.9], 2), ("min", [0.5, 0.2, 0.2, 0.7], 2),
     ("max", [float("nan"), 0.1, float("nan"), 0.05], 2)],
)  # fmt: skip
def test_the_best_stays_besides(tmp_path, mode, values, best):
    store = CheckpointStore(tmp_path, keep=1, monitor="valid/accuracy", mode=mode)
    fill(store, [1, 2, 3, 4], values)
    assert names(store) == ["step-00000004.safetensors", f"step-{best:08}.safetensors"]
    assert store.best().name == f"step-{best:08}.safetensors"


def test_a_monitor_that_is_not_in_the_record(tmp_path):
    store = CheckpointStore(tmp_path, monitor="valid/f1")
    with pytest.raises(TrainingError, match="no 'valid/f1', only valid/accuracy"):
        fill(store, [1], [0.5])


def test_loading_sets_the_parts_and_returns_the_state(tmp_path):
    store = CheckpointStore(tmp_path)
    fill(store, [7])
    other = nn.Linear(2, 3)
    other.weight.value = other.weight * 0.0
    assert store.load(store.latest(), {"model": other}) == {"step": 7}
    assert (other.weight.raw.numpy() == model().weight.raw.numpy()).all()


def test_a_file_cut_at_any_length_is_named_with_the_newest_good_one(tmp_path):
    store = CheckpointStore(tmp_path)
    fill(store, [1, 2, 3])
    path = store.latest()
    data = path.read_bytes()
    for length in [0, 5, 8, 100, len(data) // 2, len(data) - 1]:
        path.write_bytes(data[:length])
        target = model()
        with pytest.raises(CheckpointError, match="cannot resume") as e:
            store.load(path, {"model": target})
        assert str(path) in str(e.value)
        assert f"resume={str(store.paths()[1])!r}" in str(e.value)


def test_a_flipped_byte_anywhere_is_noticed_or_harmless(tmp_path):
    store = CheckpointStore(tmp_path)
    fill(store, [1])
    path = store.latest()
    data = path.read_bytes()
    for at in range(0, len(data), 11):
        flipped = bytearray(data)
        flipped[at] ^= 0x04
        path.write_bytes(flipped)
        target = model()
        try:
            state = store.load(path, {"model": target})
        except (CheckpointError, nn.StateError):
            continue
        assert state == {"step": 1}
        assert (target.weight.raw.numpy() == model().weight.raw.numpy()).all()


def test_without_a_good_file_the_error_says_so(tmp_path):
    store = CheckpointStore(tmp_path)
    fill(store, [1])
    store.latest().write_bytes(b"{}")
    with pytest.raises(CheckpointError, match=r"no other good checkpoint in .*start anew"):
        store.load(store.latest(), {"model": model()})


def test_a_file_of_weights_alone_and_a_newer_format(tmp_path):
    store = CheckpointStore(tmp_path)
    nn.save(tmp_path / "weights.safetensors", model())
    with pytest.raises(CheckpointError, match=r"no training to resume; .*ingle\.nn\.load"):
        store.load(tmp_path / "weights.safetensors", {})
    metadata = {"training": 99, "state": "{}", "crc32": 0}
    nn.save(tmp_path / "newer.safetensors", model(), metadata=metadata)
    with pytest.raises(CheckpointError, match=r"training format 99.*upgrade"):
        store.load(tmp_path / "newer.safetensors", {})


def test_parts_of_another_model_change_nothing(tmp_path):
    store = CheckpointStore(tmp_path)
    fill(store, [1])
    other = nn.Linear(2, 4)
    before = other.weight.raw.numpy()
    with pytest.raises(nn.StateError):
        store.load(store.latest(), {"model": other})
    assert (other.weight.raw.numpy() == before).all()


def test_clear_and_clean_leave_other_files(tmp_path):
    store = CheckpointStore(tmp_path, monitor="valid/accuracy")
    fill(store, [1], [0.5])
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ".step-00000002.safetensors.abc.part").write_bytes(b"half")
    store.clean()
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "best.json", "latest", "notes.txt", "step-00000001.safetensors",
    ]  # fmt: skip
    assert json.loads((tmp_path / "best.json").read_text())["value"] == 0.5
    store.clear()
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_store_keeps_at_least_one(tmp_path):
    with pytest.raises(ArgumentError, match="at least 1"):
        CheckpointStore(tmp_path, keep=0)


@pytest.mark.parametrize(
    "text",
    [b"", b"\xff\xfe", b"../../etc/passwd", b"/etc/passwd", b"step-1.safetensors", b"notes.txt",
     b"../step-00000001.safetensors", b"x" * 100_000, b"step-00000001.safetensors\nmore",
     b"step-00000009.safetensors\n"],
)  # fmt: skip
def test_a_pointer_to_no_checkpoint_of_the_folder_is_passed_over(tmp_path, text):
    store = CheckpointStore(tmp_path)
    fill(store, [1, 2])
    (tmp_path / "latest").write_bytes(text)
    with pytest.warns(CheckpointWarning, match=r"latest: it names no checkpoint of this folder"):
        assert store.latest() == tmp_path / "step-00000002.safetensors"
    fill(store, [3])
    assert store.latest().name == "step-00000003.safetensors"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders here")
def test_pointers_that_are_no_files(tmp_path):
    store = CheckpointStore(tmp_path, monitor="valid/accuracy")
    fill(store, [1], [0.5])
    for name in ("latest", "best.json"):
        (tmp_path / name).unlink()
        os.mkfifo(tmp_path / name)
    with pytest.warns(CheckpointWarning, match="names no checkpoint"):
        assert store.latest().name == "step-00000001.safetensors"
    with pytest.warns(CheckpointWarning, match="is damaged"):
        assert store.best() is None
    with pytest.warns(CheckpointWarning, match="is damaged"):
        fill(store, [2], [0.25])
    assert store.best().name == store.latest().name == "step-00000002.safetensors"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 100_000, "null", "[]", "1e400", '{"file": 3, "monitor": "x", "value": 1}',
     '{"file": "../../secret", "monitor": "valid/accuracy", "value": 9}',
     '{"file": "/etc/passwd", "monitor": "valid/accuracy", "value": 9}',
     '{"file": "step-00000009.safetensors", "monitor": "valid/accuracy", "value": 9}',
     '{"file": "step-00000001.safetensors", "monitor": "valid/accuracy"}',
     '{"file": "step-00000001.safetensors", "value": 1}',
     '{"file": "step-00000001.safetensors", "monitor": "valid/accuracy", "value": "9"}',
     '{"file": "step-00000001.safetensors", "monitor": "valid/accuracy", "value": null}'],
)  # fmt: skip
def test_a_damaged_note_of_the_best_ends_no_training(tmp_path, text):
    store = CheckpointStore(tmp_path, keep=1, monitor="valid/accuracy")
    fill(store, [1, 2], [0.9, 0.1])
    (tmp_path / "best.json").write_text(text)
    with pytest.warns(CheckpointWarning, match=r"best\.json: it is damaged"):
        fill(store, [3], [0.5])
    assert store.best().name == "step-00000003.safetensors"
    fill(store, [4], [0.25])
    assert names(store) == ["step-00000004.safetensors", "step-00000003.safetensors"]


@pytest.mark.parametrize("metadata", [
    {"training": "1", "state": "{}", "crc32": 0},
    {"training": None}, {"training": 1}, {"training": 1, "state": 7, "crc32": 7},
    {"training": 1, "state": "[" * 100_000, "crc32": zlib.crc32(b"[" * 100_000)},
    {"training": 1, "state": "{", "crc32": zlib.crc32(b"{")},
])  # fmt: skip
def test_a_state_that_makes_no_sense(tmp_path, metadata):
    nn.save(tmp_path / "step-00000001.safetensors", model(), metadata=metadata)
    store = CheckpointStore(tmp_path)
    with pytest.raises(CheckpointError, match="cannot resume"):
        store.load(store.latest(), {"model": model()})


def test_a_full_disk_names_the_file_the_cure_and_the_last_good_checkpoint(tmp_path, monkeypatch):
    store = CheckpointStore(tmp_path)
    fill(store, [1, 2])
    before = sorted(p.name for p in tmp_path.iterdir())
    part = model()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(nn.FileWriteError) as e:
        store.save(3, {"model": part}, {}, None)
    for words in ("step-00000003.safetensors: cannot be written", "free some space",
                  "last good checkpoint is", "step-00000002.safetensors"):  # fmt: skip
        assert words in str(e.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == before
