"""A training small enough to be killed a hundred times: `python tiny_training.py FOLDER`.

Says "ready" when it is about to train, and a digest of all that it ends with. It has what makes
resuming hard: dropout, batch norm, Adam under a schedule, shuffling, augmentation, accumulation.
"""

import hashlib
import sys

import numpy as np

import ingle.tensor as it
from ingle import nn, optim
from ingle.dataset import ArrayDataset, Loader
from ingle.train import Accuracy, EarlyStopping, JSONLLogger, Learner


class Net(nn.Module):
    def __init__(self):
        self.first = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.3, generator=it.random.Generator(5))
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        x = self.drop(it.relu(self.norm(self.first(x))))
        return self.last(it.dropout(x, 0.1))


def build(folder, *, samples=60, accumulate=2, every=1, callbacks=()):
    """A learner with its loaders; all random numbers start from fixed seeds."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(samples, 6)).astype(np.float32)
    data = ArrayDataset(x, (np.abs(x).argmax(1) % 3).astype(np.int64))
    it.random.seed(1)
    model = Net()
    train = Loader(
        data, 8, shuffle=True, seed=2,
        augment=lambda b, r: (b[0] + r.normal(0, 0.1, b[0].shape).astype(np.float32), b[1]),
    )  # fmt: skip
    learner = Learner(
        model,
        optim.AdamW(model, lr=optim.schedule.Cosine(0.02, steps=100, warmup=5)),
        it.cross_entropy,
        metrics=[Accuracy()],
        accumulate=accumulate,
        max_grad_norm=1.0,
        checkpoints=folder,
        checkpoint_every=every,
        callbacks=[EarlyStopping(patience=50), *callbacks],
        progress=False,
    )
    return learner, train, Loader(data, 32)


def digest(learner):
    """Of every number that the training ended with."""
    found = hashlib.sha256()
    for part in (learner.model, learner.optimizer):
        for name, value in sorted(part.state_dict().items()):
            found.update(name.encode())
            found.update(
                value.numpy().tobytes() if hasattr(value, "numpy") else repr(value).encode()
            )
    timeless = [
        {k: v for k, v in r.items() if k not in ("seconds", "waited")} for r in learner.history
    ]
    found.update(repr((timeless, it.random.default_generator().state)).encode())
    found.update(repr(learner.model.drop.generator.state).encode())
    return found.hexdigest()


def main(folder, epochs):
    learner, train, valid = build(folder, callbacks=[JSONLLogger(f"{folder}/history.jsonl")])
    print("ready", flush=True)  # noqa: T201
    learner.fit(train, epochs=epochs, valid=valid, resume=True)
    print(digest(learner), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
