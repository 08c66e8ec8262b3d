"""Tensors whose axes have names: operations find axes by name, whatever their order.

Two tensors meet along the axes that they share by name; an axis that only one has is broadcast.
What does not fit is an error where it happens, in terms of the names. `x.tensor` is the plain
tensor, for everything else.

>>> import ingle.tensor as it
>>> from ingle.tensor import named
>>> images = named.named(it.ones((2, 3, 4)), "batch channel pixel")
>>> weights = named.named(it.asarray([1.0, 2.0, 3.0]), "channel")
>>> (images * weights).sum("channel")
named(batch=2, pixel=4, dtype=float32, device=cpu)
"""

from .functions import concat as concat
from .functions import dot as dot
from .functions import stack as stack
from .tensor import NamedTensor as NamedTensor
from .tensor import Names as Names
from .tensor import apply as apply
from .tensor import named as named
