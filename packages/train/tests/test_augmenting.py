"""A learner augments what it trains on, and nothing else."""

import numpy as np
import pytest

import ingle.tensor as it
from ingle import nn, optim
from ingle.dataset import ArrayDataset, Loader, augment
from ingle.testkit.bits import same_bits
from ingle.train import Accuracy, AugmentationWarning, Learner, NonFiniteLossError

RNG = np.random.default_rng(0)
IMAGES = RNG.random((12, 3, 10, 10)).astype(np.float32)
MASKS = (IMAGES.mean(1) > 0.5).astype(np.int64)
MOVES = augment.Compose(
    [
        augment.RandomHorizontalFlip(),
        augment.RandomCrop(8),
    ]
)
NORMALIZE = augment.Normalize([0.5] * 3, [0.2] * 3)


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
        progress=False, augment=MOVES, transform=NORMALIZE, **options,
    )  # fmt: skip


def batches():
    return Loader(ArrayDataset(IMAGES, MASKS), 4, shuffle=True)


@pytest.mark.slow
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


def test_what_is_evaluated_is_transformed_too():
    model = nn.Sequential(nn.Flatten(), nn.Linear(300, 2))
    plain = Learner(model, optim.SGD(model, lr=0.0), it.cross_entropy, progress=False)
    whole = Learner(
        model, optim.SGD(model, lr=0.0), it.cross_entropy, progress=False, transform=NORMALIZE
    )
    labels = np.arange(12) % 2
    normalized = (IMAGES - np.float32(0.5)) / np.float32(0.2)
    want = plain.evaluate(Loader(ArrayDataset(normalized, labels), 4))["loss"]
    data = Loader(ArrayDataset(IMAGES, labels), 4)
    assert whole.evaluate(data)["loss"] == pytest.approx(want, rel=1e-6)
    (record,) = whole.fit(data, epochs=1, valid=data)
    assert record["train/loss"] == pytest.approx(want, rel=1e-6)
    assert record["valid/loss"] == pytest.approx(want, rel=1e-6)


@pytest.mark.slow
def test_an_augmentation_that_normalizes_warns_where_something_is_evaluated():
    for change in (NORMALIZE, augment.Compose([augment.Compose([NORMALIZE])])):
        made = learner()
        made.augment = change
        made.fit(batches(), epochs=1)
        with pytest.warns(AugmentationWarning, match=r"give it as Learner\(..., transform=Norm"):
            made.fit(batches(), epochs=2, valid=batches())


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
