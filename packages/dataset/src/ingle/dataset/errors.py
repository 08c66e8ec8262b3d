"""The exceptions of `ingle.dataset`. Each derives from the built-in that a caller would catch."""


class DatasetError(Exception):
    """Base of everything that `ingle.dataset` raises on purpose."""


class EmptyDatasetError(DatasetError, ValueError):
    """There is no sample, or not one full batch, to go through."""


class DataValueError(DatasetError, ValueError):
    """Arrays, labels or arguments do not fit each other."""


class SampleIndexError(DatasetError, IndexError):
    """An index points outside of the dataset."""


class SampleError(DatasetError, RuntimeError):
    """A sample could not be made. `index` is its position in the dataset that failed."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


class BatchError(DatasetError, RuntimeError):
    """A batch could not be put together or transformed."""


class DataFileError(DatasetError, ValueError):
    """A data file is truncated, corrupt, or of another format."""


class MissingDataError(DatasetError, FileNotFoundError):
    """A data file is not where it was looked for."""


class DownloadError(DatasetError, OSError):
    """No mirror delivered a file."""


class MissingExtraError(DatasetError, ImportError):
    """An optional package is needed; the message names the extra that brings it."""
