"""Learning rates that change: callables of the number of steps that were done.

`schedule(0)` is the rate of the first step. Give one to an optimizer as `lr=`. The formulas are
those of PyTorch's schedulers of similar names, in closed form, so that resuming needs no state.
"""

from typing import TYPE_CHECKING

from ingle.tensor.late_names import late_names as _late_names

if TYPE_CHECKING:
    from .names import *
else:
    _late_names(__name__)
