"""Masks of attention: bools or floats, and nothing that could be taken for either."""

from __future__ import annotations

from .dtypes import DType
from .errors import DTypeError


def check_mask(who: str, argument: str, dtype: DType, true: str) -> None:
    """Raises for a mask of integers: tokenizers give 0 and 1, which would be added to the scores.

    Args:
        who: the function or layer.
        argument: of it.
        dtype: of the mask.
        true: what becomes of a place where a mask of bools is true.

    Raises:
        DTypeError: the mask has neither bools nor floats.

    >>> import ingle.tensor as it
    >>> from ingle.tensor.masks import check_mask
    >>> check_mask("attention", "mask", it.bool_, "takes part")
    """
    if dtype.kind != "bool" and not dtype.is_floating:
        raise DTypeError(
            f"{who}: {argument} must be bools, where a true place {true}, or floats, which are "
            f"added to the scores, got {dtype}; compare it first: {argument} != 0 or == 0, or cast "
            "what is to be added to a float dtype"
        )
