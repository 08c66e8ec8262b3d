"""The exceptions of `ingle.dataset`. Each derives from the built-in that a caller would catch."""


class DatasetError(Exception):
    """Base of everything that `ingle.dataset` raises on purpose.

    >>> from ingle.dataset import ArrayDataset, DatasetError
    >>> try:
    ...     ArrayDataset([1.0])[3]
    ... except DatasetError as error:
    ...     print(error)
    ArrayDataset: index 3 is out of range; there are 1 samples, 0 to 0
    """


class EmptyDatasetError(DatasetError, ValueError):
    """There is no sample, or not one full batch, to go through.

    >>> from ingle.dataset import Loader
    >>> list(Loader([], 2))
    Traceback (most recent call last):
    ...
    ingle.dataset.errors.EmptyDatasetError: Loader: the dataset (list) has no samples; ...
    """


class DataValueError(DatasetError, ValueError):
    """Arrays, labels or arguments do not fit each other.

    >>> from ingle.dataset import ArrayDataset
    >>> ArrayDataset([1.0, 2.0, 3.0], [0, 1])
    Traceback (most recent call last):
    ...
    ingle.dataset.errors.DataValueError: ArrayDataset: the arrays differ in their ...
    """


class SampleIndexError(DatasetError, IndexError):
    """An index points outside of the dataset.

    >>> from ingle.dataset import ArrayDataset
    >>> ArrayDataset([1.0, 2.0])[5]
    Traceback (most recent call last):
    ...
    ingle.dataset.errors.SampleIndexError: ArrayDataset: index 5 is out of range; there are 2 ...
    """


class SampleError(DatasetError, RuntimeError):
    """A sample could not be made. `index` is its position in the dataset that failed.

    >>> from ingle.dataset import Loader, MemoryDataset, SampleError
    >>> try:
    ...     list(Loader(MemoryDataset([1, 0]).map(lambda x: 1 // x), 2))
    ... except SampleError as error:
    ...     print(error.index)
    1
    """

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


class BatchError(DatasetError, RuntimeError):
    """A batch could not be put together or transformed.

    >>> from ingle.dataset import Loader
    >>> list(Loader([1.0, 2.0], 2, transform=lambda batch: batch / batch.nothing))
    Traceback (most recent call last):
    ...
    ingle.dataset.errors.BatchError: Loader: batch 0 of epoch 0 could not be transformed: ...
    """


class DataFileError(DatasetError, ValueError):
    """A data file is truncated, corrupt, or of another format.

    >>> import pathlib, tempfile
    >>> from ingle.dataset import DataFileError, read_idx
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "images"
    >>> _ = path.write_bytes(b"no images")
    >>> try:
    ...     read_idx(path)
    ... except DataFileError as error:
    ...     print("images" in str(error))
    True
    """


class MissingDataError(DatasetError, FileNotFoundError):
    """A data file is not where it was looked for.

    >>> from ingle.dataset import TextLines
    >>> TextLines("nothing.txt")
    Traceback (most recent call last):
    ...
    ingle.dataset.errors.MissingDataError: nothing.txt: there is no such file
    """


class DownloadError(DatasetError, OSError):
    """No mirror delivered a file.

    >>> import tempfile
    >>> from ingle.dataset import DownloadError, download
    >>> try:
    ...     download(["http://127.0.0.1:9/x"], tempfile.mkdtemp() + "/x", sha256="0" * 64)
    ... except DownloadError as error:
    ...     print(str(error).splitlines()[0])
    no mirror delivered x:
    """


class MissingExtraError(DatasetError, ImportError):
    """An optional package is needed; the message names the extra that brings it.

    >>> from ingle.dataset import MissingExtraError, digits
    >>> try:
    ...     pictures = digits("train")
    ... except MissingExtraError as error:
    ...     print(error)  # pip install "ingle-dataset[digits]"
    """
