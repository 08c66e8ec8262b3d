"""A process with a limit of time, of which nothing is left when it is over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_TAIL = 4000
_STEP = 0.5
"""Seconds between two looks at whether it is to stop."""


class Ended(NamedTuple):
    """How a process ended.

    Attributes:
        code: its exit status; None if it was cut off.
        said: the end of what it wrote to its outputs.
        reason: why it ended before its end: the limit or a signal, in a few words.
    """

    code: int | None
    said: str
    reason: str


def run(
    command: Sequence[str], environment: Mapping[str, str], seconds: float,
    stop: threading.Event | None = None,
) -> Ended:  # fmt: skip
    """Runs a process, and ends it with all that it has started when its time is over.

    Args:
        command: the program and its arguments.
        environment: its variables.
        seconds: how long it may take.
        stop: ends it when it is set.

    >>> import os, sys
    >>> from ingle.testkit.limited import run
    >>> run([sys.executable, "-c", "import time; time.sleep(60)"], os.environ, 0.5)
    Ended(code=None, said='', reason='0.5 s')
    """
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder, "said.txt")
        # A file, not a pipe: what a process leaves running may hold a pipe open for ever.
        with said.open("wb") as out:
            process = subprocess.Popen(
                [*command], env=dict(environment), stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                reason = _waited(process, time.monotonic() + seconds, stop or threading.Event())
            finally:
                _end(process)
        if reason is None:
            return Ended(process.returncode, _tail(said), _signal(process.returncode))
        return Ended(None, _tail(said), reason or f"{seconds:.3g} s")


def _waited(process: subprocess.Popen[bytes], end: float, stop: threading.Event) -> str | None:
    """None if the process ended by itself, why it did not otherwise; empty for its time."""
    while process.poll() is None:
        if stop.is_set():
            return "interrupted"
        left = end - time.monotonic()
        if left <= 0:
            return ""
        with suppress(subprocess.TimeoutExpired):
            process.wait(min(left, _STEP))
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and what it has started, also where it has ended itself."""
    if sys.platform != "win32":
        with suppress(ProcessLookupError, PermissionError):  # nobody of the group is left
            os.killpg(process.pid, signal.SIGKILL)
    elif process.poll() is None:
        process.kill()
    process.wait()


def _signal(code: int) -> str:
    """A few words on an exit status that a signal gave."""
    if code >= 0 or sys.platform == "win32":
        return ""
    names = {s.value: s.name for s in signal.Signals}
    return f"died of {names.get(-code, f'signal {-code}')}"


def _tail(file: Path) -> str:
    return file.read_bytes()[-_TAIL:].decode("utf-8", "replace")
