"""Measurements of what is fastest on a machine, kept between processes.

>>> from ingle.fusion.device.tuning import quickest, rounded_size
>>> seconds = {way: quickest(lambda n=n: sum(range(n)), 0.0) for way, n in (("a", 9), ("b", 99999))}
>>> min(seconds, key=seconds.get), rounded_size(700)
('a', 768)
"""

from ..support.tuner import Entry as Entry
from ..support.tuner import Tuner as Tuner
from ..support.tuner import TuningWarning as TuningWarning
from ..support.tuner import quickest as quickest
from ..support.tuner import rounded_size as rounded_size
