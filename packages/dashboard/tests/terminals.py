"""A real terminal for tests: tmux, which keeps a screen that can be read."""

import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path

AVAILABLE = shutil.which("tmux") is not None


class Terminal:
    """A tmux server of its own with one window that runs a shell."""

    def __init__(self, folder, width=80, height=24, shell="sh"):
        self._socket = str(Path(folder) / "tmux.socket")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TMUX")}
        environment |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}
        environment["PS1"] = "$ "
        self._environment = environment
        size = ["-x", str(width), "-y", str(height)]
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, shell)
        self._tmux("set-option", "-g", "default-terminal", "tmux-256color")
        self._tmux("set-option", "-g", "window-size", "manual")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._tmux("kill-server")

    def _tmux(self, *arguments):
        command = ["tmux", "-u", "-S", self._socket, *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, encoding="utf-8", env=self._environment
        )
        assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr}"
        return done.stdout

    def type(self, text):
        """Types a line, as a command for the shell."""
        self._tmux("send-keys", "-l", text)
        self._tmux("send-keys", "Enter")

    def press(self, *keys):
        """Presses keys by tmux's names, such as C-c."""
        self._tmux("send-keys", *keys)

    def resize(self, width, height):
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def screen(self, colours=False):
        """What is to be seen."""
        return self._tmux("capture-pane", "-p", *(["-e"] if colours else []))

    def history(self):
        """What is to be seen, and what was scrolled out."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-1000")

    def alternate(self):
        """Whether a program has the screen for itself."""
        return self._tmux("display-message", "-p", "#{alternate_on}").strip() == "1"

    def wait(self, condition, seconds=60.0):
        """Waits until the screen holds a text, or a condition of the screen is true."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            seen = self.screen()
            if condition(seen) if callable(condition) else condition in seen:
                return seen
            time.sleep(0.1)
        raise AssertionError(f"never seen: {condition}\n{self.screen()}")
