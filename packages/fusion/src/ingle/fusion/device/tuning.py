"""Measurements of what is fastest on a machine, kept between processes."""

from ..support.tuner import Entry as Entry
from ..support.tuner import Tuner as Tuner
from ..support.tuner import TuningWarning as TuningWarning
from ..support.tuner import quickest as quickest
from ..support.tuner import rounded_size as rounded_size
