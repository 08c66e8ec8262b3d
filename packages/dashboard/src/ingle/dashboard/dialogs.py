"""What lies over the dashboard: a question, the keys, and what is said in a small terminal."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

KEYS = (
    ("1 2 3", "plots, model, log"),
    ("← →", "the plots before, the next ones"),
    ("z", "one plot on the whole page, and back"),
    ("r", "recent steps, or all"),
    ("l", "a logarithmic axis, and back"),
    ("+ -", "more or less smoothing"),
    ("p", "pause, and go on"),
    ("c", "write a checkpoint now"),
    ("s", "stop after the step, with a checkpoint"),
    ("t", "dark or light"),
    ("q", "close the dashboard; training goes on"),
)

_CSS = """
{name} {{ align: center middle; background: $background 60%; }}
{name} > Vertical {{ width: auto; height: auto; max-width: 90%; border: round $accent;
    background: $panel; padding: 1 2; }}
{name} Static {{ width: auto; }}
"""


class Question(ModalScreen[bool]):
    """Asks for yes or no."""

    DEFAULT_CSS = _CSS.format(name="Question")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "answer(True)"),
        Binding("n,escape,q", "answer(False)"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """The question and its keys."""
        with Vertical():
            yield Static(self._text)
            yield Static("\n[b $accent]y[/] yes   [b $accent]n[/] no")

    def action_answer(self, yes: bool) -> None:
        """Closes with the answer."""
        self.dismiss(yes)


class Keys(ModalScreen[None]):
    """What the keys do."""

    DEFAULT_CSS = _CSS.format(name="Keys")
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "close")]

    def compose(self) -> ComposeResult:
        """The table of keys."""
        lines = [f"[b $accent]{key:>6}[/]  {text}" for key, text in KEYS]
        with Vertical():
            yield Static("\n".join(lines))

    def action_close(self) -> None:
        """Closes it."""
        self.dismiss()


def too_small(width: int, height: int, least: tuple[int, int]) -> Text:
    """What a terminal shows that is too small for plots.

    >>> from ingle.dashboard.dialogs import too_small
    >>> print(too_small(40, 10, (60, 16)).plain)
    40x10 is too small:
    make it 60x16, or more
    """
    return Text(
        f"{width}x{height} is too small:\nmake it {least[0]}x{least[1]}, or more", justify="center"
    )
