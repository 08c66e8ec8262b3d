"""Optimizers, schedules and gradient clipping."""

from . import schedule as schedule
from .adam import Adam as Adam
from .adam import AdamW as AdamW
from .clipping import NonFiniteError as NonFiniteError
from .clipping import clip_grad_norm as clip_grad_norm
from .clipping import clip_grad_value as clip_grad_value
from .groups import Group as Group
from .groups import Slot as Slot
from .optimizer import Optimizer as Optimizer
from .sgd import SGD as SGD
