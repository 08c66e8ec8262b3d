"""`torch.nn.functional` by its name, for programs that are moved over: `ingle.tensor` once more.

>>> import ingle.nn.functional as F
>>> import ingle.tensor as it
>>> F.relu is it.relu
True
"""

from typing import TYPE_CHECKING

import ingle.tensor

if TYPE_CHECKING:
    from ingle.tensor import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        return getattr(ingle.tensor, name)
