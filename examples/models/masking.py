"""Which keys a token of a padded or cached sequence sees, and at which place it stands."""

from __future__ import annotations

import ingle.tensor as it
from ingle.tensor import Device, Tensor


def positions(length: int, start: int, first: Tensor | None, device: Device) -> Tensor:
    """The places of `length` tokens behind `start` others, without the padding.

    Args:
        length, start: how many.
        first: (batch,), where each sequence begins, or None.
        device: of the tokens.

    Returns:
        (length,), or (batch, length); 0 in the padding.
    """
    here = it.arange(length, dtype="int32", device=device) + start
    if first is None:
        return here
    return it.maximum(here - it.expand_dims(first, 1), 0)


def padding_mask(
    length: int, start: int, room: int | None, first: Tensor | None, device: Device
) -> Tensor | None:
    """The true places are seen: (length, keys), or (batch, 1, length, keys) with padding.

    A token in the padding sees itself, so that nothing is a mean of no values.

    Args:
        length, start: as for `positions`.
        room: how many keys a cache has, the last ones not written yet; None without a cache.
        first, device: as for `positions`.

    Returns:
        The mask, or None where each token sees all before it and itself.
    """
    if room is None and first is None:
        return None
    here = it.expand_dims(it.arange(length, dtype="int32", device=device) + start, 1)
    there = it.arange(length if room is None else room, dtype="int32", device=device)
    seen = there <= here
    if first is None:
        return seen
    begun = there >= it.reshape(first, (-1, 1, 1, 1))
    return (seen & begun) | (there == here)
