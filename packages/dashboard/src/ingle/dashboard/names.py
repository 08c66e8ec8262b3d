"""Every name that `ingle.dashboard` exports, one explicit line each."""

from .live import Dashboard as Dashboard
from .reading import Run as Run
from .reading import RunError as RunError
from .reading import Series as Series
from .reading import read_run as read_run
from .recording import RunRecorder as RunRecorder
from .recording import RunWarning as RunWarning
