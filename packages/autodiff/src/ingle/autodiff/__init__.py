"""Gradients for Ingle tensors: recorded by a backend that stands in front of any other."""

from .checkpoint import checkpoint as checkpoint
from .custom import custom_gradient as custom_gradient
from .engine import backward as backward
from .recording import Autodiff as Autodiff
from .recording import is_recording as is_recording
from .recording import no_grad as no_grad
from .recording import require_grad as require_grad
from .transforms import grad as grad
from .transforms import value_and_grad as value_and_grad
