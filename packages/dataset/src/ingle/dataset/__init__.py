"""Datasets, transforms and deterministic loaders, of tensors where `ingle.tensor` is. Needs NumPy
alone."""

from .arrays import ArrayDataset as ArrayDataset
from .arrays import check_labels as check_labels
from .base import Dataset as Dataset
from .base import IndexedDataset as IndexedDataset
from .base import IterableDataset as IterableDataset
from .batching import collate as collate
from .digits_source import digits as digits
from .downloads import cache_folder as cache_folder
from .downloads import download as download
from .errors import BatchError as BatchError
from .errors import DataFileError as DataFileError
from .errors import DatasetError as DatasetError
from .errors import DataValueError as DataValueError
from .errors import DownloadError as DownloadError
from .errors import EmptyDatasetError as EmptyDatasetError
from .errors import MissingDataError as MissingDataError
from .errors import MissingExtraError as MissingExtraError
from .errors import SampleError as SampleError
from .errors import SampleIndexError as SampleIndexError
from .idx import read_idx as read_idx
from .loader import Loader as Loader
from .loader import LoaderStats as LoaderStats
from .mnist_source import mnist as mnist
from .views import ConcatDataset as ConcatDataset
from .views import MapDataset as MapDataset
from .views import Subset as Subset
from .views import split as split
