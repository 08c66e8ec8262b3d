"""Whether this process is a forked child, in which CUDA cannot be used."""

from __future__ import annotations

import os


class _Forks:
    """Attributes:
    count: how many forks lie between the process that imported this and this one.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> None:
        """One more; in the child."""
        self.count += 1


forks = _Forks()
"""Asked at each use of a GPU, for which the number of the process would take the system a
microsecond or two."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forks.add)
