import csv
import io
import math

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.dataset import ArrayDataset, Loader
from ingle.tensor.errors import ArgumentError
from ingle.train import (
    Accuracy,
    Callback,
    ConsoleLogger,
    CSVLogger,
    JSONLLogger,
    Learner,
    TrainingError,
    read_jsonl,
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def batches(size=5):
    x = np.linspace(-1, 1, 20, dtype=np.float32)[:, None]
    return Loader(ArrayDataset(x, (x[:, 0] > 0).astype(np.int64)), size)


def make(*callbacks, **options):
    it.random.seed(0)
    model = nn.Linear(1, 2)
    options = {"progress": False, **options}
    return Learner(
        model, optim.SGD(model, lr=0.1), it.cross_entropy,
        metrics=[Accuracy()], callbacks=callbacks, **options,
    )  # fmt: skip


def test_plain_lines_where_there_is_no_terminal():
    out = io.StringIO()
    make(progress=ConsoleLogger(out, interval=0)).fit(batches(), epochs=2, valid=batches())
    lines = out.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("epoch 1/2  batch 1/4  loss ")
    assert lines[4].startswith("epoch 1/2  lr 0.1  train/loss ")
    assert "valid/accuracy" in lines[4]
    assert lines[4].endswith(" s")
    assert "\x1b" not in out.getvalue()
    assert "step" not in out.getvalue()


def test_a_quiet_interval():
    out = io.StringIO()
    make(progress=ConsoleLogger(out, interval=1000)).fit(batches(), epochs=2)
    assert len(out.getvalue().splitlines()) == 2


def test_a_bar_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    make(progress=ConsoleLogger(out)).fit(batches(), epochs=2)
    text = out.getvalue()
    assert "epoch 2/2" in text
    assert "train/loss" in text
    assert "4/4" in text
    assert "\x1b" in text


def test_progress_true_writes_to_standard_output(capsys):
    model = nn.Linear(1, 2)
    learner = Learner(model, optim.SGD(model, lr=0.1), it.cross_entropy)
    learner.fit(batches(), epochs=1)
    assert "epoch 1/1" in capsys.readouterr().out


def test_resuming_and_stopping_are_told(tmp_path):
    make(checkpoints=tmp_path).fit(batches(), epochs=1)
    out = io.StringIO()
    learner = make(progress=ConsoleLogger(out), checkpoints=tmp_path)

    class Stop(Callback):
        def on_epoch(self, learner, record):
            learner.stop("that will do")

    learner.callbacks.append(Stop())
    learner.fit(batches(), epochs=5, resume=True)
    lines = out.getvalue().splitlines()
    assert lines[0] == "resumed after step 4, in epoch 2"
    assert lines[-1] == "stopped: that will do"


def test_jsonl_has_steps_and_epochs(tmp_path):
    path = tmp_path / "deep" / "history.jsonl"
    history = make(JSONLLogger(path, every=2)).fit(batches(), epochs=2)
    lines = read_jsonl(path)
    assert [line["step"] for line in lines] == [2, 4, 4, 6, 8, 8]
    assert [line for line in lines if "epoch" in line] == history
    assert lines[0]["lr"] == 0.1
    make(JSONLLogger(path, every=0)).fit(batches(), epochs=1)
    assert len(read_jsonl(path)) == 1


def test_a_resumed_jsonl_looks_as_if_never_interrupted(tmp_path):
    path = tmp_path / "history.jsonl"
    make(JSONLLogger(path), checkpoints=tmp_path, checkpoint_every=3).fit(batches(), epochs=2)
    with path.open("a") as file:
        file.write('{"step": 9, "loss": 1.0, "lr": 0.1}\n{"step": 10, "lo')
    make(JSONLLogger(path), checkpoints=tmp_path).fit(batches(), epochs=3, resume=True)
    lines = read_jsonl(path)
    assert [line["step"] for line in lines if "epoch" not in line] == list(range(1, 13))
    assert [line["epoch"] for line in lines if "epoch" in line] == [1, 2, 3]


def test_a_broken_jsonl(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text('{"step": 1}\nnonsense\n{"step": 2}\n')
    with pytest.raises(TrainingError, match="line 2 is no JSON"):
        read_jsonl(path)
    for nothing in (tmp_path, tmp_path / "none.jsonl"):
        with pytest.raises(TrainingError, match="this log cannot be read: "):
            read_jsonl(nothing)
    path.write_text('{"step": 1, "loss": NaN}\n{"ste')
    assert math.isnan(read_jsonl(path)[0]["loss"])
    with pytest.raises(ArgumentError, match="every"):
        JSONLLogger(path, every=-1)


def test_csv_is_a_table_of_epochs(tmp_path):
    path = tmp_path / "history.csv"
    learner = make(CSVLogger(path))
    learner.fit(batches(), epochs=1)
    learner.fit(batches(), epochs=2, valid=batches())
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2"]
    assert (rows[0]["valid/loss"], float(rows[1]["valid/loss"])) == (
        "", learner.history[1]["valid/loss"],
    )  # fmt: skip
