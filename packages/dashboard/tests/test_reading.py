"""What a run's file tells, as it grows, when it is resumed, replaced, damaged or lost."""

import json
import math
import os
import subprocess
import sys
import time

import numpy as np
import pytest
import run_files

from ingle.dashboard import RunError, RunRecorder, RunWarning, read_run
from ingle.dashboard.recording import PATIENCE
from ingle.dashboard.wishes import Wishes
from ingle.train import Control, ModuleFacts, RunFacts, StepFacts

FACTS = RunFacts(2, 0, 0, ("numpy",), (ModuleFacts("", "Linear", {"weight": 3}),), True)


def step(number, **changes):
    values = {
        "step": number, "epoch": 0, "batch": number, "batches": 10, "loss": 1.0 / number,
        "lr": 0.1, "samples": 4, "seconds": 0.1,
        "spans": {"data": 0.01, "forward": 0.05, "backward": 0.03}, **changes,
    }  # fmt: skip
    return StepFacts(**values)


def test_what_is_recorded_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("ingle.dashboard.recording.WINDOW", 0.0)
    recorder = RunRecorder(tmp_path / "deep" / "run")
    recorder.begin(FACTS, Control())
    for i in range(1, 6):
        recorder.step(step(i, exact=i == 3))
    recorder.norms(3, {"weight": (3.0, 4.0)})
    recorder.evaluation({"step": 5, "valid/loss": 0.25})
    recorder.state("validating")
    recorder.message("hello")
    recorder.epoch({"epoch": 1, "step": 10, "lr": 0.1, "train/accuracy": 0.5, "seconds": 1.0}, 2)
    run = read_run(tmp_path / "deep" / "run")
    assert (run.step, run.epoch, run.epochs, run.status) == (5, 1, 2, "validating")
    assert list(run.series["train/loss"].steps) == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(run.series["train/loss"].values, 1 / np.arange(1, 6), rtol=1e-5)
    assert run.series["samples/s"].last == pytest.approx(40)
    assert list(run.series["valid/loss"].values) == [0.25]
    assert run.spans["forward"] == pytest.approx(0.05)
    assert run.spans["other"] == pytest.approx(0.01)
    assert run.norms == {"weight": (3.0, 4.0)}
    assert run.series["gradient norm"].last == 4.0
    assert [text for _, text in run.log] == ["hello", "epoch 1/2  train/accuracy 0.5"]
    assert run.done == 0.5
    recorder.end(None)
    run.update()
    assert run.status == "finished"


def test_steps_of_a_window_share_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr("ingle.dashboard.recording.WINDOW", 1e9)
    recorder = RunRecorder(tmp_path)
    recorder.begin(FACTS, Control())
    for i in range(1, 5):
        recorder.step(step(i))
    recorder.step(step(5, epoch=1))
    recorder.end("enough")
    run = read_run(tmp_path)
    assert list(run.series["train/loss"].steps) == [4, 5]
    assert run.series["train/loss"].values[0] == pytest.approx(
        (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4, 1e-5
    )
    assert (run.status, run.reason) == ("stopped", "enough")


def test_a_week_of_short_steps_has_a_file_of_some_megabytes(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("ingle.dashboard.recording.GROWTH", 200)
    monkeypatch.setattr("ingle.dashboard.recording.time.monotonic", lambda: now[0])
    recorder = RunRecorder(tmp_path)
    recorder.begin(FACTS, Control())
    while now[0] < 7 * 86_400:
        recorder.step(step(1))
        now[0] += max(0.05, now[0] / 200)  # whatever falls between has no line of its own
    recorder.end(None)
    written = len((tmp_path / "run.jsonl").read_bytes().splitlines())
    # One for each 0.05 s at first, then 200 for each time that the run is e times as long.
    assert written < 200 * (1 + math.log(7 * 86_400 / 10)) + 20
    assert (tmp_path / "run.jsonl").stat().st_size < 200 * written


def test_a_resumed_run_goes_on_and_forgets_what_was_lost(tmp_path):
    run_files.write(tmp_path)
    run = read_run(tmp_path)
    assert run.step == 125
    (again, *_) = run_files.lines(began=time.time())
    run_files.append(tmp_path, {**again, "step": 100, "epoch": 2})
    assert run.update()
    assert (run.step, run.epoch) == (100, 2)
    assert run.series["train/loss"].steps[-1] == 100
    assert run.log[-1][1] == "resumed after step 100"


def test_a_new_training_in_the_folder_begins_anew(tmp_path):
    run_files.write(tmp_path)
    run = read_run(tmp_path)
    recorder = RunRecorder(tmp_path)
    recorder.begin(FACTS, Control())
    recorder.step(step(1))
    recorder.end(None)
    run.update()
    assert (run.step, len(run.series["train/loss"].steps)) == (1, 1)


def test_half_a_line_waits_for_the_rest(tmp_path):
    run_files.write(tmp_path)
    run = read_run(tmp_path)
    text = json.dumps({"kind": "message", "time": 1.0, "text": "whole"}) + "\n"
    path = tmp_path / "run.jsonl"
    for part in (text[:10], text[10:]):
        before = len(run.log)
        with path.open("a") as file:
            file.write(part)
        run.update()
    assert len(run.log) == before + 1
    assert run.log[-1] == (1.0, "whole")


def test_time_left_follows_the_speed(tmp_path):
    run = read_run(run_files.write(tmp_path, began=time.time() - 100))
    # 125 of 200 steps took 100 seconds.
    assert run.done == pytest.approx(0.625)
    assert run.left == pytest.approx(60, abs=3)
    assert run.seconds == pytest.approx(100, abs=2)


def test_pauses_are_no_time_of_training(tmp_path):
    now = time.time()
    run_files.write(tmp_path, began=now - 100)
    run_files.append(
        tmp_path,
        {"kind": "state", "time": now - 40, "state": "paused"},
        {"kind": "state", "time": now - 10, "state": "training"},
    )
    assert read_run(tmp_path).seconds == pytest.approx(70, abs=2)


def test_a_process_that_is_gone_is_told(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True
    )
    run = read_run(run_files.write(tmp_path, pid=int(done.stdout)))
    assert run.status == "lost"
    run_files.append(tmp_path, {"kind": "end", "time": 1.0, "reason": None})
    run.update()
    assert run.status == "finished"


def test_the_history_of_a_jsonl_logger_is_a_run(tmp_path):
    rows = [
        {"step": 1, "loss": 0.5, "lr": 0.1},
        {"step": 2, "loss": 0.4, "lr": 0.1},
        {"epoch": 1, "step": 2, "lr": 0.1, "train/loss": 0.45, "valid/loss": 0.6, "seconds": 1.0},
    ]
    (tmp_path / "history.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    run = read_run(tmp_path)
    assert list(run.series["train/loss"].values) == [0.5, 0.4]
    assert list(run.series["valid/loss"].values) == [0.6]
    assert (run.step, run.epoch, run.status) == (2, 1, "finished")


def test_what_is_no_run_is_named(tmp_path):
    with pytest.raises(RunError, match="there is no such folder"):
        read_run(tmp_path / "none")
    run_files.write(tmp_path / "runs" / "a")
    with pytest.raises(RunError, match=r"neither run\.jsonl.*there are runs in .*runs/a"):
        read_run(tmp_path / "runs")
    (tmp_path / "run.jsonl").write_text('{"kind": "steps"}\n')
    with pytest.raises(RunError, match=r"damaged, at line 1: KeyError"):
        read_run(tmp_path)
    (tmp_path / "run.jsonl").write_text("no JSON\n")
    with pytest.raises(RunError, match="no file of a run"):
        read_run(tmp_path)
    (begin, *_) = run_files.lines()
    (tmp_path / "run.jsonl").write_text(json.dumps({**begin, "format": 99}) + "\n")
    with pytest.raises(RunError, match=r"format 99.*pip install --upgrade"):
        read_run(tmp_path)


def test_a_full_disk_ends_the_recording_and_not_the_training(tmp_path, monkeypatch):
    recorder = RunRecorder(tmp_path)
    recorder.begin(FACTS, Control())
    recorder.step(step(1))
    whole = (tmp_path / "run.jsonl").read_text()

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.open", full)
    with pytest.warns(RunWarning, match=r"run\.jsonl.*No space left on device.*goes on"):
        recorder.epoch({"epoch": 1, "step": 1}, 2)
    for i in range(2, 5):
        recorder.step(step(i))
        recorder.poll()
    recorder.end(None)
    monkeypatch.undo()
    assert (tmp_path / "run.jsonl").read_text() == whole


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    tmp_path.chmod(0o500)
    recorder = RunRecorder(tmp_path / "run")
    with pytest.warns(RunWarning, match="no longer recorded"):
        recorder.begin(FACTS, Control())


def test_wishes_reach_the_training(tmp_path, monkeypatch):
    monkeypatch.setattr("ingle.dashboard.recording.PATIENCE", 0.0)
    recorder, control = RunRecorder(tmp_path), Control()
    Wishes(tmp_path).send("stop")  # of an earlier training
    recorder.begin(FACTS, control)
    recorder.poll()
    assert control.take_stop() is None
    viewer = Wishes(tmp_path)
    viewer.send("pause")
    recorder.poll()
    assert control.paused
    viewer.send("resume")
    viewer.send("checkpoint")
    with (tmp_path / "wishes.jsonl").open("a") as file:
        file.write('nonsense\n{"wish": "dance"}\n')
    recorder.poll()
    assert not control.paused
    assert control.take_checkpoint()
    viewer.send("stop")
    recorder.poll()
    assert control.take_stop() == "stopped from the dashboard"


def test_wishes_reach_a_training_of_short_epochs(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("ingle.dashboard.recording.time.monotonic", lambda: now[0])
    recorder, control = RunRecorder(tmp_path), Control()
    recorder.begin(FACTS, control)
    Wishes(tmp_path).send("stop")
    for i in range(1, 5):
        now[0] += 0.9 * PATIENCE
        recorder.step(step(i, epoch=i))
        recorder.epoch({"epoch": i, "step": i}, 5)
        recorder.poll()
    assert control.take_stop() == "stopped from the dashboard"
    assert read_run(tmp_path).gauges


def test_a_wish_behind_half_a_line_is_heard(tmp_path):
    training, viewer = Wishes(tmp_path), Wishes(tmp_path)
    (tmp_path / "wishes.jsonl").write_text('{"wish": "st')  # a viewer that was killed meanwhile
    viewer.send("pause")
    assert training.read() == ["pause"]
    training.forget()
    viewer.send("resume")
    assert training.read() == ["resume"]


def test_wishes_of_a_file_made_anew_are_heard(tmp_path):
    training, viewer = Wishes(tmp_path), Wishes(tmp_path)
    for _ in range(3):
        viewer.send("checkpoint")
    assert training.read() == ["checkpoint"] * 3
    (tmp_path / "wishes.jsonl").unlink()
    viewer.send("stop")
    assert training.read() == ["stop"]
