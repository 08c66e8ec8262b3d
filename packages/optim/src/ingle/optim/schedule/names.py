"""Every name that `ingle.optim.schedule` exports, one explicit line each."""

from .cycles import Composed as Composed
from .cycles import CosineAnnealing as CosineAnnealing
from .cycles import Cyclic as Cyclic
from .cycles import Factor as Factor
from .cycles import Lambda as Lambda
from .cycles import Noam as Noam
from .cycles import WarmRestarts as WarmRestarts
from .plateau import Plateau as Plateau
from .rate import Rate as Rate
from .rate import Schedule as Schedule
from .rate import rate_at as rate_at
from .rates import Chain as Chain
from .rates import Constant as Constant
from .rates import Cosine as Cosine
from .rates import Exponential as Exponential
from .rates import Linear as Linear
from .rates import MultiStep as MultiStep
from .rates import OneCycle as OneCycle
from .rates import Polynomial as Polynomial
from .rates import Sequential as Sequential
from .rates import Step as Step
from .rates import Warmup as Warmup
