"""First values of parameters: callables of shape, dtype, device and generator.

The numbers depend on the generator and the shape, never on the backend. `fan_in` and `fan_out` of a
weight of shape (out, in, *kernel) are `in` and `out`, each times the size of the kernel.
"""

from .filling import constant_ as constant_
from .filling import dirac_ as dirac_
from .filling import eye_ as eye_
from .filling import kaiming_normal_ as kaiming_normal_
from .filling import kaiming_uniform_ as kaiming_uniform_
from .filling import normal_ as normal_
from .filling import ones_ as ones_
from .filling import orthogonal_ as orthogonal_
from .filling import sparse_ as sparse_
from .filling import trunc_normal_ as trunc_normal_
from .filling import uniform_ as uniform_
from .filling import xavier_normal_ as xavier_normal_
from .filling import xavier_uniform_ as xavier_uniform_
from .filling import zeros_ as zeros_
from .initializers import Constant as Constant
from .initializers import Init as Init
from .initializers import Initializer as Initializer
from .initializers import KaimingNormal as KaimingNormal
from .initializers import KaimingUniform as KaimingUniform
from .initializers import Mode as Mode
from .initializers import Normal as Normal
from .initializers import Ones as Ones
from .initializers import Orthogonal as Orthogonal
from .initializers import Place as Place
from .initializers import TruncatedNormal as TruncatedNormal
from .initializers import Uniform as Uniform
from .initializers import XavierNormal as XavierNormal
from .initializers import XavierUniform as XavierUniform
from .initializers import Zeros as Zeros
from .initializers import calculate_gain as calculate_gain
from .initializers import fans as fans
