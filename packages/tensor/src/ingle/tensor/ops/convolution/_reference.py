"""Convolution and its gradients by definition, on float64 arrays: a loop over output positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Array = Any


def conv(
    x: Any, weight: Any, bias: Any = None, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    rank, kernel = weight.ndim - 2, weight.shape[2:]
    image: Any = np.pad(x, _widths(padding, kernel, dilation, rank))
    out = _out(image.shape[2:], kernel, stride, dilation)
    result: Any = np.zeros((x.shape[0], weight.shape[0], *out), np.result_type(x, weight))
    for at, window in _windows(out, kernel, stride, dilation):
        for features, channels in _groups(groups, weight.shape[0], x.shape[1]):
            taps = _flat(weight[features])
            seen = image[(slice(None), channels, *window)].reshape(x.shape[0], taps.shape[1])
            result[(slice(None), features, *at)] = seen @ taps.T
    return result if bias is None else result + bias.reshape(-1, *(1,) * rank)


def conv_input_gradient(
    g: Any, weight: Any, size: Any, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    rank, kernel = weight.ndim - 2, weight.shape[2:]
    widths = _widths(padding, kernel, dilation, rank)
    size = _each(size, rank)
    shape = (g.shape[0], weight.shape[1] * groups, *size)
    total: Any = np.pad(np.zeros(shape, np.result_type(g, weight)), widths)
    for at, window in _windows(g.shape[2:], kernel, stride, dilation):
        for features, channels in _groups(groups, weight.shape[0], shape[1]):
            share = g[(slice(None), features, *at)] @ _flat(weight[features])
            total[(slice(None), channels, *window)] += share.reshape(g.shape[0], *weight.shape[1:])
    inside = [slice(low, low + n) for (low, _), n in zip(widths[2:], size, strict=True)]
    return total[(slice(None), slice(None), *inside)]


def conv_weight_gradient(
    x: Any, g: Any, kernel: Any, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    rank = x.ndim - 2
    kernel = _each(kernel, rank)
    image: Any = np.pad(x, _widths(padding, kernel, dilation, rank))
    shape = (g.shape[1], x.shape[1] // groups, *kernel)
    total: Any = np.zeros(shape, np.result_type(x, g))
    for at, window in _windows(g.shape[2:], kernel, stride, dilation):
        for features, channels in _groups(groups, shape[0], x.shape[1]):
            seen = image[(slice(None), channels, *window)]
            seen = seen.reshape(x.shape[0], int(np.prod(shape[1:])))
            total[features] += (g[(slice(None), features, *at)].T @ seen).reshape(-1, *shape[1:])
    return total


def _flat(weight: Array) -> Array:
    return weight.reshape(weight.shape[0], int(np.prod(weight.shape[1:])))


def _each(value: Any, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else tuple(value)


def _widths(padding: Any, kernel: Any, dilation: Any, rank: int) -> list[tuple[int, int]]:
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(_each(dilation, rank), kernel, strict=True)]
        pairs = [(t // 2, t - t // 2) for t in total]
    elif padding == "valid":
        pairs = [(0, 0)] * rank
    else:
        pairs = [p if isinstance(p, tuple) else (p, p) for p in _each(padding, rank)]
    return [(0, 0), (0, 0), *pairs]


def _out(size: Any, kernel: Any, stride: Any, dilation: Any) -> tuple[int, ...]:
    rank = len(kernel)
    return tuple(
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(size, kernel, _each(stride, rank), _each(dilation, rank), strict=True)
    )


def _windows(
    out: Any, kernel: Any, stride: Any, dilation: Any
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    rank = len(kernel)
    steps, spread = _each(stride, rank), _each(dilation, rank)
    for at in np.ndindex(*out):
        yield (
            at,
            tuple(
                slice(p * s, p * s + d * (k - 1) + 1, d)
                for p, s, d, k in zip(at, steps, spread, kernel, strict=True)
            ),
        )


def _groups(groups: int, features: int, channels: int) -> Iterator[tuple[slice, slice]]:
    f, c = features // groups, channels // groups
    for group in range(groups):
        yield slice(group * f, (group + 1) * f), slice(group * c, (group + 1) * c)


def window_product(
    a: Any, x: Any, kernel: Any, size: Any, *, stride: Any, dilation: Any, start: Any,
    groups: int = 1,
) -> Any:  # fmt: skip
    features, channels = a.shape[1], x.shape[1] // groups
    result: Any = np.zeros((x.shape[0], groups * features, *size), np.result_type(a, x))
    for place in np.ndindex(*size):
        seen = _window(x, place, kernel, stride, dilation, start)
        for g in range(groups):
            columns = seen[:, g * channels : (g + 1) * channels].reshape(x.shape[0], a.shape[2])
            rows = slice(g * features, (g + 1) * features)
            result[(slice(None), rows, *place)] = columns @ a[g].T
    return result


def window_dot(
    a: Any, x: Any, kernel: Any, size: Any, *, stride: Any, dilation: Any, start: Any
) -> Any:
    result: Any = np.zeros((*x.shape[:2], *kernel), np.result_type(a, x))
    rank = len(kernel)
    for number, place in enumerate(np.ndindex(*size)):
        seen = _window(x, place, kernel, stride, dilation, start)
        result += a[:, :, number].reshape(*a.shape[:2], *(1,) * rank) * seen
    return result


def window_outer(
    a: Any, x: Any, kernel: Any, size: Any, *, stride: Any, dilation: Any, start: Any,
    groups: int = 1,
) -> Any:  # fmt: skip
    features, channels = a.shape[1] // groups, x.shape[1] // groups
    result: Any = np.zeros((a.shape[1], channels, *kernel), np.result_type(a, x))
    for number, place in enumerate(np.ndindex(*size)):
        seen = _window(x, place, kernel, stride, dilation, start)
        for g in range(groups):
            rows = slice(g * features, (g + 1) * features)
            part = seen[:, g * channels : (g + 1) * channels]
            result[rows] += np.tensordot(a[:, rows, number], part, ((0,), (0,)))
    return result


def _window(x: Any, place: Any, kernel: Any, stride: Any, dilation: Any, start: Any) -> Any:
    """What a window sees, tap by tap: (batch, channels, *kernel)."""
    found: Any = np.zeros((*x.shape[:2], *kernel), x.dtype)
    for tap in np.ndindex(*kernel):
        steps = zip(place, stride, tap, dilation, start, strict=True)
        at = [p * s + t * d + b for p, s, t, d, b in steps]
        if all(0 <= i < n for i, n in zip(at, x.shape[2:], strict=True)):
            found[(slice(None), slice(None), *tap)] = x[(slice(None), slice(None), *at)]
    return found
