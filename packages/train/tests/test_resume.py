"""Training that is interrupted and resumed ends with the same numbers, bit for bit."""

import errno
import importlib.util
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ingle import nn
from ingle.dataset import DatasetError
from ingle.nn import CheckpointError, load
from ingle.tensor import random as it_random
from ingle.train import (
    Callback,
    CheckpointStore,
    TrainingError,
    TrainingInterruptedError,
    read_jsonl,
    resuming,
)
from ingle.train.checkpointing import parts

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("tiny_training", HERE / "tiny_training.py")
tiny = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tiny)

EPOCHS = 3


class Interrupted(Exception):  # noqa: N818 (it stands for a crash)
    pass


class InterruptAt(Callback):
    def __init__(self, step):
        self.step = step

    def on_step(self, learner, loss):
        if learner.steps == self.step:
            raise Interrupted


def run(folder, *, epochs=EPOCHS, resume=True, **options):
    learner, train, valid = tiny.build(folder, **options)
    learner.fit(train, epochs=epochs, valid=valid, resume=resume)
    return learner


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The digest and the steps of a training that nothing interrupts, for each way of saving."""
    learner = run(tmp_path_factory.mktemp("whole"))
    return tiny.digest(learner), learner.steps


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 3, None])
def test_an_exception_at_every_step(tmp_path, whole, every):
    expected, steps = whole
    assert steps == 12  # 60 samples in batches of 8, two a step, three times
    for step in range(1, steps + 1):
        folder = tmp_path / str(step)
        with pytest.raises(Interrupted):
            run(folder, every=every, callbacks=[InterruptAt(step)])
        learner = run(folder, every=every)
        assert tiny.digest(learner) == expected, f"interrupted at step {step}"


class StopAt(Callback):
    """Ctrl-C at a step."""

    def __init__(self, step):
        self.step = step

    def on_step(self, learner, loss):
        if learner.steps == self.step:
            signal.raise_signal(signal.SIGINT)


class CrashInEvaluation(Callback):
    def __init__(self, step):
        self.step = step

    def on_evaluate_start(self, learner):
        if learner.steps == self.step:
            raise Interrupted


@pytest.mark.slow
@pytest.mark.parametrize("of", [StopAt, CrashInEvaluation])
@pytest.mark.parametrize("accumulate", [2, 3])  # 60 samples in batches of 8 are 4 or 3 steps
def test_a_stop_behind_the_last_step_of_an_epoch(tmp_path, accumulate, of):
    expected = run(tmp_path / "whole", accumulate=accumulate)
    last = expected.steps // EPOCHS
    for step in (last, expected.steps):
        folder = tmp_path / str(step)
        with pytest.raises((Interrupted, TrainingInterruptedError)):
            run(folder, accumulate=accumulate, callbacks=[of(step)])
        learner = run(folder, accumulate=accumulate)
        assert learner.steps == expected.steps
        assert tiny.digest(learner) == tiny.digest(expected), f"stopped behind step {step}"


@pytest.mark.slow
def test_batches_in_a_list_are_not_gone_through_again_behind_their_last(tmp_path):
    def fit(folder, **options):
        learner, _, valid = tiny.build(folder, **options)
        it_random.seed(3)
        learner.fit(listed, epochs=2, valid=valid, resume=True)
        return learner

    listed = list(tiny.build(tmp_path / "none")[1])
    expected = fit(tmp_path / "whole").steps
    with pytest.raises(Interrupted):
        fit(tmp_path / "cut", callbacks=[CrashInEvaluation(expected // 2)])
    assert fit(tmp_path / "cut").steps == expected


@pytest.mark.parametrize(
    ("done", "left", "position"),
    [
        (0, resuming.Left.ALL, (0, 4)),
        (2, resuming.Left.ALL, (0, 4)),  # nobody can go on in their middle
        (4, resuming.Left.NONE, (4, 4)),
    ],
)
def test_batches_that_keep_no_place_begin_anew_unless_all_were_done(done, left, position):
    learner = SimpleNamespace()
    assert resuming._left(learner, [0, 1, 2, 3], done) is left
    assert learner.position == position
    assert resuming._left(learner, iter(()), done) is resuming.Left.ALL
    assert learner.position == (0, None)


@pytest.mark.slow
def test_a_crash_at_every_system_call_of_saving(tmp_path, whole, monkeypatch):
    expected, _ = whole
    calls = {"left": 0}

    def failing(name):
        real = getattr(os, name)

        def call(*args, **kwargs):
            # Plans are saved meanwhile, elsewhere.
            counted = name == "fsync" or str(args[0]).startswith(str(tmp_path))
            calls["left"] -= counted
            if counted and calls["left"] == 0:
                calls["left"] = -1
                raise Interrupted(name)
            return real(*args, **kwargs)

        return call

    for name in ("replace", "fsync", "unlink"):
        monkeypatch.setattr(os, name, failing(name))
    for crash in range(1, 40, 2):
        folder = tmp_path / str(crash)
        calls["left"] = crash
        with pytest.raises(Interrupted):
            run(folder)
        calls["left"] = 0
        for path in CheckpointStore(folder).paths():
            load(path)
        assert tiny.digest(run(folder)) == expected


@pytest.mark.slow
def test_more_epochs_later_are_the_same_as_at_once(tmp_path, whole):
    run(tmp_path, epochs=1)
    run(tmp_path, epochs=2)
    learner = run(tmp_path)
    assert tiny.digest(learner) == whole[0]
    assert [r["epoch"] for r in learner.history] == [1, 2, 3]
    assert tiny.digest(run(tmp_path)) == whole[0]  # nothing is left to do


@pytest.mark.slow
def test_resuming_from_a_path(tmp_path, whole):
    run(tmp_path)
    oldest = CheckpointStore(tmp_path).paths()[-1]
    assert tiny.digest(run(tmp_path, resume=oldest)) == whole[0]
    with pytest.raises(CheckpointError, match="no such file"):
        run(tmp_path, resume=tmp_path / "step-00000099.safetensors")


@pytest.mark.slow
def test_resuming_starts_anew_where_there_is_nothing(tmp_path, whole):
    assert tiny.digest(run(tmp_path / "new")) == whole[0]


@pytest.mark.slow
def test_a_new_training_does_not_mix_with_an_old_one(tmp_path):
    run(tmp_path)
    with pytest.raises(TrainingError, match="holds checkpoints of another training"):
        run(tmp_path, resume=False)
    CheckpointStore(tmp_path).clear()
    run(tmp_path, resume=False)


@pytest.mark.parametrize("name", ["steps", "history", "metrics", "generators", "loader"])
@pytest.mark.parametrize("value", [None, "nonsense", 1e400, [3], {}])
def test_a_state_that_makes_no_sense_changes_nothing(tmp_path, name, value):
    if (name, value) in (("loader", None), ("metrics", {}), ("history", {})):
        pytest.skip("an empty one makes sense")
    learner, train, _ = tiny.build(tmp_path)
    before = {n: p.raw.numpy() for n, p in learner.model.named_parameters()}
    state = {**resuming.collect(learner, train), name: value}
    checkpoint = learner.checkpoints.save(7, parts(learner), state, None)
    other, train, _ = tiny.build(tmp_path)
    for parameter in other.model.parameters():
        parameter.value = parameter * 2
    changed = {n: p.raw.numpy() for n, p in other.model.named_parameters()}
    with pytest.raises((CheckpointError, DatasetError)):
        other.fit(train, epochs=1, resume=checkpoint)
    assert (other.steps, other.epoch, other.history) == (0, 0, [])
    for n, p in other.model.named_parameters():
        np.testing.assert_array_equal(p.raw.numpy(), changed[n])
        assert (changed[n] == 2 * before[n]).all()


def test_a_place_that_takes_no_checkpoint_is_refused_before_the_first_step(tmp_path):
    (tmp_path / "file").write_text("")
    learner, train, _ = tiny.build(tmp_path / "file" / "run")
    with pytest.raises(nn.FileWriteError, match=r"run: cannot be written: Not a directory"):
        learner.fit(train, epochs=1)
    assert learner.steps == 0


@pytest.mark.slow
def test_a_disk_that_is_full_for_a_while(tmp_path, whole, monkeypatch):
    """With room again, the training goes on from its last checkpoint to the same end."""
    real, calls = os.fsync, []

    def sometimes(number):
        calls.append(number)
        if len(calls) == 20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(number)

    monkeypatch.setattr(os, "fsync", sometimes)
    with pytest.raises(nn.FileWriteError, match="No space left on device; free some space"):
        run(tmp_path)
    expected, steps = whole
    learner = run(tmp_path)
    assert (tiny.digest(learner), learner.steps) == (expected, steps)


@pytest.mark.slow
def test_resuming_with_another_setup_is_refused(tmp_path):
    run(tmp_path)
    learner, train, _ = tiny.build(tmp_path)
    train.batch_size = 4
    before = it_random.default_generator().state
    with pytest.raises(ValueError, match="batch_size=8, this loader has batch_size=4"):
        learner.fit(train, epochs=5, resume=True)
    assert it_random.default_generator().state == before
    assert learner.steps == 0
    learner, train, _ = tiny.build(tmp_path)
    del learner.metrics[1:]
    with pytest.raises(CheckpointError, match="2 as its metrics, this learner has 1"):
        learner.fit(train, epochs=5, resume=True)
    learner, train, _ = tiny.build(tmp_path)
    with pytest.raises(CheckpointError, match="training was done with a loader, got list"):
        learner.fit(list(train), epochs=5, resume=True)


def start(folder, epochs):
    command = [sys.executable, str(HERE / "tiny_training.py"), str(folder), str(epochs)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def kill_and_resume(base, kills, epochs=25):
    """Kills trainings at random moments until there were `kills`; each must end the same."""
    rng = random.Random(0)
    with start(base / "whole", epochs) as process:
        expected = process.communicate()[0]
    assert len(expected) == 65
    done = finished = 0
    while done < kills:
        folder = base / f"run{finished}"
        while True:
            with start(folder, epochs) as process:
                time.sleep(rng.uniform(0, 0.3))
                process.kill()
                out = process.stdout.read()
            check_whole(folder)
            if out:
                assert out == expected
                break
            done += 1
            if done == kills:
                with start(folder, epochs) as process:
                    assert process.communicate()[0] == expected
                break
        steps = [
            line["step"] for line in read_jsonl(folder / "history.jsonl") if "epoch" not in line
        ]
        assert steps == list(range(1, len(steps) + 1))
        finished += 1
    return finished


def check_whole(folder):
    """Every file that bears a checkpoint's name can be read."""
    store = CheckpointStore(folder)
    for path in store.paths():
        load(path)
    assert (latest := store.latest()) is None or latest.exists()


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
    kill_and_resume(tmp_path, kills=20)


@pytest.mark.nightly
def test_killed_a_hundred_times(tmp_path):
    kill_and_resume(tmp_path, kills=100)


def test_a_generator_that_modules_share_is_saved_once():
    class Noisy(nn.Module):
        def __init__(self, generator):
            self.first = generator
            self.second = generator

        def forward(self, x):
            return x

    own = it_random.Generator(3)
    model = nn.Sequential(Noisy(own), Noisy(own), Noisy(it_random.default_generator()))
    found = list(resuming.generators(model))
    assert [name for name, _ in found] == ["", "0.first"]
    assert found[1][1] is own
