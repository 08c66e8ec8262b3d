"""Tensors whose axes have names: operations find axes by name, and mistakes are found by it."""

from __future__ import annotations

import string
from collections.abc import Sequence

import ingle.tensor as it


class NameMismatchError(ValueError):
    """Names of axes that do not fit."""


class Named:
    """A tensor with a name for each axis.

    Arithmetic joins axes of one name, wherever they stand, and keeps all others; so there is
    nothing to expand, transpose or squeeze beforehand. `tensor(*names)` gives the plain tensor with
    its axes in the order asked for.

    Args:
        tensor: the values.
        names: of its axes, all different, in one text: `"batch time width"`.

    >>> import ingle.tensor as it
    >>> prices = Named(it.asarray([[1.0, 2.0], [3.0, 4.0]]), "shop item")
    >>> counts = Named(it.asarray([10.0, 1.0]), "item")
    >>> prices.dot(counts, "item").tensor("shop").tolist()
    [12.0, 34.0]
    """

    def __init__(self, tensor: it.Tensor, names: str | Sequence[str]) -> None:
        self.names = tuple(names.split() if isinstance(names, str) else names)
        self.value = tensor
        if len(set(self.names)) != len(self.names) or len(self.names) != tensor.ndim:
            raise NameMismatchError(
                f"a tensor of shape {tensor.shape} needs {tensor.ndim} different names, got "
                f"{' '.join(self.names) or 'none'}"
            )

    def __repr__(self) -> str:
        sizes = (f"{n}={s}" for n, s in zip(self.names, self.value.shape, strict=True))
        return f"Named({', '.join(sizes)})"

    def size(self, name: str) -> int:
        """The length of an axis."""
        return self.value.shape[self.axis(name)]

    def axis(self, name: str) -> int:
        """Where an axis stands."""
        if name not in self.names:
            raise NameMismatchError(
                f"there is no axis {name!r} in {self!r}; rename one of these, as with "
                f"rename({self.names[0] if self.names else 'old'}={name!r})"
            )
        return self.names.index(name)

    def tensor(self, *names: str) -> it.Tensor:
        """The values, with all axes in this order."""
        if sorted(names) != sorted(self.names):
            raise NameMismatchError(f"{self!r} has other axes than {' '.join(names) or 'none'}")
        return it.permute_dims(self.value, tuple(self.axis(name) for name in names))

    def rename(self, **names: str) -> Named:
        """The same values with other names: `rename(time="key")`."""
        for name in names:
            self.axis(name)
        return Named(self.value, [names.get(name, name) for name in self.names])

    def split(self, name: str, **sizes: int) -> Named:
        """An axis as several: `split("width", head=4, part=8)`."""
        at = self.axis(name)
        shape = (*self.value.shape[:at], *sizes.values(), *self.value.shape[at + 1 :])
        return Named(
            it.reshape(self.value, shape), (*self.names[:at], *sizes, *self.names[at + 1 :])
        )

    def join(self, into: str, *names: str) -> Named:
        """Several axes as one, the last of all: `join("width", "head", "part")`."""
        others = [name for name in self.names if name not in names]
        plain = self.tensor(*others, *names)
        return Named(it.reshape(plain, (*plain.shape[: len(others)], -1)), [*others, into])

    def sum(self, name: str) -> Named:
        """The sum over an axis."""
        return self._without(it.sum(self.value, axis=self.axis(name)), name)

    def mean(self, name: str) -> Named:
        """The mean over an axis."""
        return self._without(it.mean(self.value, axis=self.axis(name)), name)

    def softmax(self, name: str) -> Named:
        """Shares along an axis."""
        return Named(it.softmax(self.value, axis=self.axis(name)), self.names)

    def dot(self, other: Named, *names: str) -> Named:
        """Products, summed over the named axes; other axes that both have are joined."""
        for name in names:
            self._same(other, name)
            other.axis(name)
        both = dict.fromkeys((*self.names, *other.names))
        letters = dict(zip(both, string.ascii_letters, strict=False))
        kept = [name for name in both if name not in names]
        first, second, result = (
            "".join(letters[n] for n in part) for part in (self.names, other.names, kept)
        )
        for name in self.names:
            self._same(other, name)
        return Named(it.einsum(f"{first},{second}->{result}", self.value, other.value), kept)

    def __add__(self, other: Named | float) -> Named:
        return self._with(other, "+")

    def __sub__(self, other: Named | float) -> Named:
        return self._with(other, "-")

    def __mul__(self, other: Named | float) -> Named:
        return self._with(other, "*")

    def __truediv__(self, other: Named | float) -> Named:
        return self._with(other, "/")

    def _with(self, other: Named | float, sign: str) -> Named:
        function = {"+": it.add, "-": it.subtract, "*": it.multiply, "/": it.divide}[sign]
        if not isinstance(other, Named):
            return Named(function(self.value, other), self.names)
        for name in self.names:
            self._same(other, name)
        both = tuple(dict.fromkeys((*self.names, *other.names)))
        return Named(function(self._spread(both), other._spread(both)), both)

    def _spread(self, names: Sequence[str]) -> it.Tensor:
        """The values with an axis for each name, of length 1 where there is none."""
        here = self.tensor(*(name for name in names if name in self.names))
        shape = [self.size(name) if name in self.names else 1 for name in names]
        return it.reshape(here, tuple(shape))

    def _without(self, value: it.Tensor, name: str) -> Named:
        return Named(value, [n for n in self.names if n != name])

    def _same(self, other: Named, name: str) -> None:
        if name in self.names and name in other.names and self.size(name) != other.size(name):
            raise NameMismatchError(
                f"axis {name!r} has length {self.size(name)} in {self!r} and {other.size(name)} in "
                f"{other!r}; if they mean different things, rename one"
            )
