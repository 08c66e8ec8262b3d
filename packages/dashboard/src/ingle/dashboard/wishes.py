"""What those who watch a run wish: lines of a file beside it, which the training reads."""

from __future__ import annotations

import json
import time
from pathlib import Path

FILE = "wishes.jsonl"
KINDS = ("stop", "pause", "resume", "checkpoint")


class Wishes:
    """The file of wishes in a run's folder: viewers add lines, the training reads them.

    A file reaches as far as the folder does: to another terminal, through ssh, over a network's
    file system.

    >>> import tempfile
    >>> from ingle.dashboard.wishes import Wishes
    >>> folder = tempfile.mkdtemp()
    >>> training, viewer = Wishes(folder), Wishes(folder)
    >>> viewer.send("pause")
    >>> training.read(), training.read()
    (['pause'], [])
    """

    def __init__(self, folder: Path | str) -> None:
        self._path = Path(folder) / FILE
        self._seen = 0

    def forget(self) -> None:
        """Deletes what earlier viewers wished."""
        self._path.unlink(missing_ok=True)
        self._seen = 0

    def send(self, wish: str) -> None:
        """Adds a wish.

        Raises:
            OSError: the folder cannot be written.
        """
        line = json.dumps({"wish": wish, "time": time.time()})
        # A line begins anew behind one that a viewer was killed in, or that found no room.
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")

    def read(self) -> list[str]:
        """The wishes since the last time; what is no wish is passed over."""
        try:
            size = self._path.stat().st_size
            if size == self._seen:
                return []
            if size < self._seen:
                self._seen = 0  # somebody has made the file anew
            with self._path.open("rb") as file:
                file.seek(self._seen)
                data = file.read()
        except OSError:
            return []  # nobody has wished for anything, or the file system is away for a moment
        whole = data[: data.rfind(b"\n") + 1]
        self._seen += len(whole)
        return [wish for line in whole.splitlines() if (wish := _wish(line)) in KINDS]


def _wish(line: bytes) -> str:
    try:
        return str(json.loads(line)["wish"])
    except (ValueError, KeyError, TypeError):
        return ""
