"""Sequences of different lengths: padded, or packed one step after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.dispatch import Number, TensorLike
from ingle.tensor.errors import ArgumentError, IngleError, OperandError, ShapeError

Lengths = TensorLike | Sequence[int]


class PackedSequence(NamedTuple):
    """Sequences without padding: the first steps of all, then the second ones, and so on.

    Lengths belong to the shape of a program, so they are kept as numbers and not as tensors.

    Attributes:
        data: (sum of lengths, ...), the steps.
        batch_sizes: how many sequences have a first step, a second, and so on.
        sorted_indices: which sequence was put at which place, or None if they came sorted.
        unsorted_indices: the inverse of that.

    >>> import ingle.tensor as it
    >>> packed = pack_sequence([it.ones((3, 2)), it.ones((1, 2))])
    >>> packed.data.shape, packed.batch_sizes
    ((4, 2), (2, 1, 1))
    """

    data: Tensor
    batch_sizes: tuple[int, ...]
    sorted_indices: tuple[int, ...] | None = None
    unsorted_indices: tuple[int, ...] | None = None

    @property
    def lengths(self) -> np.ndarray:
        """The lengths of the sorted sequences."""
        sizes = np.asarray(self.batch_sizes)
        return np.asarray((sizes[None, :] > np.arange(sizes[0])[:, None]).sum(1))


def _places(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which steps of (longest, batch) there are, and their places in packed data."""
    there = np.arange(lengths.max(initial=0))[:, None] < lengths[None, :]
    places = np.cumsum(there.reshape(-1)).reshape(there.shape) - 1
    return there, np.where(there, places, 0)


def padded(sequence: PackedSequence) -> tuple[Tensor, Tensor]:
    """The steps as (longest, batch, ...), and (longest, batch, 1): which of them there are.

    >>> steps, there = padded(pack_sequence([it.ones((2, 3)), it.ones((1, 3))]))
    >>> steps.shape, there[..., 0].tolist()
    ((2, 2, 3), [[True, True], [True, False]])
    """
    there, places = _places(sequence.lengths)
    data = sequence.data
    steps = it.take(data, it.asarray(places.reshape(-1), device=data.device), axis=0)
    steps = it.reshape(steps, (*there.shape, *data.shape[1:]))
    return steps, it.asarray(there[..., None], device=data.device)


def packed(steps: Tensor, like: PackedSequence) -> PackedSequence:
    """The steps that `like` has, of (longest, batch, ...).

    >>> sequence = pack_sequence([it.ones((2, 3)), it.ones((1, 3))])
    >>> packed(padded(sequence)[0] * 2.0, sequence).data.tolist() == (sequence.data * 2.0).tolist()
    True
    """
    there, _ = _places(like.lengths)
    rows = it.reshape(steps, (there.size, *steps.shape[2:]))
    found = it.asarray(np.flatnonzero(there), device=steps.device)
    return like._replace(data=it.take(rows, found, axis=0))


def _values_of(name: str, lengths: Tensor) -> np.ndarray:
    try:
        return lengths.numpy()
    except IngleError as error:
        error.add_note(
            f"{name}: lengths decide the shape of the result, so that they are numbers where a "
            "function is compiled or traced; give it them as a tuple of ints, such as "
            "tuple(lengths.tolist()) outside of it, or keep the padded batch and a mask"
        )
        raise


def _as_lengths(name: str, lengths: Lengths, batch: int, longest: int) -> np.ndarray:
    if isinstance(lengths, (list, tuple)):
        found = np.asarray(lengths)
    else:
        found = _values_of(name, it.asarray(lengths))
    if found.shape != (batch,):
        raise ShapeError(
            f"{name}: lengths must be one number for each of the {batch} sequences, got shape "
            f"{found.shape}"
        )
    if found.dtype.kind not in "iu" or found.min(initial=1) < 1 or found.max(initial=1) > longest:
        raise ArgumentError(
            f"{name}: lengths must be integers from 1 to {longest}, the sequence axis of x, got "
            f"{found.tolist()}"
        )
    return found


def pack_padded_sequence(
    x: TensorLike, lengths: Lengths, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs a padded batch of sequences.

    Args:
        x: (longest, batch, ...).
        lengths: of each sequence.
        batch_first: `x` is (batch, longest, ...).
        enforce_sorted: raise if lengths do not decrease; False sorts them.

    Raises:
        ArgumentError: a length is out of range, or they are not sorted.

    >>> import ingle.tensor as it
    >>> from ingle.nn.utils.rnn import pack_padded_sequence
    >>> x = it.asarray([[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]])
    >>> packed = pack_padded_sequence(x, [3, 1], batch_first=True)
    >>> packed.data.tolist(), packed.batch_sizes
    ([1.0, 4.0, 2.0, 3.0], (2, 1, 1))
    """
    name = "pack_padded_sequence"
    steps = it.asarray(x)
    if steps.ndim < 2:
        raise ShapeError(f"{name}: x must have 2 axes or more, got shape {steps.shape}")
    steps = it.swapaxes(steps, 0, 1) if batch_first else steps
    found = _as_lengths(name, lengths, steps.shape[1], steps.shape[0])
    order: np.ndarray | None = None
    if enforce_sorted:
        if (np.diff(found) > 0).any():
            raise ArgumentError(
                f"{name}: lengths must not increase, got {found.tolist()}; pass "
                "enforce_sorted=False to sort the sequences"
            )
    else:
        order = np.argsort(-found, kind="stable")
        found = found[order]
        steps = it.take(steps, it.asarray(order, device=steps.device), axis=1)
    sizes = (np.arange(found.max(initial=0))[:, None] < found[None, :]).sum(1)
    shape = PackedSequence(
        steps, tuple(map(int, sizes)),
        None if order is None else tuple(map(int, order)),
        None if order is None else tuple(map(int, np.argsort(order))),
    )  # fmt: skip
    return packed(steps[: len(sizes)], shape)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: Number = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """A padded batch of packed sequences, and their lengths, in the order they had before.

    Args:
        sequence: of `pack_padded_sequence`, or what a recurrent layer made of it.
        batch_first: whether to return (batch, longest, ...).
        padding_value: where a sequence has ended.
        total_length: pad to this length rather than to that of the longest.

    Raises:
        OperandError: another kind of sequence.
        ArgumentError: `total_length` is less than the longest one.

    >>> import ingle.tensor as it
    >>> from ingle.nn.utils.rnn import pack_sequence, pad_packed_sequence
    >>> packed = pack_sequence([it.asarray([1.0, 2.0]), it.asarray([3.0])])
    >>> steps, lengths = pad_packed_sequence(packed, batch_first=True)
    >>> steps.tolist(), lengths.tolist()
    ([[1.0, 2.0], [3.0, 0.0]], [2, 1])
    """
    if not isinstance(sequence, PackedSequence):
        raise OperandError(
            f"pad_packed_sequence: expected a PackedSequence, got {type(sequence).__name__}"
        )
    lengths = sequence.lengths
    steps, there = padded(sequence)
    there = it.reshape(there, (*there.shape[:2], *(1,) * (steps.ndim - 2)))
    if steps.dtype.is_integer and float(padding_value.real).is_integer():
        padding_value = int(padding_value.real)
    steps = it.where(there, steps, padding_value)
    if total_length is not None:
        more = total_length - steps.shape[0]
        if more < 0:
            raise ArgumentError(
                f"pad_packed_sequence: total_length={total_length} is less than the longest "
                f"sequence, {steps.shape[0]}"
            )
        widths = ((0, more), *((0, 0),) * (steps.ndim - 1))
        steps = it.pad(steps, widths, value=padding_value)
    if sequence.unsorted_indices is not None:
        back = np.asarray(sequence.unsorted_indices)
        steps, lengths = (
            it.take(steps, it.asarray(back, device=steps.device), axis=1),
            lengths[back],
        )
    return (it.swapaxes(steps, 0, 1) if batch_first else steps), it.asarray(lengths)


def pad_sequence(
    sequences: Sequence[TensorLike],
    batch_first: bool = False,
    padding_value: Number = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences of (length, ...) as one batch, (longest, batch, ...) or with the batch first.

    Raises:
        ArgumentError: there are no sequences, or another `padding_side`.
        ShapeError: axes behind the first one differ.

    >>> import ingle.tensor as it
    >>> from ingle.nn.utils.rnn import pad_sequence
    >>> pad_sequence([it.asarray([1, 2]), it.asarray([3])], batch_first=True).tolist()
    [[1, 2], [3, 0]]
    """
    steps = [it.asarray(s) for s in sequences]
    if not steps:
        raise ArgumentError("pad_sequence: there are no sequences")
    if padding_side not in ("right", "left"):
        raise ArgumentError(
            f"pad_sequence: padding_side must be 'right' or 'left', got {padding_side!r}"
        )
    if any(s.ndim == 0 or s.shape[1:] != steps[0].shape[1:] for s in steps):
        shapes = ", ".join(str(s.shape) for s in steps)
        raise ShapeError(f"pad_sequence: all axes but the first must be the same, got {shapes}")
    longest = max(s.shape[0] for s in steps)
    if steps[0].dtype.is_integer and float(padding_value.real).is_integer():
        padding_value = int(padding_value.real)
    rows = []
    for s in steps:
        more = longest - s.shape[0]
        width = (0, more) if padding_side == "right" else (more, 0)
        rows.append(it.pad(s, (width, *((0, 0),) * (s.ndim - 1)), value=padding_value))
    return it.stack(rows, axis=0 if batch_first else 1)


def unpad_sequence(x: TensorLike, lengths: Lengths, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded batch, each of its own length.

    >>> import ingle.tensor as it
    >>> from ingle.nn.utils.rnn import unpad_sequence
    >>> [s.tolist() for s in unpad_sequence(it.asarray([[1, 2], [3, 0]]), [2, 1], True)]
    [[1, 2], [3]]
    """
    steps = it.asarray(x)
    steps = steps if batch_first else it.swapaxes(steps, 0, 1)
    found = _as_lengths("unpad_sequence", lengths, *steps.shape[:2])
    return [steps[i, : int(n)] for i, n in enumerate(found)]


def pack_sequence(sequences: Sequence[TensorLike], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences of (length, ...).

    >>> from ingle.nn.utils.rnn import pack_sequence
    >>> pack_sequence([[1, 2], [3]]).data.tolist()
    [1, 3, 2]
    """
    lengths = [it.asarray(s).shape[0] for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(sequence: PackedSequence) -> list[Tensor]:
    """The sequences that were packed, each of its own length.

    >>> from ingle.nn.utils.rnn import pack_sequence, unpack_sequence
    >>> [s.tolist() for s in unpack_sequence(pack_sequence([[1, 2], [3]]))]
    [[1, 2], [3]]
    """
    steps, lengths = pad_packed_sequence(sequence, batch_first=True)
    return unpad_sequence(steps, lengths, batch_first=True)
