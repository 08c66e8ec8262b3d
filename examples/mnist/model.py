"""The three models, in a file of their own: predicting needs them without anything of training."""

import ingle.tensor as it
from ingle import nn
from ingle.tensor import Tensor

CLASSES = 10
PIXELS = 28 * 28


class LinearNet(nn.Module):
    """One layer that starts from zero: multinomial logistic regression."""

    def __init__(self) -> None:
        self.out = nn.Linear(
            PIXELS, CLASSES, weight_init=nn.init.Zeros(), bias_init=nn.init.Zeros()
        )

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.out(it.reshape(images, (-1, PIXELS)))
        return scores


class MLP(nn.Module):
    """Two layers with a ReLU between them."""

    def __init__(self, hidden: int = 256) -> None:
        self.hidden = nn.Linear(PIXELS, hidden)
        self.out = nn.Linear(hidden, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        x = it.reshape(images, (-1, PIXELS))
        scores: Tensor = self.out(it.relu(self.hidden(x)))
        return scores


class ConvNet(nn.Module):
    """Two 5x5 convolutions with pooling, then a wide layer with dropout."""

    def __init__(self) -> None:
        self.conv1 = nn.Conv2d(1, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.pool = nn.MaxPool2d(2)
        self.hidden = nn.Linear(64 * 7 * 7, 1024)
        self.dropout = nn.Dropout(0.5)
        self.out = nn.Linear(1024, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        x = self.pool(it.relu(self.conv1(images)))
        x = self.pool(it.relu(self.conv2(x)))
        x = it.reshape(x, (x.shape[0], 64 * 7 * 7))
        x = self.dropout(it.relu(self.hidden(x)))
        scores: Tensor = self.out(x)
        return scores


MODELS: dict[str, type[nn.Module]] = {"linear": LinearNet, "mlp": MLP, "cnn": ConvNet}
