"""What a dataset is: something with a length whose samples are reached by index."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import DataValueError, SampleIndexError

if TYPE_CHECKING:
    from .transforms import CachedDataset, FilterDataset, WindowDataset
    from .views import ConcatDataset, MapDataset, Subset

T = TypeVar("T")
U = TypeVar("U")
F = TypeVar("F", bound=Callable[..., Any])
T_co = TypeVar("T_co", covariant=True)
Indices = NDArray[np.int64]


@runtime_checkable
class Dataset(Protocol[T_co]):
    """Anything with `len(dataset)` and `dataset[i]`: a list will do.

    A dataset may also have `take(indices)`, which returns a whole batch at once; loaders then call
    it in place of one `dataset[i]` after the other. PyTorch's `__getitems__(indices)`, which
    returns a list of samples, will do too.

    >>> from ingle.dataset import Dataset, Loader
    >>> class Squares:
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, index):
    ...         return float(index * index)
    >>> data: Dataset = Squares()
    >>> [batch.tolist() for batch in Loader(data, 2)]
    [[0.0, 1.0], [4.0, 9.0]]
    """

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> T_co: ...


@runtime_checkable
class IterableDataset(Protocol[T_co]):
    """Samples in one fixed order, of a number that need not be known: a stream, a generator.

    Each `iter(dataset)` must begin again from the first sample; loaders go through it once an
    epoch, and skip what they have seen when training resumes.

    >>> from ingle.dataset import IterableDataset, Loader
    >>> class Counted:
    ...     def __iter__(self):
    ...         return iter([0.0, 1.0, 2.0])
    >>> data: IterableDataset = Counted()
    >>> [batch.tolist() for batch in Loader(data, 2)]
    [[0.0, 1.0], [2.0]]
    """

    def __iter__(self) -> Iterator[T_co]: ...


class IndexedDataset(Generic[T]):
    """Base class that gives a dataset `map`, `filter`, `shuffle` and the like, and `+`.

    Each returns a new dataset over this one and makes no sample before it is asked for.

    >>> from ingle.dataset import ArrayDataset
    >>> import numpy as np
    >>> squares = ArrayDataset(np.arange(4)).map(lambda x: x * x)
    >>> [int(x) for x in squares]
    [0, 1, 4, 9]
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int, /) -> T: ...

    def __iter__(self) -> Iterator[T]:
        for i in range(len(self)):
            yield self[i]

    def map(self, function: Callable[[T], U]) -> MapDataset[U]:
        """The dataset of `function(sample)`, computed each time a sample is asked for."""
        from .views import MapDataset

        return MapDataset(self, function)

    def filter(self, predicate: Callable[[T], object]) -> FilterDataset[T]:
        """The dataset of the samples for which `predicate(sample)` is true."""
        from .transforms import FilterDataset

        return FilterDataset(self, predicate)

    def shuffle(self, seed: int = 0) -> Subset[T]:
        """The samples in one random order, the same for the same seed on every machine.

        A `Loader` with `shuffle=True` draws another order each epoch.

        >>> from ingle.dataset import MemoryDataset
        >>> sorted(MemoryDataset("abc").shuffle(seed=3))
        ['a', 'b', 'c']
        """
        from .ordering import as_seed, shuffled
        from .views import Subset

        return Subset(self, shuffled(len(self), as_seed(seed, "shuffle")))

    def windows(self, size: int, stride: int = 1) -> WindowDataset:
        """The dataset of runs of `size` consecutive samples, `stride` apart, each as one batch."""
        from .transforms import WindowDataset

        return WindowDataset(self, size, stride)

    def sample(
        self,
        count: int,
        *,
        weights: ArrayLike | None = None,
        replacement: bool = True,
        seed: int = 0,
    ) -> Subset[T]:
        """A random choice of `count` samples, the same for the same seed on every machine.

        Args:
            count: how many to draw; without replacement at most as many as have a weight.
            weights: one for each sample, in any scale; all the same if not given.
            replacement: whether a sample may be drawn more than once.
            seed: which of the random choices.

        Raises:
            DataValueError: weights that do not fit the samples, or too few samples.

        >>> from ingle.dataset import MemoryDataset
        >>> list(MemoryDataset("abc").sample(4, weights=[0, 1, 0]))
        ['b', 'b', 'b', 'b']
        """
        from .sampling import drawn
        from .views import Subset

        given = np.ones(len(self)) if weights is None else weights
        return Subset(self, drawn(given, len(self), count, seed, replacement=replacement))

    def cache(self, most: int | None = None) -> CachedDataset[T]:
        """The dataset that keeps its samples, the first `most` asked for, once they are made."""
        from .transforms import CachedDataset

        return CachedDataset(self, most)

    def subset(self, indices: Sequence[int] | NDArray[Any]) -> Subset[T]:
        """The dataset of the samples at `indices`, in that order."""
        from .views import Subset

        return Subset(self, indices)

    def split(self, *sizes: float, seed: int = 0) -> list[Subset[T]]:
        """Disjoint random subsets; see `ingle.dataset.split`."""
        from .views import split

        return split(self, *sizes, seed=seed)

    def __add__(self, other: Dataset[T]) -> ConcatDataset[T]:
        from .views import ConcatDataset

        return ConcatDataset(self, other)


def checked_function(who: str, function: F) -> F:
    """The function; raises `DataValueError` at once for what no sample could be given to."""
    if not callable(function):
        raise DataValueError(f"{who}: expected a function of a sample, got {function!r:.80}")
    return function


def position(index: Any, length: int, owner: object) -> int:
    """An index, perhaps negative, as a position in [0, length)."""
    name = type(owner).__name__
    try:
        number = operator.index(index)
    except TypeError:
        raise SampleIndexError(
            f"{name}: a sample is reached by an integer, got {type(index).__name__}; "
            "for several samples use dataset.subset(indices)"
        ) from None
    if not -length <= number < length:
        have = f"{length} samples, 0 to {length - 1}" if length else "no samples"
        raise SampleIndexError(f"{name}: index {number} is out of range; there are {have}")
    return number % length


def positions(indices: Any, length: int, owner: object) -> Indices:
    """Several indices as an array of positions in [0, length)."""
    name = type(owner).__name__
    found = np.asarray(indices)
    if found.size == 0:
        found = found.astype(np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise SampleIndexError(
            f"{name}: indices must be one row of integers, got {found.dtype} of shape "
            f"{found.shape}"
            + ("; turn a mask into indices with np.flatnonzero(mask)" * (found.dtype == bool))
        )
    wrong = np.flatnonzero((found < -length) | (found >= length))
    if wrong.size:
        position(int(found[wrong[0]]), length, owner)
    return found.astype(np.int64) % max(length, 1)
