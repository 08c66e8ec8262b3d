"""A training of a second's fraction: five steps an epoch, with dropout and shuffling."""

import numpy as np

import ingle.tensor as it
from ingle import nn, optim
from ingle.dataset import ArrayDataset, Loader
from ingle.train import Learner

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5)).astype(np.float32)
Y = (X @ RNG.normal(size=(5, 3))).argmax(1).astype(np.int64)


def make(**options):
    it.random.seed(0)
    model = options.pop("model", None) or nn.Sequential(
        nn.Linear(5, 8), nn.Dropout(0.2), nn.Linear(8, 3)
    )
    optimizer = optim.SGD(model, lr=options.pop("lr", 0.1))
    loss = options.pop("loss", it.cross_entropy)
    return Learner(model, optimizer, loss, **{"progress": False, **options})


def loader(**options):
    return Loader(ArrayDataset(X, Y), 8, shuffle=True, seed=3, **options)  # 5 steps an epoch


def weights(learner):
    return np.concatenate([p.raw.numpy().ravel() for p in learner.model.parameters()])
