"""A learner augments what it trains on, and nothing else."""

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.dataset import ArrayDataset, Loader, augment
from ingle.testkit.bits import same_bits
from ingle.train import Accuracy, Learner, NonFiniteLossError

RNG = np.random.default_rng(0)
IMAGES = RNG.random((12, 3, 10, 10)).astype(np.float32)
MASKS = (IMAGES.mean(1) > 0.5).astype(np.int64)
MOVES = augment.Compose(
    [
        augment.RandomHorizontalFlip(),
        augment.RandomCrop(8),
        augment.Normalize([0.5] * 3, [0.2] * 3),
    ]
)


class Segments(nn.Module):
    def __init__(self):
        it.random.seed(0)
        self.conv = nn.Conv2d(3, 2, 1)
        self.seen = []

    def forward(self, x):
        self.seen.append((self.training, x.shape))
        return self.conv(x)


def learner(**options):
    model = Segments()
    return Learner(
        model, optim.SGD(model, lr=0.1), it.cross_entropy,
        progress=False, augment=MOVES, **options,
    )  # fmt: skip


def batches():
    return Loader(ArrayDataset(IMAGES, MASKS), 4, shuffle=True)


def test_only_what_it_trains_on_and_the_same_when_resumed(tmp_path):
    whole = learner(checkpoints=tmp_path / "whole")
    whole.fit(batches(), epochs=3, valid=batches())
    assert set(whole.model.seen) == {(True, (4, 3, 8, 8)), (False, (4, 3, 10, 10))}
    learner(checkpoints=tmp_path / "parts").fit(batches(), epochs=1)
    resumed = learner(checkpoints=tmp_path / "parts")
    it.random.seed(9)
    resumed.fit(batches(), epochs=3, valid=batches(), resume=True)
    for a, b in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert same_bits(a.value, b.value)


def test_metrics_get_the_targets_that_it_gives():
    seen = []

    class Shapes(Accuracy):
        def update(self, outputs, targets, loss):
            seen.append((outputs.shape[2:], targets.shape[1:]))

        def compute(self):
            return 0.0

    made = learner()
    made.metrics.append(Shapes())
    made.fit(batches(), epochs=1)
    made.evaluate(batches(), [Shapes()])
    assert seen == [((8, 8), (8, 8))] * 3 + [((10, 10), (10, 10))] * 3


def test_a_loss_that_is_not_finite_is_looked_for_with_the_same_draws():
    draws = []

    def spoilt(batch):
        images, masks = MOVES(batch)
        draws.append(images)
        return images / 0.0, masks

    made = learner()
    made.augment = spoilt
    with pytest.raises(NonFiniteLossError, match=r"It comes from .* in 'conv'"):
        made.fit(batches(), epochs=1)
    assert len(draws) == 2
    assert same_bits(draws[0], draws[1])
