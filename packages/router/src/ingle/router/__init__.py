"""Several devices as one backend: each is addressed, and one program uses all of them."""

from .counting import MoveCount as MoveCount
from .counting import Report as Report
from .data_parallel import data_parallel as data_parallel
from .member import RouterWarning as RouterWarning
from .router import Router as Router
