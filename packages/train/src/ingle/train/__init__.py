"""A training loop that can be read, with metrics, checkpoints and exact resume."""

from .callbacks import Callback as Callback
from .callbacks import EarlyStopping as EarlyStopping
from .errors import CheckpointWarning as CheckpointWarning
from .errors import NonFiniteLossError as NonFiniteLossError
from .errors import TrainingError as TrainingError
from .history import CSVLogger as CSVLogger
from .history import JSONLLogger as JSONLLogger
from .history import read_jsonl as read_jsonl
from .learner import Learner as Learner
from .metrics import Accuracy as Accuracy
from .metrics import ConfusionMatrix as ConfusionMatrix
from .metrics import MeanLoss as MeanLoss
from .metrics import Metric as Metric
from .metrics import TopKAccuracy as TopKAccuracy
from .progress import ConsoleLogger as ConsoleLogger
from .store import CheckpointStore as CheckpointStore
