"""What a renderer is told, and what the learner does when a renderer asks."""

import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from learners import loader, make, weights

from ingle.train import Accuracy, Callback, Renderer, Rendering, TrainingError


class Kept(Renderer):
    """Keeps what it is told; calls `wish(control)` after a step."""

    wants_norms = True

    def __init__(self, wishes=()):
        self.told = []
        self.wishes = dict(wishes)

    def begin(self, run, control):
        self.run, self.control = run, control

    def step(self, step):
        self.told.append(step)
        self.wishes.get(step.step, lambda control: None)(self.control)

    def norms(self, step, norms):
        self.told.append(("norms", step, norms))

    def epoch(self, record, epochs):
        self.told.append(("epoch", record["epoch"], epochs))

    def evaluation(self, record):
        self.told.append(("evaluation", record["step"]))

    def state(self, state):
        self.told.append(state)

    def message(self, text):
        self.told.append(("message", text))

    def end(self, reason):
        self.told.append(("end", reason))

    def steps(self):
        return [t for t in self.told if hasattr(t, "loss")]


def test_a_renderer_is_told_everything_in_order():
    kept = Kept()
    kept.wants_norms = False
    make(progress=kept, metrics=[Accuracy()]).fit(loader(), epochs=2, valid=loader(), valid_every=4)
    told = [t.step if hasattr(t, "loss") else t for t in kept.told]
    validated = ["validating", "training"]
    assert told == [
        "training", 1, 2, 3, 4, *validated, ("evaluation", 4), 5, *validated, ("epoch", 1, 2),
        6, 7, 8, *validated, ("evaluation", 8), 9, 10, *validated, ("epoch", 2, 2), ("end", None),
    ]  # fmt: skip
    assert kept.run.epochs == 2
    assert kept.run.devices
    assert [(m.path, m.kind, dict(m.parameters)) for m in kept.run.modules] == [
        ("", "Sequential", {}),
        ("0", "Linear", {"weight": 40, "bias": 8}),
        ("1", "Dropout", {}),
        ("2", "Linear", {"weight": 24, "bias": 3}),
    ]
    for i, step in enumerate(kept.steps()):
        assert (step.epoch, step.batch, step.batches, step.samples) == (i // 5, i % 5 + 1, 5, 8)
        assert {"data", "forward", "metrics", "backward", "optimizer"} == set(step.spans)
        assert 0 < sum(step.spans.values()) <= step.seconds + 1e-4
        assert not step.exact


class SlowlyEnding:
    """Batches whose iterator takes a while to say that there are no more."""

    def __iter__(self):
        yield from loader()
        time.sleep(0.1)


@pytest.mark.parametrize("last", ["evaluation", "checkpoint"])
def test_spans_of_a_step_are_within_it(last, tmp_path):
    """What an epoch did at its end is not the first step's of the next one."""
    kept = Kept()
    kept.wants_norms = False
    more = {"checkpoints": tmp_path} if last == "checkpoint" else {}
    valid = loader() if last == "evaluation" else None
    make(progress=kept, **more).fit(SlowlyEnding(), epochs=2, valid=valid)
    assert len(kept.steps()) == 10
    for step in kept.steps():
        assert 0 < sum(step.spans.values()) <= step.seconds + 1e-4


def test_looking_closely_changes_no_weight():
    kept = Kept()
    watched = make(progress=kept)
    watched.fit(loader(), epochs=4)
    plain = make()
    plain.fit(loader(), epochs=4)
    np.testing.assert_array_equal(weights(watched), weights(plain))
    exact = [s.step for s in kept.steps() if s.exact]
    assert exact[0] == 5
    assert all(b - a >= 10 for a, b in pairwise(exact))


def test_norms_are_those_of_the_step():
    class Watch(Callback):
        def on_gradients(self, learner, gradients):
            found = {}
            for name, p in learner.model.named_parameters():
                found[name] = [np.linalg.norm(x.numpy()) for x in (p.raw, gradients[p])]
            seen.append(found)

    seen, kept = [], Kept()
    make(progress=kept, callbacks=[Watch()]).fit(loader(), epochs=1)
    *_, (_, step, norms) = [t for t in kept.told if isinstance(t, tuple) and t[0] == "norms"]
    assert step == 5
    assert norms.keys() == seen[4].keys()
    for name, found in norms.items():
        np.testing.assert_allclose(found, seen[4][name], rtol=1e-5)


@pytest.mark.slow
def test_a_renderer_can_stop_and_save(tmp_path):
    kept = Kept({2: lambda c: c.checkpoint(), 7: lambda c: c.stop("enough")})
    learner = make(progress=kept, checkpoints=tmp_path)
    learner.fit(loader(), epochs=9)
    assert (learner.steps, learner.stopped) == (7, "enough")
    names = [p.name for p in learner.checkpoints.paths()]
    assert names == [f"step-0000000{i}.safetensors" for i in (7, 5, 2)]
    assert ("message", f"wrote {learner.checkpoints.paths()[-1]}") in kept.told
    assert kept.told[-1] == ("end", "enough")
    other = make(progress=Kept(), checkpoints=tmp_path)
    other.fit(loader(), epochs=2, resume=True)
    reference = make()
    reference.fit(loader(), epochs=2)
    np.testing.assert_array_equal(weights(other), weights(reference))


def test_a_paused_training_waits_for_another_thread():
    moments = {}

    def pause(control):
        control.pause()
        moments["paused"] = time.monotonic()
        threading.Timer(0.3, control.resume).start()

    def go_on(control):
        moments["on"] = time.monotonic()

    kept = Kept({2: pause, 3: go_on})
    kept.wants_norms = False
    learner = make(progress=kept)
    learner.fit(loader(), epochs=1)
    assert moments["on"] - moments["paused"] >= 0.3
    assert kept.steps()[2].seconds < 0.25, "the pause is no part of the step"
    assert [t for t in kept.told if isinstance(t, str)] == ["training", "paused", "training"]


def test_stopping_ends_a_pause():
    def pause(control):
        control.pause()
        threading.Timer(0.1, control.stop).start()

    learner = make(progress=Kept({2: pause}))
    learner.fit(loader(), epochs=1)
    assert (learner.steps, learner.stopped) == (2, "stopped by hand")


def test_an_exception_is_told_at_the_end():
    class Fails(Callback):
        def on_step(self, learner, loss):
            raise ValueError("of mine")

    kept = Kept()
    with pytest.raises(ValueError, match="of mine"):
        make(progress=kept, callbacks=[Fails()]).fit(loader(), epochs=1)
    assert kept.told[-1] == ("end", "ValueError: of mine")


def test_without_a_folder_there_is_no_checkpoint():
    kept = Kept({1: lambda c: c.checkpoint()})
    learner = make(progress=kept)
    learner.fit(loader(), epochs=1)
    assert learner.steps == 5
    (message,) = [t[1] for t in kept.told if isinstance(t, tuple) and t[0] == "message"]
    assert "checkpoints=FOLDER" in message
    with pytest.raises(TrainingError, match="checkpoints=FOLDER"):
        learner.checkpoint_now()


def test_two_renderers():
    first, second = Kept(), Kept()
    make(progress=first, callbacks=[Rendering(second)]).fit(loader(), epochs=1)
    assert len(first.steps()) == len(second.steps()) == 5
