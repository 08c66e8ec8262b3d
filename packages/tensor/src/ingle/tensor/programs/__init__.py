"""Computations as values: programs, and writing them down from functions."""

from ..contract import Aval as Aval
from .program import Program as Program
from .program import Step as Step
from .program import is_unrolled as is_unrolled
from .tracing import Traced as Traced
from .tracing import TracedHandle as TracedHandle
from .tracing import TracedMoveError as TracedMoveError
from .tracing import Tracer as Tracer
from .tracing import loops_once as loops_once
from .tracing import recorded as recorded
from .tracing import same_number as same_number
from .tracing import trace as trace
from .tracing import tracing as tracing
from .tracing import user_line as user_line
from .tracing import writing_down as writing_down
from .tracing import written_down as written_down
