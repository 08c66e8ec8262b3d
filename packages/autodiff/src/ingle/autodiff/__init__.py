"""Gradients for Ingle tensors: recorded by a backend that stands in front of any other."""

from .batching import BatchLoopWarning as BatchLoopWarning
from .checkpoint import checkpoint as checkpoint
from .checkpoint import checkpoint_sequential as checkpoint_sequential
from .custom import custom_gradient as custom_gradient
from .engine import backward as backward
from .jacobians import hessian as hessian
from .jacobians import hvp as hvp
from .jacobians import jacobian as jacobian
from .jacobians import vhp as vhp
from .products import jvp as jvp
from .products import linearize as linearize
from .products import vjp as vjp
from .recording import Autodiff as Autodiff
from .residuals import checkpointing as checkpointing
from .residuals import saved_bytes as saved_bytes
from .tracked import is_recording as is_recording
from .tracked import no_grad as no_grad
from .tracked import require_grad as require_grad
from .transforms import grad as grad
from .transforms import value_and_grad as value_and_grad
from .vectorization import vmap as vmap
