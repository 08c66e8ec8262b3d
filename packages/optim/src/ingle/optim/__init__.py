"""Optimizers, schedules and gradient clipping."""

from . import pytorch_names as _pytorch_names
from . import schedule as schedule
from .adam import Adam as Adam
from .adam import AdamW as AdamW
from .adam_variants import Adamax as Adamax
from .adam_variants import Adan as Adan
from .adam_variants import NAdam as NAdam
from .adam_variants import RAdam as RAdam
from .adaptive import Adadelta as Adadelta
from .adaptive import Adagrad as Adagrad
from .adaptive import RMSprop as RMSprop
from .clipping import NonFiniteError as NonFiniteError
from .clipping import clip_grad_norm as clip_grad_norm
from .clipping import clip_grad_value as clip_grad_value
from .groups import Group as Group
from .lbfgs import LBFGS as LBFGS
from .loss_scaling import LossScaler as LossScaler
from .matrices import Adafactor as Adafactor
from .matrices import Muon as Muon
from .optimizer import Optimizer as Optimizer
from .selecting import param_groups as param_groups
from .sgd import SGD as SGD
from .signs import ASGD as ASGD
from .signs import Lion as Lion
from .signs import Rprop as Rprop
from .slots import Slot as Slot
