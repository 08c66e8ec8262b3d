"""Holders of a buffer that may be written in place."""

from __future__ import annotations

import weakref
from typing import Any


class Owners:
    """The holders of a buffer, by weak reference: a dead one has let go.

    A buffer with this ledger may be written by a holder that is the only one. Tensors enter
    themselves, of the whole buffer or of a view; so does memory that was handed to NumPy. Whoever
    keeps a handle in another way calls `share`, and the buffer is never written again. Buffers
    without a ledger are never written at all.

    >>> from ingle.tensor.memory import Owners
    >>> class Holder: pass
    >>> owners, a, b = Owners(), Holder(), Holder()
    >>> owners.add(a); owners.add(b)
    >>> len(owners), owners.only(a)
    (2, False)
    >>> del b
    >>> owners.only(a)
    True
    """

    __slots__ = ("_held", "shared")

    def __init__(self) -> None:
        # Single dict operations: other threads and finalizers may come between any two of them.
        self._held: dict[int, Any] = {}
        self.shared = False

    def __len__(self) -> int:
        return len(self._held) + self.shared

    def add(self, holder: object) -> None:
        """Enters a holder; one that is there already counts once."""
        held, key = self._held, id(holder)
        held[key] = weakref.ref(holder, lambda _: held.pop(key, None))

    def discard(self, holder: object) -> None:
        """Takes a holder out that lives on without the buffer."""
        self._held.pop(id(holder), None)

    def share(self) -> None:
        """Enters a holder of the buffer that will not say when it lets go."""
        self.shared = True

    def only(self, holder: object) -> bool:
        """Whether this holder is there, and no other."""
        return not self.shared and len(self._held) == 1 and id(holder) in self._held
