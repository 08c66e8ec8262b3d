"""Random tensors: generators that are cells, and distributions that draw from them.

The numbers depend on the generator's seed and on how much was drawn before, never on the backend.
A process starts with seed 0, so that a run repeats until it asks for something else.
"""

from ..habits import install as _install_habits
from . import other_names as _other_names
from .basic import bernoulli as bernoulli
from .basic import normal as normal
from .basic import permutation as permutation
from .basic import rand_like as rand_like
from .basic import randint as randint
from .basic import randint_like as randint_like
from .basic import randn_like as randn_like
from .basic import truncated_normal as truncated_normal
from .basic import uniform as uniform
from .continuous import beta as beta
from .continuous import cauchy as cauchy
from .continuous import dirichlet as dirichlet
from .continuous import exponential as exponential
from .continuous import gamma as gamma
from .continuous import gumbel as gumbel
from .continuous import laplace as laplace
from .continuous import log_normal as log_normal
from .discrete import categorical as categorical
from .discrete import multinomial as multinomial
from .discrete import poisson as poisson
from .generator import Generator as Generator
from .generator import default_generator as default_generator
from .generator import seed as seed

_install_habits(globals(), __name__)
