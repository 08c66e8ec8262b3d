"""The state of a terminal: what a program that takes it whole changes, and how it is put back."""

from __future__ import annotations

import os
import signal
from typing import Any

_OFF = "1000", "1003", "1004", "1006", "1015", "1016", "2004", "2048"
"""What is switched off: mouse, focus, paste, news of the size."""
LEAVE = (
    "\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?7h\x1b[0m" + "".join(f"\x1b[?{m}l" for m in _OFF)
).encode()
"""What gives the terminal back where the dashboard could not: keys, screen, cursor, wrapping."""


def terminal_modes(number: int) -> Any:
    """The modes of the terminal at a file descriptor; None where there are none."""
    try:
        import termios
    except ImportError:
        return None
    try:
        return termios.tcgetattr(number)
    except termios.error:
        return None


def restore(number: int, modes: Any) -> None:
    """Puts a terminal back in order behind a program that died in it."""
    os.write(number, LEAVE)
    if modes is not None:
        import termios

        termios.tcsetattr(number, termios.TCSADRAIN, modes)


def give_back(number: int, modes: Any) -> None:
    """Puts back the modes of a terminal that a shell has taken from this process.

    The kernel refuses that to a process in the background, as the dashboard of a killed training
    is, unless it ignores SIGTTOU. A shell that edits its line has set modes of its own by then,
    with signals from keys, which full-screen programs switch off: those stay.
    """
    now = terminal_modes(number)
    if modes is None or now is None:
        return
    import termios

    local = 3  # the index of the local modes in what tcgetattr gives
    if now[local] & termios.ISIG:
        return
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    termios.tcsetattr(number, termios.TCSADRAIN, modes)
