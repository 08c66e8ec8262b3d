"""Calls that `bench/operations.py` times on Ingle beside PyTorch, by family."""

from .arrays import ARRAYS as ARRAYS
from .case import Case as Case
from .elementwise import ELEMENTWISE as ELEMENTWISE
from .networks import NETWORKS as NETWORKS
from .numerics import NUMERICS as NUMERICS
from .vision import VISION as VISION

ALL: tuple[Case, ...] = (*ELEMENTWISE, *ARRAYS, *NETWORKS, *VISION, *NUMERICS)
