"""Gradients for Ingle tensors."""

from .engine import backward as backward
from .recording import Autodiff as Autodiff
from .recording import is_recording as is_recording
from .recording import no_grad as no_grad
from .recording import require_grad as require_grad
