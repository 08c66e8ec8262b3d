"""Computations as values: programs, and writing them down from functions."""

from ..contract import Aval as Aval
from .program import Program as Program
from .program import Step as Step
from .program import is_unrolled as is_unrolled
from .tracer import TracedHandle as TracedHandle
from .tracer import TracedMoveError as TracedMoveError
from .tracer import Tracer as Tracer
from .tracer import loops_once as loops_once
from .tracer import user_line as user_line
from .tracer import writing_down as writing_down
from .tracer import written_down as written_down
from .tracing import Traced as Traced
from .tracing import recorded as recorded
from .tracing import same_number as same_number
from .tracing import trace as trace
from .tracing import tracing as tracing
