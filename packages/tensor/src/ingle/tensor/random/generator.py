"""Generators of random numbers: cells that hold a key and a counter."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..cell import Cell
from ..errors import ArgumentError
from ..followed import is_followed
from ..locks import Lock, renewed
from ..ops import _rules
from ..ops.random.bits import Place
from ..transactions import commit_lock, commits, current_scope

_SAVED = "seed", "drawn"


class Generator(Cell[int]):
    """A stream of random numbers: a key, and a counter of how many blocks were drawn.

    Key and counter are in cells, so they take part in transactions (what is drawn inside one that
    is discarded is drawn again), and compiled functions go on from where they are.

    Threads may share one: no two draws get the same numbers, also where one of the two is in a
    compiled function. Transactions of two threads that overlap in time both draw from where they
    found it; give each thread a generator of its own there.

    Args:
        seed: an integer in [0, 2**64), or None for one from the operating system.

    >>> import ingle.tensor as it
    >>> g = it.random.Generator(7)
    >>> before = g.state
    >>> a = it.random.uniform(3, generator=g)
    >>> g.state = before
    >>> bool((it.random.uniform(3, generator=g) == a).all())
    True
    """

    __slots__ = ("_key", "step_lock")

    step_lock: Lock

    def __init__(self, seed: int | None = 0) -> None:
        super().__init__(0)
        self._key = Cell(0)
        self.step_lock = renewed(self, "step_lock")
        self.seed(seed)

    def seed(self, seed: int | None) -> None:
        """Starts the stream of a seed from its beginning; None takes a fresh seed."""
        if seed is None:
            seed = int.from_bytes(os.urandom(8), "little") >> 1
        self._begin(seed, 0)

    def _begin(self, seed: int, counter: int) -> None:
        number = seed if is_followed(seed) else _rules.as_int(seed, "Generator", "seed")
        if not 0 <= number < 1 << 64:
            raise ArgumentError(f"Generator: seed must be in [0, 2**64), got {number}")
        with commit_lock, self.step_lock:
            # A compiled step that has read them begins anew.
            commits.begin()
            try:
                self._key.value = number
                self.value = counter
            finally:
                commits.end()

    @property
    def state(self) -> tuple[int, int]:
        """The seed and the counter: all there is to save."""
        return self._key.raw, self.raw

    @state.setter
    def state(self, state: tuple[int, int]) -> None:
        self._begin(*state)

    def state_dict(self) -> dict[str, int]:
        """The state by name, as files of checkpoints keep it."""
        return dict(zip(_SAVED, self.state, strict=True))

    def load_state_dict(self, mapping: Mapping[str, Any], strict: bool = True) -> None:
        """Goes on from a state that `state_dict` gave.

        Args:
            mapping: the state by name.
            strict: False passes over a state that is not there, and over other names.

        Raises:
            ArgumentError: a name is missing or unexpected.
        """
        if strict and set(mapping) != set(_SAVED):
            raise ArgumentError(
                f"Generator.load_state_dict: expected {' and '.join(_SAVED)}, got "
                f"{', '.join(mapping) or 'nothing'}"
            )
        if all(name in mapping for name in _SAVED):
            self._begin(*[mapping[name] for name in _SAVED])

    def draw(self, count: int) -> Place:
        """Takes `count` blocks of the stream and returns where they begin."""
        # Not `commit_lock`, which a compiled step may hold while it runs: loaders with a generator
        # of their own go on meanwhile.
        with self.step_lock:
            scope = current_scope()
            if scope is None:
                key = self._key.raw
                # No call is between the two: a handler of signals that draws comes before or after.
                start = self._value
                self._value = start + count
                self.version += 1
            else:
                key, start = self.state
                self.value = start + count
        return Place(key, start & ((1 << 64) - 1))

    @staticmethod
    def merged(counters: Sequence[int]) -> int:
        """The counter after one of several branches that drew: beyond all that was drawn."""
        return max(counters)

    def _plain(self) -> None:
        """A generator is no number, though its counter is one."""

    def __str__(self) -> str:
        return repr(self)

    def __getstate__(self) -> tuple[int, int]:
        return self.state

    def __setstate__(self, state: tuple[int, int]) -> None:
        self.__init__(0)  # type: ignore[misc]
        self.state = state

    def __repr__(self) -> str:
        return f"Generator(seed={self._key.raw}, drawn={self.raw})"


_default = Generator(0)


def draws_from(name: str, generator: Generator | None) -> Generator:
    """The generator that was given, or the default one.

    Raises:
        ArgumentError: it is something else.
    """
    if generator is None:
        return default_generator()
    if not isinstance(generator, Generator):
        raise ArgumentError(
            f"{name}: generator must be a random.Generator, got {type(generator).__name__}; seed "
            "one with it.random.Generator(seed)"
        )
    return generator


def default_generator() -> Generator:
    """The generator that is used where none is given.

    >>> import ingle.tensor as it
    >>> it.random.seed(3)
    >>> a = it.random.uniform((2,))
    >>> it.random.seed(3)
    >>> a.tolist() == it.random.uniform((2,), generator=it.random.default_generator()).tolist()
    True
    """
    return _default


def seed(number: int | None) -> None:
    """Restarts the default generator with a seed; None takes a fresh one.

    Args:
        number: the seed, or None.

    >>> import ingle.tensor as it
    >>> it.random.seed(1)
    >>> a = it.random.normal(2)
    >>> it.random.seed(1)
    >>> bool((it.random.normal(2) == a).all())
    True
    """
    _default.seed(number)
