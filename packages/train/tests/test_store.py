import json

import pytest

import ingle.tensor as it
from ingle import nn
from ingle.nn import CheckpointError
from ingle.tensor.errors import ArgumentError
from ingle.train import CheckpointStore, TrainingError


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
