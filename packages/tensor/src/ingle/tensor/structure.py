"""The epoch of structure: one number that says whether any module has changed since.

Recordings that were made of a module (plans of `compile`) hold while this number stays, so that
a replay checks one integer. Assigning or deleting any attribute of any module, train/eval,
freezing, and changing a container move it: a plain attribute counts too, since a layer's `eps` is
a constant of what was recorded. Values of cells do not count.
"""

from __future__ import annotations

import itertools

_next = itertools.count(1).__next__
_epoch = 0


def epoch() -> int:
    """The number now; two equal answers mean that no module changed in between."""
    return _epoch


def changed() -> None:
    """Moves the epoch; for classes that keep modules outside of attributes."""
    global _epoch
    _epoch = _next()
