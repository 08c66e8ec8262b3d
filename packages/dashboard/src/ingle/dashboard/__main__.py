"""The dashboard in a process of its own: `python -m ingle.dashboard FOLDER [PARENT] [stay]`."""

import os
import sys

from .app import show
from .terminal import give_back, terminal_modes


def main() -> None:
    """Shows the run; beside a training it takes what that leaves over."""
    folder, *rest = sys.argv[1:]
    parent = int(rest[0]) if rest else None
    if parent is not None and hasattr(os, "nice"):
        os.nice(5)
    modes = terminal_modes(0)
    if show(folder, parent=parent, stay=parent is None or "stay" in rest) == "parent":
        give_back(0, modes)


if __name__ == "__main__":
    main()
