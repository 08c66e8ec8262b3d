"""Items of sequences by their numbers, many of them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any


def picked(numbers: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """What takes the items of these numbers from a sequence, as a tuple.

    >>> from ingle.fusion.support.picked import picked
    >>> picked([2, 0])("abc"), picked([1])("abc"), picked([])("abc")
    (('c', 'a'), ('b',), ())
    """
    if len(numbers) > 1:
        return itemgetter(*numbers)
    return lambda items: tuple([items[n] for n in numbers])
