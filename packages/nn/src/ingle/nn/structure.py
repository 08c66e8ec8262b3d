"""The epoch of structure, which every change of a module moves.

>>> from ingle.nn import Linear, structure
>>> layer = Linear(2, 3)
>>> before = structure.epoch()
>>> layer = layer.eval()
>>> structure.epoch() == before
False
>>> layer = layer.train()
>>> structure.epoch() == before
True
"""

from ingle.tensor.structure import Watched as Watched
from ingle.tensor.structure import assigned as assigned
from ingle.tensor.structure import attributes as attributes
from ingle.tensor.structure import changed as changed
from ingle.tensor.structure import epoch as epoch
from ingle.tensor.structure import owners as owners
