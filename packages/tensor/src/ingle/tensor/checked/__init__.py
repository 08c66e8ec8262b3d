"""Samples and references of the public functions that have no operation of their own.

Such functions are made of operations: they need no rule and no gradient, but the testkit checks
them as it checks operations. It loads these modules; nothing else does.
"""

from . import arrangements as arrangements
from . import calibration as calibration
from . import creation as creation
from . import elimination as elimination
from . import losses as losses
from . import matrices as matrices
from . import missing as missing
from . import movement as movement
from . import numbers as numbers
from . import quantization as quantization
from . import repeats as repeats
from . import slopes as slopes
from . import systems as systems
from . import windows as windows
