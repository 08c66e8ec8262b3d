"""Numbers that say how well a model does, gathered over batches."""

from .base import Metric as Metric
from .classification import Accuracy as Accuracy
from .classification import ConfusionMatrix as ConfusionMatrix
from .classification import TopKAccuracy as TopKAccuracy
from .detection import MeanAveragePrecision as MeanAveragePrecision
from .losses import MeanLoss as MeanLoss
from .overlaps import Dice as Dice
from .overlaps import FBeta as FBeta
from .overlaps import HammingLoss as HammingLoss
from .overlaps import IoU as IoU
from .overlaps import Precision as Precision
from .overlaps import Recall as Recall
from .rankings import AUROC as AUROC
from .rankings import AveragePrecision as AveragePrecision
from .rankings import CalibrationError as CalibrationError
from .regression import MAE as MAE
from .regression import MSE as MSE
from .regression import R2 as R2
from .regression import RMSE as RMSE
from .text import BLEU as BLEU
from .text import CharErrorRate as CharErrorRate
from .text import Perplexity as Perplexity
from .text import WordErrorRate as WordErrorRate
