"""Sequences of labels and their lengths, as losses of sequences are given them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...contract import Handle
from ...dispatch import TensorLike, handle_of, wrap
from ...dtypes import int64
from ...errors import ArgumentError, DTypeError, ShapeError
from .._checks_at_run import is_unread
from .._rules import as_int
from ..creation.ranges import arange
from ..elementwise.cast import astype
from ..elementwise.where import where
from ..indexing.gathering import take
from ..movement.shapes import reshape
from ..movement.slicing import slice_axis

if TYPE_CHECKING:
    from ...tensor import Tensor

Lengths = TensorLike | Sequence[int]


def lengths_of(
    name: str, argument: str, given: Lengths, batch: int, least: int, most: int | None
) -> list[int] | Tensor:
    """The lengths as numbers, which are checked here; as a tensor where nobody can read them.

    Args:
        name, argument: for messages.
        given: integers: (batch,), or 0-d or (1,) of one sequence.
        batch: how many there have to be.
        least, most: what a length may be; no limit is None.

    Raises:
        ShapeError: there are more or fewer of them.
        DTypeError: they are no integers.
        ArgumentError: a length is out of its limits.
    """
    if hasattr(given, "_handle") or hasattr(type(given), "__ingle_tensor__"):
        handle = handle_of(given, name, argument)
        if is_unread(handle):
            return _checked_at_run(name, argument, handle, batch, least, most)
        given = wrap(handle).tolist()
    several = list(given) if isinstance(given, (list, tuple)) else [given]
    found = [as_int(n, name, argument) for n in several]
    if len(found) != batch:
        raise ShapeError(
            f"{name}: {argument} must have one length for each of the {batch} sequences, got "
            f"{len(found)}: {given!r:.60}"
        )
    for i, n in enumerate(found):
        if n < least or (most is not None and n > most):
            limit = f"at least {least}" if most is None else f"between {least} and {most}"
            raise ArgumentError(f"{name}: {argument}[{i}] must be {limit}, got {n}")
    return found


def padded_labels(
    name: str, targets: TensorLike, target_lengths: Lengths, batch: int, single: bool
) -> tuple[Tensor, list[int] | Tensor]:
    """The labels as (batch, longest), and how many of them each sequence has.

    Args:
        name: for messages.
        targets: that, or all sequences in a row.
        target_lengths: (batch,) integers.
        batch: how many sequences there are.
        single: whether there is one, whose labels may have no axis for the batch.

    Raises:
        ShapeError, DTypeError, ArgumentError: labels or lengths are not like that.
    """
    handle = handle_of(targets, name, "targets")
    if not handle.dtype.is_integer:
        raise DTypeError(f"{name}: targets must be integers, got {handle.dtype}")
    labels = astype(wrap(handle), int64)
    rows = reshape(labels, (1, -1)) if single and labels.ndim == 1 else labels
    of_rows = rows.ndim == 2 and rows.shape[0] == batch
    most = rows.shape[1] if of_rows else None
    counts = lengths_of(name, "target_lengths", target_lengths, batch, 0, None)
    if isinstance(counts, list):
        return _padded(name, labels, counts, single), counts
    if most is None:
        raise ShapeError(
            f"{name}: where target_lengths have no values, in compile and vmap, targets must be "
            f"({batch}, longest), got shape {labels.shape}; pad them, or give the lengths as "
            "numbers"
        )
    return rows, _within(counts, 0, most)


def _padded(name: str, labels: Tensor, counts: list[int], single: bool) -> Tensor:
    longest = max(counts, default=0)
    if labels.ndim == 2 and labels.shape[0] == len(counts) and labels.shape[1] >= longest:
        return slice_axis(labels, 1, 0, longest)
    spare = labels.shape[0] - sum(counts) if labels.ndim == 1 else -1
    if spare < 0 or (spare and not single):
        raise ShapeError(
            f"{name}: for target_lengths {counts} targets must be ({len(counts)}, at least "
            f"{longest}), or all {sum(counts)} labels in a row, got shape {labels.shape}"
        )
    begins = [0, *itertools.accumulate(counts)][:-1]
    places = np.zeros((len(counts), longest), np.int64)
    for row, begin, count in zip(places, begins, counts, strict=True):
        row[:count] = np.arange(begin, begin + count)
    return take(labels, places, axis=0) if labels.shape[0] else reshape(labels, places.shape)


def _checked_at_run(
    name: str, argument: str, handle: Handle, batch: int, least: int, most: int | None
) -> Tensor:
    if not handle.dtype.is_integer:
        raise DTypeError(f"{name}: {argument} must be integers, got {handle.dtype}")
    if handle.shape != (batch,) and not (batch == 1 and handle.shape == ()):
        raise ShapeError(
            f"{name}: {argument} must have one length for each of the {batch} sequences, got "
            f"shape {handle.shape}"
        )
    lengths = reshape(astype(wrap(handle), int64), (batch,))
    return lengths if most is None else _within(lengths, least, most)


def _within(lengths: Tensor, least: int, most: int) -> Tensor:
    """The lengths, of which one out of its limits is an index out of range when they are read."""
    allowed = arange(most + 1, device=lengths.device)
    return take(allowed, where(lengths < least, most + 1, lengths), axis=0)
