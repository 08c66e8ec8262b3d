"""A dashboard for trainings in the terminal, live and afterwards."""

from typing import TYPE_CHECKING

from ingle.tensor.late_names import late_names as _late_names

if TYPE_CHECKING:
    from .names import *
else:
    _late_names(__name__)
