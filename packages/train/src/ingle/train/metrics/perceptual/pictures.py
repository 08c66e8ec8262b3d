"""What metrics with a net share: pictures of three channels, and the net in evaluation."""

from __future__ import annotations

from ingle.autodiff import no_grad
from ingle.nn import Module
from ingle.tensor import Tensor
from ingle.tensor.errors import ShapeError

from ..base import seen
from ..images import check_images


def check_pictures(name: str, outputs: Tensor, targets: Tensor) -> None:
    """Raises unless both are batches of images with three channels, of one shape."""
    check_images(name, outputs, targets)
    three_channels(name, outputs)


def three_channels(name: str, images: Tensor) -> None:
    """Raises unless images have three channels."""
    if images.ndim != 4 or images.shape[1] != 3:
        raise ShapeError(
            f"{name}: images must have shape (images, 3, height, width), got {seen(images)}; grey "
            "ones are repeated by it.concat([x, x, x], axis=1)"
        )


def evaluated(net: Module, *inputs: Tensor) -> Tensor:
    """What a net gives in evaluation, without gradients; it is as before afterwards."""
    training = net.training
    net.eval()
    try:
        with no_grad():
            found: Tensor = net(*inputs)
    finally:
        net.train(training)
    return found
