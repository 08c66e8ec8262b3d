"""Ctrl-C while a long plan runs."""

from __future__ import annotations

import threading
from typing import Protocol


class Stoppable(Protocol):
    """What runs in native code: a table, a loop."""

    def run(self) -> None: ...

    def abort(self) -> None:
        """Stops a run in another thread before its next kernel."""
        ...

    def forget_abort(self) -> None: ...


def run_interruptibly(table: Stoppable) -> None:
    """Runs a table on another thread, while this one, the main one, waits where Ctrl-C reaches it.

    Python handles signals on the main thread between its own instructions, of which there are none
    as long as native code runs.

    Raises:
        KeyboardInterrupt: the plan was stopped before its next entry, or had just come to its end.
    """
    done = threading.Event()
    ticket = [table]  # the taker decides whether there is a run
    errors: list[BaseException] = []

    def run() -> None:
        if not _taken(ticket):
            return
        try:
            table.run()
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=run, daemon=True)
    try:
        thread.start()
        done.wait()
    except BaseException:
        table.abort()
        # Ctrl-C may come while the thread starts: from here on it runs already, or never.
        if not _taken(ticket):
            _until(done)
        table.forget_abort()
        raise
    if errors:
        raise errors[0]


def _taken(ticket: list[Stoppable]) -> bool:
    """Whether the ticket was still there; it is taken out."""
    try:
        ticket.pop()
    except IndexError:
        return False
    return True


def _until(done: threading.Event) -> None:
    """Waits, whatever happens meanwhile: the plan still writes to memory that others may get."""
    while not done.is_set():
        try:
            done.wait()
        except BaseException:
            continue
