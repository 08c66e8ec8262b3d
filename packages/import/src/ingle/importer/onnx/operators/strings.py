"""Strings, which live on the host."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import product

import numpy as np

from ...errors import ModelError
from ..registry import operator
from ..values import STRINGS, Host


def _each(function: Callable[..., object], dtype: object, *arrays: np.ndarray) -> np.ndarray:
    spread = np.broadcast_arrays(*arrays)
    result: np.ndarray = np.empty(spread[0].shape, dtype)  # type: ignore[call-overload]
    for place in product(*map(range, result.shape)):
        result[place] = function(*(a[place] for a in spread))
    return result


@operator("StringConcat")
def string_concat(x: Host, y: Host) -> Host:
    return _each(lambda a, b: a + b, STRINGS, x, y)


@operator("RegexFullMatch")
def regex_full_match(x: Host, *, pattern: str) -> Host:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ModelError(f"RegexFullMatch: the pattern {pattern!r} is wrong: {error}") from error
    return _each(lambda text: compiled.fullmatch(text) is not None, np.bool_, x)


@operator("StringSplit")
def string_split(x: Host, *, delimiter: str = "", maxsplit: int | None = None) -> tuple[Host, Host]:
    """The parts of each string, padded with empty ones, and how many there are."""
    most = -1 if maxsplit is None else maxsplit
    parts = [t.split(delimiter or None, most) for t in x.reshape(-1)]
    width = max(map(len, parts), default=0)
    filled = np.full((len(parts), width), "", STRINGS)
    for row, found in zip(filled, parts, strict=True):
        row[: len(found)] = found
    counts = np.asarray([len(p) for p in parts], np.int64)
    return filled.reshape(*x.shape, width), counts.reshape(x.shape)


@operator("StringNormalizer")
def string_normalizer(
    x: Host, *, case_change_action: str = "NONE", is_case_sensitive: int = 0, locale: str = "",
    stopwords: list[str] | None = None,
) -> Host:  # fmt: skip
    """Strings in one case without those that are listed."""
    change: dict[str, Callable[[str], str]] = {
        "UPPER": str.upper, "LOWER": str.lower, "NONE": str,
    }  # fmt: skip
    if case_change_action not in change:
        raise ModelError(f"StringNormalizer: case_change_action is {case_change_action!r}")
    same: Callable[[str], str] = str if is_case_sensitive else str.lower
    stop = {same(w) for w in stopwords or ()}
    rows = [
        [change[case_change_action](t) for t in row if same(t) not in stop]
        for row in x.reshape(-1, x.shape[-1])
    ]
    rows = [row or [""] for row in rows]
    return np.asarray(rows, STRINGS).reshape(*x.shape[:-1], len(rows[0]))


@operator("TfIdfVectorizer")
def tf_idf_vectorizer(
    x: Host, *, max_gram_length: int, max_skip_count: int, min_gram_length: int, mode: str,
    ngram_counts: list[int], ngram_indexes: list[int], pool_int64s: list[int] | None = None,
    pool_strings: list[str] | None = None, weights: list[float] | None = None,
) -> Host:  # fmt: skip
    """How often each n-gram of a pool occurs in each row, with words left out between its own.

    The counts are as they are (`TF`), one where there is any (`IDF`), each times its weight.
    """
    pool: list[object] = list(pool_strings if pool_int64s is None else pool_int64s)  # type: ignore[arg-type]
    place: dict[tuple[object, ...], int] = {}
    ends = [*ngram_counts[1:], len(pool)]
    at = 0
    for n, (start, end) in enumerate(zip(ngram_counts, ends, strict=True), 1):
        for first in range(start, end, n):
            place[tuple(pool[first : first + n])] = ngram_indexes[at]
            at += 1
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    result = np.zeros((len(rows), max(ngram_indexes) + 1), np.float32)
    for row, counted in zip(rows.tolist(), result, strict=True):
        found: Counter[int] = Counter()
        for n in range(min_gram_length, max_gram_length + 1):
            for skip in range(1, max_skip_count + 2 if n > 1 else 2):
                for first in range(len(row) - (n - 1) * skip):
                    gram = tuple(row[first : first + (n - 1) * skip + 1 : skip])
                    if gram in place:
                        found[place[gram]] += 1
        for index, count in found.items():
            counted[index] = count
    weight = dict.fromkeys(ngram_indexes, 1.0)
    if weights is not None:
        weight = dict(zip(ngram_indexes, weights, strict=True))
    if mode != "TF":
        factor = np.asarray([weight.get(i, 1.0) for i in range(result.shape[1])], np.float32)
        result = (result if mode == "TFIDF" else (result > 0).astype(np.float32)) * factor
    return result.reshape(-1) if x.ndim < 2 else result
