"""Ctrl-C while a long plan runs."""

from __future__ import annotations

import threading

from .table import Table


def run_interruptibly(table: Table) -> None:
    """Runs a table on another thread, while this one, the main one, waits where Ctrl-C reaches it.

    Python handles signals on the main thread between its own instructions, of which there are none
    as long as native code runs.

    Raises:
        KeyboardInterrupt: the plan was stopped before its next entry, or had just come to its end.
    """
    done = threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            table.run()
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=run, daemon=True).start()
    try:
        done.wait()
    except BaseException:
        table.abort()
        _until(done)
        table.forget_abort()
        raise
    if errors:
        raise errors[0]


def _until(done: threading.Event) -> None:
    """Waits, whatever happens meanwhile: the plan still writes to memory that others may get."""
    while not done.is_set():
        try:
            done.wait()
        except BaseException:
            continue
