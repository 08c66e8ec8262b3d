"""Inception's third version, in the form that FID is defined with."""

from __future__ import annotations

import ingle.tensor as it
from ingle import nn
from ingle.tensor import Tensor

Kernel = int | tuple[int, int]


class BasicConv2d(nn.Module):
    """A convolution, its normalization, and what is positive of it."""

    def __init__(
        self, inputs: int, outputs: int, kernel: Kernel, *, stride: int = 1, padding: Kernel = 0
    ) -> None:
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return it.relu(self.bn(self.conv(x)))


def averaged(x: Tensor) -> Tensor:
    """Means of 3 by 3 neighbours; those outside of the image do not count."""
    return it.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False)


class InceptionA(nn.Module):
    """Four branches at 35 by 35."""

    def __init__(self, inputs: int, pooled: int) -> None:
        self.branch1x1 = BasicConv2d(inputs, 64, 1)
        self.branch5x5_1 = BasicConv2d(inputs, 48, 1)
        self.branch5x5_2 = BasicConv2d(48, 64, 5, padding=2)
        self.branch3x3dbl_1 = BasicConv2d(inputs, 64, 1)
        self.branch3x3dbl_2 = BasicConv2d(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = BasicConv2d(96, 96, 3, padding=1)
        self.branch_pool = BasicConv2d(inputs, pooled, 1)

    def forward(self, x: Tensor) -> Tensor:
        five = self.branch5x5_2(self.branch5x5_1(x))
        three = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        pooled = self.branch_pool(averaged(x))
        return it.concat([self.branch1x1(x), five, three, pooled], axis=1)


class InceptionB(nn.Module):
    """From 35 by 35 to 17 by 17."""

    def __init__(self, inputs: int) -> None:
        self.branch3x3 = BasicConv2d(inputs, 384, 3, stride=2)
        self.branch3x3dbl_1 = BasicConv2d(inputs, 64, 1)
        self.branch3x3dbl_2 = BasicConv2d(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = BasicConv2d(96, 96, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        three = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return it.concat([self.branch3x3(x), three, it.max_pool2d(x, 3, stride=2)], axis=1)


class InceptionC(nn.Module):
    """Convolutions of seven pixels, along each axis by itself, at 17 by 17."""

    def __init__(self, inputs: int, width: int) -> None:
        along, down = (1, 7), (7, 1)
        before, under = (0, 3), (3, 0)
        self.branch1x1 = BasicConv2d(inputs, 192, 1)
        self.branch7x7_1 = BasicConv2d(inputs, width, 1)
        self.branch7x7_2 = BasicConv2d(width, width, along, padding=before)
        self.branch7x7_3 = BasicConv2d(width, 192, down, padding=under)
        self.branch7x7dbl_1 = BasicConv2d(inputs, width, 1)
        self.branch7x7dbl_2 = BasicConv2d(width, width, down, padding=under)
        self.branch7x7dbl_3 = BasicConv2d(width, width, along, padding=before)
        self.branch7x7dbl_4 = BasicConv2d(width, width, down, padding=under)
        self.branch7x7dbl_5 = BasicConv2d(width, 192, along, padding=before)
        self.branch_pool = BasicConv2d(inputs, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        seven = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        twice = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        twice = self.branch7x7dbl_5(self.branch7x7dbl_4(twice))
        pooled = self.branch_pool(averaged(x))
        return it.concat([self.branch1x1(x), seven, twice, pooled], axis=1)


class InceptionD(nn.Module):
    """From 17 by 17 to 8 by 8."""

    def __init__(self, inputs: int) -> None:
        self.branch3x3_1 = BasicConv2d(inputs, 192, 1)
        self.branch3x3_2 = BasicConv2d(192, 320, 3, stride=2)
        self.branch7x7x3_1 = BasicConv2d(inputs, 192, 1)
        self.branch7x7x3_2 = BasicConv2d(192, 192, (1, 7), padding=(0, 3))
        self.branch7x7x3_3 = BasicConv2d(192, 192, (7, 1), padding=(3, 0))
        self.branch7x7x3_4 = BasicConv2d(192, 192, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        three = self.branch3x3_2(self.branch3x3_1(x))
        seven = self.branch7x7x3_2(self.branch7x7x3_1(x))
        seven = self.branch7x7x3_4(self.branch7x7x3_3(seven))
        return it.concat([three, seven, it.max_pool2d(x, 3, stride=2)], axis=1)


class InceptionE(nn.Module):
    """Branches that part once more, at 8 by 8.

    Args:
        inputs: channels.
        largest: whether the pooled branch takes the largest of neighbours and not their mean: so it
            is in the last block of the net that FID's weights come from.
    """

    def __init__(self, inputs: int, *, largest: bool) -> None:
        self.largest = largest
        self.branch1x1 = BasicConv2d(inputs, 320, 1)
        self.branch3x3_1 = BasicConv2d(inputs, 384, 1)
        self.branch3x3_2a = BasicConv2d(384, 384, (1, 3), padding=(0, 1))
        self.branch3x3_2b = BasicConv2d(384, 384, (3, 1), padding=(1, 0))
        self.branch3x3dbl_1 = BasicConv2d(inputs, 448, 1)
        self.branch3x3dbl_2 = BasicConv2d(448, 384, 3, padding=1)
        self.branch3x3dbl_3a = BasicConv2d(384, 384, (1, 3), padding=(0, 1))
        self.branch3x3dbl_3b = BasicConv2d(384, 384, (3, 1), padding=(1, 0))
        self.branch_pool = BasicConv2d(inputs, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        three = self.branch3x3_1(x)
        twice = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        pooled = it.max_pool2d(x, 3, stride=1, padding=1) if self.largest else averaged(x)
        parts = [
            self.branch1x1(x), self.branch3x3_2a(three), self.branch3x3_2b(three),
            self.branch3x3dbl_3a(twice), self.branch3x3dbl_3b(twice), self.branch_pool(pooled),
        ]  # fmt: skip
        return it.concat(parts, axis=1)


class InceptionFeatures(nn.Module):
    """2,048 features of images from 0 to 1: the last pooling of Inception (Szegedy et al., 2016).

    Images are brought to 299 by 299 pixels. It is the variant of the net that FID is defined with,
    in which means leave out what is outside of the image. Weights are random at first: the names in
    its state are torchvision's and those of the file `pt_inception-2015-12-05` of `pytorch-fid`,
    which `ingle.importer.load_weights(net, FILE, strict=False)` reads; what the
    classifier behind the features has there is passed over.

    >>> import ingle.tensor as it
    >>> from ingle.train.metrics.perceptual import InceptionFeatures
    >>> net = InceptionFeatures()
    >>> len(net.state_dict()), net.Mixed_7c.branch1x1.conv.weight.shape
    (564, (320, 2048, 1, 1))
    """

    def __init__(self) -> None:
        self.Conv2d_1a_3x3 = BasicConv2d(3, 32, 3, stride=2)
        self.Conv2d_2a_3x3 = BasicConv2d(32, 32, 3)
        self.Conv2d_2b_3x3 = BasicConv2d(32, 64, 3, padding=1)
        self.Conv2d_3b_1x1 = BasicConv2d(64, 80, 1)
        self.Conv2d_4a_3x3 = BasicConv2d(80, 192, 3)
        self.Mixed_5b, self.Mixed_5c = InceptionA(192, 32), InceptionA(256, 64)
        self.Mixed_5d = InceptionA(288, 64)
        self.Mixed_6a = InceptionB(288)
        self.Mixed_6b, self.Mixed_6c = InceptionC(768, 128), InceptionC(768, 160)
        self.Mixed_6d, self.Mixed_6e = InceptionC(768, 160), InceptionC(768, 192)
        self.Mixed_7a = InceptionD(768)
        self.Mixed_7b = InceptionE(1280, largest=False)
        self.Mixed_7c = InceptionE(2048, largest=True)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[2:] != (299, 299):
            x = it.interpolate(x, (299, 299), mode="bilinear", align_corners=False)
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(2.0 * x - 1.0)))
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(it.max_pool2d(x, 3, stride=2)))
        x = self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(it.max_pool2d(x, 3, stride=2))))
        x = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(self.Mixed_6a(x)))))
        x = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x)))
        return it.mean(x, axis=(2, 3))
