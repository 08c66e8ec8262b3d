"""What goes from the cache on disk, and when somebody looks.

To look is to ask the system about each entry, which takes long where there are thousands. So who
has swept a large folder leaves a note of when that was and how many bytes remained. A process that
writes for the first time adds a mark to it, and sweeps only where the note is of another day or has
many marks: so many processes have written since.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .disk_store import Directory

TEMPORARY = ".new-"
"""How the names of files begin that are being written."""
LEFT_BEHIND = 3600.0
"""Seconds after which such a file is taken for that of a process that was killed."""
MOST = 8192
"""Entries in a folder: most are small, and to go through more of them takes long."""
KEPT = ".json"
"""How the names of entries end that always stay: measurements, small and slow to make."""
FEW = 512
"""Entries that are gone through without a note."""
NOTE, MARK = ".swept", b"."
DAY, MOST_MARKS = 86400.0, 64
_LONGEST = 4096


class Entry(NamedTuple):
    used: float
    size: int
    name: str


def bytes_noted(directory: Directory) -> int | None:
    """What the last sweep left, where it was not long ago; the question counts as a mark.

    Raises:
        OSError: the disk does not give the note back.
    """
    try:
        number = directory.open(NOTE, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        return None
    try:
        note = directory.read(number, _LONGEST)
        os.write(number, MARK)
    finally:
        os.close(number)
    head, _, marks = (note or b"").partition(b"\n")
    when, _, left = head.partition(b" ")
    if not (when.isdigit() and left.isdigit()) or len(marks) >= MOST_MARKS:
        return None
    return int(left) if 0 <= time.time() - int(when) < DAY else None


def sweep(directory: Directory, limit: int) -> int:
    """Removes the entries used longest ago until three quarters of the limits remain; returns how
    many bytes these are."""
    entries = sorted(entry for entry in directory.entries() if entry.name != NOTE)
    oldest = time.time() - LEFT_BEHIND
    total, count = sum(entry.size for entry in entries), len(entries)
    enough = limit * 3 // 4 if total > limit else total
    most = MOST * 3 // 4 if count > MOST else count
    for used, size, name in entries:
        if name.startswith(TEMPORARY) and used < oldest:
            gone = True
        else:
            gone = (total > enough or count > most) and not name.endswith(KEPT)
        if gone:
            with contextlib.suppress(OSError):
                directory.remove(name)
                total -= size
                count -= 1
    if count > FEW:
        directory.write(NOTE, b"%d %d\n" % (time.time(), total))
    return total
