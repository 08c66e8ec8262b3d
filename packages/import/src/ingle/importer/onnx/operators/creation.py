"""New tensors: constants, ranges, random numbers."""

from __future__ import annotations

import math

import numpy as np

import ingle.tensor as it
from ingle.tensor import Device, Tensor

from ...errors import ModelError
from ..registry import operator
from ..values import (
    STRINGS,
    Array,
    Host,
    Value,
    bounded,
    cast,
    dtype_of,
    ints,
    numpy_dtype,
    on_device,
)


@operator("Constant")
def constant(
    *, value: Host | None = None, sparse_value: Host | None = None,
    value_float: float | None = None, value_floats: list[float] | None = None,
    value_int: int | None = None, value_ints: list[int] | None = None,
    value_string: str | None = None, value_strings: list[str] | None = None,
) -> Host:  # fmt: skip
    """A value that is written in the graph; it stays on the host until something computes."""
    for given, dtype in (
        (value_float, np.float32), (value_floats, np.float32), (value_int, np.int64),
        (value_ints, np.int64), (value_string, STRINGS), (value_strings, STRINGS),
    ):  # fmt: skip
        if given is not None:
            return np.asarray(given, dtype)
    found = value if value is not None else sparse_value
    if found is None:
        raise ModelError("Constant: it has no value")
    return found


@operator("ConstantOfShape")
def constant_of_shape(shape: Host, *, value: Host | None = None) -> Host:
    fill = np.zeros(1, np.float32) if value is None else value
    return np.full(bounded("ConstantOfShape", ints(shape)), fill.reshape(-1)[0], fill.dtype)


@operator("Range")
def range_(start: Host, limit: Host, delta: Host, *, stash_type: int = 1) -> Host:
    """Numbers from `start` up to and without `limit`; floats of 16 bits by way of `stash_type`."""
    first, last, step = (x.reshape(-1)[0] for x in (start, limit, delta))
    if not float(step):
        raise ModelError("Range: the step is 0")
    count = max(math.ceil((float(last) - float(first)) / float(step)), 0)
    bounded("Range", [count])
    if start.dtype.kind in "iu":
        first, last, step = int(first), int(last), int(step)
        count = max(-((first - last) // step), 0)
        return (first + step * np.arange(count)).astype(start.dtype)
    wide = dtype_of(stash_type) if start.dtype.itemsize == 2 else np.dtype(np.float64)
    first, step = (np.asarray(n).astype(wide) for n in (first, step))
    numbers: np.ndarray = (first + step * np.arange(count).astype(wide)).astype(start.dtype)
    return numbers


@operator("EyeLike")
def eye_like(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Value:
    rows, columns = x.shape
    to = x.dtype if dtype is None else on_device(dtype_of(dtype))
    return it.eye(rows, columns, k=k, dtype=to, device=x.device)


def _float(dtype: int | None, default: np.dtype = np.dtype(np.float32)) -> np.dtype:  # noqa: B008
    return default if dtype is None else dtype_of(dtype)


def _generator(seed: float | None) -> it.random.Generator:
    """The one of a seed that the model names, or the shared one."""
    if seed is None or math.isnan(seed):
        return it.random.default_generator()
    return it.random.Generator(int(np.float32(seed).view(np.uint32)))


@operator("RandomUniform")
def random_uniform(
    *, shape: list[int], low: float = 0.0, high: float = 1.0, dtype: int = 1,
    seed: float | None = None, device: Device | None,
) -> Array:  # fmt: skip
    drawn = it.random.uniform(
        bounded("Random", shape), low, high, device=device, generator=_generator(seed)
    )
    return cast(drawn, dtype_of(dtype))


@operator("RandomNormal")
def random_normal(
    *, shape: list[int], mean: float = 0.0, scale: float = 1.0, dtype: int = 1,
    seed: float | None = None, device: Device | None,
) -> Array:  # fmt: skip
    drawn = it.random.normal(
        bounded("Random", shape), mean, scale, device=device, generator=_generator(seed)
    )
    return cast(drawn, dtype_of(dtype))


@operator("RandomUniformLike")
def random_uniform_like(
    x: Array, *, low: float = 0.0, high: float = 1.0, dtype: int | None = None,
    seed: float | None = None, device: Device | None,
) -> Array:  # fmt: skip
    drawn = it.random.uniform(tuple(x.shape), low, high, device=device, generator=_generator(seed))
    return cast(drawn, _float(dtype, numpy_dtype(x)))


@operator("RandomNormalLike")
def random_normal_like(
    x: Array, *, mean: float = 0.0, scale: float = 1.0, dtype: int | None = None,
    seed: float | None = None, device: Device | None,
) -> Array:  # fmt: skip
    drawn = it.random.normal(tuple(x.shape), mean, scale, device=device, generator=_generator(seed))
    return cast(drawn, _float(dtype, numpy_dtype(x)))


@operator("Bernoulli")
def bernoulli(x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Array:
    """One with the probability that stands at each place."""
    drawn = it.random.uniform(x.shape, device=x.device, generator=_generator(seed))
    return cast(drawn.astype(x.dtype) < x, _float(dtype, numpy_dtype(x)))


@operator("Multinomial")
def multinomial(
    x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None
) -> Array:
    """Classes drawn by their log probabilities, by the largest of them with Gumbel's noise."""
    shape = (x.shape[0], sample_size, x.shape[1])
    drawn = it.random.uniform(shape, device=x.device, generator=_generator(seed))
    noise = -it.log(-it.log(it.maximum(drawn, 1e-20)))
    return cast(it.argmax(it.expand_dims(x, 1) + noise.astype(x.dtype), axis=-1), dtype_of(dtype))


@operator("Dropout", 12)
def dropout(
    x: Tensor, ratio: Host | None = None, training_mode: Host | None = None, *,
    seed: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """In training some elements become zero and the others larger by as much; else `x`."""
    p = 0.5 if ratio is None else float(ratio.reshape(-1)[0])
    if training_mode is None or not bool(training_mode.reshape(-1)[0]) or p == 0:
        return x, it.ones(x.shape, dtype=it.bool_, device=x.device)
    drawn = it.random.uniform(x.shape, device=x.device, generator=_generator(seed))
    kept = drawn >= p
    return it.where(kept, x / (1 - p), it.zeros_like(x)), kept


@operator("Dropout", 10)
def dropout_before_12(x: Tensor, *, ratio: float = 0.5) -> tuple[Tensor, Tensor]:
    return x, it.ones(x.shape, dtype=it.bool_, device=x.device)


@operator("Dropout", 7)
def dropout_before_10(x: Tensor, *, ratio: float = 0.5) -> tuple[Tensor, Tensor]:
    """The mask has the dtype of the data."""
    return x, it.ones_like(x)


@operator("Dropout", 1)
def dropout_before_7(
    x: Tensor, *, ratio: float = 0.5, is_test: int = 0, consumed_inputs: list[int] | None = None
) -> tuple[Tensor, Tensor]:
    """In training unless `is_test` is set."""
    if is_test:
        return dropout_before_10(x)
    y, mask = dropout(x, np.asarray(ratio), np.asarray(True))
    return y, mask.astype(x.dtype)
