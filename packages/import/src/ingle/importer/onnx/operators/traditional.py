"""Operators of ai.onnx.ml for tables: encoders, scalers, linear models."""

from __future__ import annotations

from typing import Any

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor

from ...errors import ModelError
from ..registry import operator
from ..values import STRINGS, Array, Host, Value, host, is_string, namespace

ML = "ai.onnx.ml"


@operator("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(x: Array, places: Host) -> Array:
    """The columns at these places."""
    flat = places.reshape(-1)
    if isinstance(x, np.ndarray):
        return np.take(x, flat, axis=-1)
    x = it.reshape(x, (1, -1)) if x.ndim == 1 else x
    return it.take(x, it.asarray(flat, device=x.device), axis=-1)


@operator("Binarizer", domain=ML)
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    return (x > threshold).astype(x.dtype)


@operator("Scaler", domain=ML)
def scaler(x: Tensor, *, offset: list[float], scale: list[float]) -> Tensor:
    wide = x if x.dtype.is_floating else x.astype(it.float32)
    a, b = (it.asarray(np.asarray(v), dtype=wide.dtype, device=x.device) for v in (offset, scale))
    return ((wide - a) * b).astype(it.float32)


@operator("Normalizer", domain=ML)
def normalizer(x: Tensor, *, norm: str = "MAX") -> Tensor:
    """Each row divided by its largest, its sum of sizes, or its length."""
    wide = x.astype(it.float32)
    if norm == "MAX":
        by = it.max(wide, axis=-1, keepdims=True)
    elif norm == "L1":
        by = it.sum(it.abs(wide), axis=-1, keepdims=True)
    elif norm == "L2":
        by = it.sqrt(it.sum(wide * wide, axis=-1, keepdims=True))
    else:
        raise ModelError(f"Normalizer: norm must be MAX, L1 or L2, got {norm!r}")
    return it.where(by == 0, wide, wide / it.where(by == 0, it.ones_like(by), by))


@operator("Imputer", domain=ML)
def imputer(
    x: Tensor, *, imputed_value_floats: list[float] | None = None,
    imputed_value_int64s: list[int] | None = None, replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Tensor:  # fmt: skip
    """One value, often NaN, replaced by one for each column."""
    if imputed_value_floats is not None:
        missing = it.isnan(x) if np.isnan(replaced_value_float) else x == replaced_value_float
        values = np.asarray(imputed_value_floats)
    else:
        missing, values = x == replaced_value_int64, np.asarray(imputed_value_int64s)
    return it.where(missing, it.asarray(values, dtype=x.dtype, device=x.device), x)


@operator("FeatureVectorizer", domain=ML)
def feature_vectorizer(*xs: Tensor, inputdimensions: list[int]) -> Tensor:
    rows = [x if x.ndim == 2 else it.reshape(x, (1, -1)) for x in xs]
    cut = [x[:, :n] for x, n in zip(rows, inputdimensions, strict=True)]
    return it.concat([x.astype(it.float32) for x in cut], axis=1)


@operator("OneHotEncoder", domain=ML)
def one_hot_encoder(
    x: Value, *, cats_int64s: list[int] | None = None, cats_strings: list[str] | None = None,
    zeros: int = 1,
) -> Array:  # fmt: skip
    """A one at the category of each element."""
    found = host(x)
    cats = np.asarray(cats_strings if is_string(found) else cats_int64s)
    if not is_string(found):
        found = found.astype(np.int64)
    hit = np.equal(found[..., None], cats)
    if not zeros and not hit.any(-1).all():
        raise ModelError("OneHotEncoder: a value is none of the categories")
    return hit.astype(np.float32)


@operator("LabelEncoder", 1, domain=ML)
def label_encoder(
    x: Value, *, classes_strings: list[str] | None = None, default_float: float = -0.0,
    default_int64: int = -1, default_string: str = "_Unused", default_tensor: Host | None = None,
    keys_floats: list[float] | None = None, keys_int64s: list[int] | None = None,
    keys_strings: list[str] | None = None, keys_tensor: Host | None = None,
    values_floats: list[float] | None = None, values_int64s: list[int] | None = None,
    values_strings: list[str] | None = None, values_tensor: Host | None = None,
) -> Host:  # fmt: skip
    """Each element replaced by the value of the same key; NaN is a key too."""
    array = host(x)
    if classes_strings is not None:
        keys: list[Any] = list(classes_strings)
        values: list[Any] = list(range(len(keys)))
        if not is_string(array):
            keys, values = values, keys
        default, dtype = (
            (default_int64, np.dtype(np.int64)) if is_string(array) else (default_string, STRINGS)
        )
    else:
        keys = next((list(k) for k in (keys_floats, keys_int64s, keys_strings) if k), [])
        keys = keys_tensor.reshape(-1).tolist() if keys_tensor is not None else keys
        values, default, dtype = _targets(
            values_floats, values_int64s, values_strings, values_tensor, default_float,
            default_int64, default_string, default_tensor,
        )  # fmt: skip
    table = {k: v for k, v in zip(keys, values, strict=True) if k == k}
    nan = next((v for k, v in zip(keys, values, strict=True) if k != k), default)
    found = [nan if k != k else table.get(k, default) for k in array.reshape(-1).tolist()]
    result = np.empty(len(found), dtype)
    result[:] = found
    return result.reshape(array.shape)


def _targets(
    floats: list[float] | None, integers: list[int] | None, strings: list[str] | None,
    tensor: Host | None, default_float: float, default_int64: int, default_string: str,
    default_tensor: Host | None,
) -> tuple[list[Any], Any, np.dtype]:  # fmt: skip
    if tensor is not None:
        default = (
            tensor.dtype.type(-1 if tensor.dtype.kind in "iu" else 0)
            if tensor.dtype.kind != "O"
            else "_Unused"
        )
        if default_tensor is not None:
            default = default_tensor.reshape(-1)[0]
        return tensor.reshape(-1).tolist(), default, tensor.dtype
    if floats is not None:
        return list(floats), default_float, np.dtype(np.float32)
    if integers is not None:
        return list(integers), default_int64, np.dtype(np.int64)
    return list(strings or []), default_string, STRINGS


@operator("CategoryMapper", domain=ML)
def category_mapper(
    x: Value, *, cats_int64s: list[int], cats_strings: list[str], default_int64: int = -1,
    default_string: str = "_Unused",
) -> Host:  # fmt: skip
    if is_string(x):
        return label_encoder(
            x, keys_strings=cats_strings, values_int64s=cats_int64s, default_int64=default_int64
        )
    return label_encoder(
        x, keys_int64s=cats_int64s, values_strings=cats_strings, default_string=default_string
    )


@operator("DictVectorizer", domain=ML)
def dict_vectorizer(
    x: Value, *, int64_vocabulary: list[int] | None = None,
    string_vocabulary: list[str] | None = None,
) -> Array:  # fmt: skip
    words: list[Any] = list(string_vocabulary or int64_vocabulary or [])
    rows = x if isinstance(x, list) else [x]
    return np.asarray([[row.get(w, 0) for w in words] for row in rows])


@operator("CastMap", domain=ML)
def cast_map(
    x: Value, *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1
) -> Array:
    """The values of a map in the order of its keys, as a row."""
    kinds: dict[str, np.dtype] = {
        "TO_FLOAT": np.dtype(np.float32),
        "TO_INT64": np.dtype(np.int64),
        "TO_STRING": STRINGS,
    }
    dtype = kinds[cast_to]
    if map_form == "DENSE":
        return np.asarray([[x[k] for k in sorted(x)]]).astype(dtype)
    row = np.zeros((1, max_map), dtype)
    for key, value in x.items():
        if 0 <= key < max_map:
            row[0, key] = value
    return row


@operator("ZipMap", domain=ML)
def zip_map(
    x: Value, *, classlabels_int64s: list[int] | None = None,
    classlabels_strings: list[str] | None = None,
) -> list[dict[Any, float]]:  # fmt: skip
    """A map of class to score for each row."""
    labels: list[Any] = list(classlabels_strings or classlabels_int64s or [])
    rows = np.atleast_2d(host(x)).tolist()
    return [dict(zip(labels, row, strict=True)) for row in rows]


def transformed(scores: Array, how: str) -> Array:
    """Scores as the operators of this domain hand them out."""
    xp = namespace(scores)
    if how == "LOGISTIC":
        return 1 / (1 + xp.exp(-scores))
    if how in ("SOFTMAX", "SOFTMAX_ZERO"):
        powers = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        if how == "SOFTMAX_ZERO":
            powers = xp.where(scores == 0, scores, powers)
        return powers / xp.sum(powers, axis=-1, keepdims=True)
    if how == "PROBIT":
        y = it.inverse_normal(scores if isinstance(scores, Tensor) else it.asarray(scores))
        return y if isinstance(scores, Tensor) else host(y)
    if how != "NONE":
        raise ModelError(f"post_transform {how!r} is none of ONNX's")
    return scores


@operator("LinearRegressor", domain=ML)
def linear_regressor(
    x: Tensor, *, coefficients: list[float], intercepts: list[float] | None = None,
    post_transform: str = "NONE", targets: int = 1,
) -> Array:  # fmt: skip
    weight = np.asarray(coefficients, np.float32).reshape(targets, -1)
    y = it.matmul(x.astype(it.float32), it.asarray(weight.T, device=x.device))
    if intercepts is not None:
        y = y + it.asarray(np.asarray(intercepts, np.float32), device=x.device)
    return transformed(y, post_transform)


@operator("LinearClassifier", domain=ML)
def linear_classifier(
    x: Tensor, *, coefficients: list[float], classlabels_ints: list[int] | None = None,
    classlabels_strings: list[str] | None = None, intercepts: list[float] | None = None,
    multi_class: int = 0, post_transform: str = "NONE",
) -> Array:  # fmt: skip
    """The best class of each row, and the scores of all."""
    labels: list[Any] = list(classlabels_strings or classlabels_ints or [0, 1])
    rows = len(intercepts) if intercepts else len(coefficients) // x.shape[-1]
    scores = linear_regressor(x, coefficients=coefficients, intercepts=intercepts, targets=rows)
    if rows == 1 and len(labels) == 2:
        best = (scores[:, 0] > (0.5 if post_transform == "NONE" else 0)).astype(it.int64)
        done = transformed(scores, post_transform)
        other = 1 - done if post_transform == "LOGISTIC" else -done
        return labelled(best, labels), it.concat([other, done], axis=1)
    best = it.argmax(scores, axis=-1)
    return labelled(best, labels), transformed(scores, post_transform)


def labelled(best: Array, labels: list[Any]) -> Value:
    """The labels at these places: a tensor if they are numbers, else strings of the host."""
    if labels and isinstance(labels[0], str):
        return np.asarray(labels, STRINGS)[host(best)]
    table = np.asarray(labels, np.int64)
    if isinstance(best, np.ndarray):
        return table[best]
    return it.take(it.asarray(table, device=best.device), best, axis=0)


def _kernel(x: np.ndarray, v: np.ndarray, kind: str, parameters: list[float]) -> Array:
    gamma, coefficient, degree = (*parameters, 0.0, 0.0, 0.0)[:3]
    if kind == "LINEAR":
        return x @ v.T
    if kind == "POLY":
        return (gamma * (x @ v.T) + coefficient) ** degree
    if kind == "RBF":
        return np.exp(-gamma * ((x[:, None] - v[None]) ** 2).sum(-1))
    if kind == "SIGMOID":
        return np.tanh(gamma * (x @ v.T) + coefficient)
    raise ModelError(f"the kernel {kind!r} is none of ONNX's")


@operator("SVMRegressor", domain=ML)
def svm_regressor(
    x: Host, *, coefficients: list[float], kernel_params: list[float] | None = None,
    kernel_type: str = "LINEAR", n_supports: int = 0, one_class: int = 0,
    post_transform: str = "NONE", rho: list[float], support_vectors: list[float] | None = None,
) -> Host:  # fmt: skip
    weights = np.asarray(coefficients)
    if n_supports:
        vectors = np.asarray(support_vectors).reshape(n_supports, -1)
        scores = _kernel(x.astype(np.float64), vectors, kernel_type, kernel_params or []) @ weights
    else:
        scores = x.astype(np.float64) @ weights
    scores = (scores + rho[0])[:, None]
    if one_class:
        scores = np.where(scores > 0, 1.0, -1.0)
    return np.asarray(transformed(scores, post_transform)).astype(np.float32)
