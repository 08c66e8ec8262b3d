"""Learning rates that change: callables of the number of steps that were done.

`schedule(0)` is the rate of the first step. Give one to an optimizer as `lr=`. The formulas are
those of PyTorch's schedulers of similar names, in closed form, so that resuming needs no state.
"""

from .cycles import Composed as Composed
from .cycles import CosineAnnealing as CosineAnnealing
from .cycles import Cyclic as Cyclic
from .cycles import Factor as Factor
from .cycles import Lambda as Lambda
from .cycles import Noam as Noam
from .cycles import WarmRestarts as WarmRestarts
from .plateau import Plateau as Plateau
from .rates import Chain as Chain
from .rates import Constant as Constant
from .rates import Cosine as Cosine
from .rates import Exponential as Exponential
from .rates import Linear as Linear
from .rates import MultiStep as MultiStep
from .rates import OneCycle as OneCycle
from .rates import Polynomial as Polynomial
from .rates import Rate as Rate
from .rates import Schedule as Schedule
from .rates import Sequential as Sequential
from .rates import Step as Step
from .rates import Warmup as Warmup
from .rates import rate_at as rate_at
