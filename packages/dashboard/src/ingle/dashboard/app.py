"""The dashboard: a Textual app that shows a run, and tells it what was asked for by key."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Grid, Horizontal
from textual.events import Resize
from textual.widgets import ContentSwitcher, Footer, RichLog, Static

from .dialogs import Keys, Question, too_small
from .model_view import ModelView
from .plots import Plot, View, names_of
from .reading import Run, RunError
from .sidebar import Progress, Sidebar
from .theme import COLOURS, DARK, LIGHT
from .wishes import Wishes

LEAST = 60, 16
"""The smallest terminal that holds anything readable, in columns and rows."""
PLOT_SIZE = 44, 8
"""The size that a plot has at least, if there is room for more than one."""
MOST_PLOTS = 9
SMOOTHINGS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
LOOK = 0.25
"""Seconds between two looks at the run's file, at least."""
SHARE = 0.03
"""What share of a processor all of it may take."""
LONGEST = 4.0
"""Seconds between two looks at most."""


class DashboardApp(App[str]):
    """Shows a run, live or afterwards. What it returns says why it was closed.

    Args:
        run: what is shown.
        parent: the process that trains, if this is its dashboard: closed when that is gone.
        stay: whether it stays open when the training has ended.
    """

    TITLE = "ingle"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: $background; color: $foreground; }
    #bar { height: 1; background: $panel; padding: 0 1; }
    #plots { grid-size: 1; grid-gutter: 0; width: 1fr; height: 1fr; }
    #sidebar { width: 30; }
    #main { height: 1fr; }
    #log, #fulllog { border: round $border; border-title-color: $foreground;
        border-title-style: bold; padding: 0 1; background: $background;
        overflow-x: hidden; scrollbar-size-vertical: 1; scrollbar-color: $border;
        scrollbar-background: $background; }
    #log { height: 7; }
    #fulllog { height: 1fr; }
    #small { display: none; width: 100%; height: 100%; content-align: center middle; }
    #model { border: round $border; background: $background; }
    Footer { background: $panel; }
    ModalScreen { background: $background 60%; }
    Screen.-small #small { display: block; }
    Screen.-small #page { display: none; }
    Screen.-low #log { height: 4; }
    Screen.-narrow #sidebar { width: 26; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stop", "Stop"),
        Binding("p", "pause", "Pause"),
        Binding("c", "checkpoint", "Save"),
        Binding("r", "recent", "Recent"),
        Binding("l", "logarithmic", "Log"),
        Binding("plus,equals_sign", "smooth(1)", "Smooth", key_display="+/-"),
        Binding("minus", "smooth(-1)", show=False),
        Binding("right,n", "page(1)", "Plots", key_display="←/→"),
        Binding("left,b", "page(-1)", show=False),
        Binding("z", "zoom", show=False),
        Binding("1", "tab('overview')", show=False),
        Binding("2", "tab('model')", show=False),
        Binding("3", "tab('fulllog')", show=False),
        Binding("t", "theme", show=False),
        Binding("question_mark", "keys", "Keys", key_display="?"),
        Binding("q", "close", "Close"),
        Binding("ctrl+c", "stop", show=False, priority=True),
        Binding("ctrl+z", "nothing", show=False, priority=True),
    ]

    def __init__(self, run: Run, *, parent: int | None = None, stay: bool = False) -> None:
        super().__init__()
        self.run_shown = run
        self.view = View()
        self._trainer = parent
        self._stay = stay
        self._wishes = Wishes(run.folder)
        self._plots = [Plot(run, self.view) for _ in range(MOST_PLOTS)]
        self._page = 0
        self._zoomed = False
        self._per_page = 1
        self._logged = 0
        self._clock = -1.0
        self._looked_at = 0.0
        self._spent = time.process_time()
        self._wish = self._wish_since = ""
        self._problem = self._note = ""

    def compose(self) -> ComposeResult:
        """The page: a bar, progress, plots beside figures, the log, keys."""
        run = self.run_shown
        yield Static("", id="small")
        with Container(id="page"):
            yield Static("", id="bar")
            yield Progress(run)
            with ContentSwitcher(initial="overview", id="main"):
                with Container(id="overview"):
                    with Horizontal():
                        with Grid(id="plots"):
                            yield from self._plots
                        yield Sidebar(run)
                    log = RichLog(id="log", max_lines=500, wrap=False, markup=False)
                    log.border_title = "log"
                    yield log
                yield ModelView(run)
                full = RichLog(id="fulllog", max_lines=10_000, wrap=True, markup=False)
                full.border_title = "log"
                yield full
            yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Begins to look at the run."""
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = DARK.name
        for widget in self.query("#log, #fulllog, #model"):
            widget.can_focus = widget.id != "log"
        self.set_focus(None)
        self.set_interval(LOOK, self.look)
        self.call_after_refresh(self.draw)

    def on_resize(self, event: Resize) -> None:
        """Lays the page out for the terminal's size."""
        width, height = event.size
        small = width < LEAST[0] or height < LEAST[1]
        self.screen.set_class(small, "-small")
        self.screen.set_class(height < 30, "-low")
        self.screen.set_class(width < 100, "-narrow")
        if small:
            self.query_one("#small", Static).update(too_small(width, height, LEAST))
        self.call_after_refresh(self.draw)

    def look(self) -> None:
        """Reads what was added to the run, and draws it unless that would take too long."""
        if self._trainer is not None and os.getppid() != self._trainer:
            self.exit("parent")
            return
        now = time.monotonic()
        # What was spent since the look before, in which Textual painted what it showed.
        spent = time.process_time() - self._spent
        if now - self._looked_at < min(spent / SHARE, LONGEST):
            return
        self._spent = time.process_time()
        run, changed = self.run_shown, False
        try:
            changed = run.update()
            self._problem = ""
        except (RunError, OSError) as error:
            changed = str(error) != self._problem
            self._problem = str(error)
        if self._trainer is not None and run.state == "ended" and not self._stay:
            self.exit("ended")
            return
        if changed or now - self._clock >= 1.0:
            self._clock = now
            self.draw()
        self._looked_at = now

    def draw(self) -> None:
        """Shows the run as it is."""
        if not self.query("#bar"):  # the page goes before the timers when the app closes
            return
        self._draw_bar()
        self._draw_plots()
        for kind in (Progress, Sidebar):
            self.query_one(kind).refresh()
        self.query_one(ModelView).show()
        self._draw_log()

    def _draw_bar(self) -> None:
        run, colours = self.run_shown, COLOURS[self.current_theme.dark]
        status = run.status
        if self._wish and self._wish_since == run.state:
            status = self._wish
        colour = {"training": "good", "finished": "train", "lost": "bad", "stopped": "warn"}
        mark = {"finished": "✓", "lost": "✗", "stopped": "■", "paused": "‖"}.get(status, "●")
        chip = Text(f"{mark} {status}", f"bold {colours[colour.get(status, 'warn')]}")
        left = Text("◆ ingle ", f"bold {colours['valid']}")
        left.append(f" {run.name} ", colours["text"])
        now = self.query_one(ContentSwitcher).current
        tabs = Text()
        for i, (key, name) in enumerate(
            (("overview", "plots"), ("model", "model"), ("fulllog", "log")), 1
        ):
            style = f"bold {colours['text']}" if key == now else colours["muted"]
            tabs.append(f" {i} ", colours["valid"])
            tabs.append(f"{name} ", style)
        devices = "  ".join(run.devices)
        devices = self._note or devices
        details = f"{devices}  " if devices else ""
        right = Text(details, colours["muted"])
        right.append_text(chip)
        room = self.size.width - 2 - left.cell_len - tabs.cell_len - right.cell_len
        if room < 1:
            left.truncate(max(8, left.cell_len + room - 1), overflow="ellipsis")
            room = self.size.width - 2 - left.cell_len - tabs.cell_len - right.cell_len
        if self._problem:
            left, tabs, room = Text(self._problem, colours["bad"]), Text(), 2
        line = Text(no_wrap=True)
        line.append_text(left).append_text(tabs).append(" " * max(1, room)).append_text(right)
        self.query_one("#bar", Static).update(line)

    def _draw_plots(self) -> None:
        grid = self.query_one("#plots", Grid)
        width, height = grid.size
        if not width or not height:
            return
        names = names_of(self.run_shown) or ["loss"]
        columns = max(1, min(3, width // PLOT_SIZE[0]))
        rows = max(1, min(MOST_PLOTS // columns, height // PLOT_SIZE[1]))
        if self._zoomed:
            columns = rows = 1
        columns = min(columns, len(names))
        rows = min(rows, -(-len(names) // columns))
        count = columns * rows
        if count != self._per_page:
            self._page = self._page * self._per_page // count
            self._per_page = count
        self._page = min(self._page, (len(names) - 1) // count)
        # Said again, it would be laid out again.
        if (grid.styles.grid_size_columns, grid.styles.grid_size_rows) != (columns, rows):
            grid.styles.grid_size_columns, grid.styles.grid_size_rows = columns, rows
        shown = names[self._page * count :][:count]
        for i, plot in enumerate(self._plots):
            plot.show(shown[i] if i < len(shown) else None)

    def _draw_log(self) -> None:
        run, muted = self.run_shown, COLOURS[self.current_theme.dark]["muted"]
        if len(run.log) < self._logged:
            self._logged = 0
            for log in self.query(RichLog):
                log.clear()
        # Somebody who reads further up stays there.
        logs = [(log, log.scroll_target_y >= log.max_scroll_y) for log in self.query(RichLog)]
        for at, text in run.log[self._logged :]:
            line = Text(time.strftime("%H:%M:%S  ", time.localtime(at)), muted)
            line.append(Text.from_ansi(text).plain)
            for log, at_end in logs:
                log.write(line, scroll_end=at_end)
        self._logged = len(run.log)

    def _send(self, wish: str, shown: str) -> None:
        run = self.run_shown
        if run.status not in ("training", "validating", "paused"):
            self._tell(f"this training is {run.status}")
            return
        try:
            self._wishes.send(wish)
        except OSError as error:
            self._tell(f"cannot tell the training: {error}")
            return
        self._wish, self._wish_since = shown, run.state
        self.set_timer(2.0, self._forget_wish)
        self._draw_bar()

    def _tell(self, text: str) -> None:
        """Shows a few words in the bar, for a moment."""
        self._note = text
        self.set_timer(2.0, self._forget_note)
        self._draw_bar()

    def _forget_note(self) -> None:
        self._note = ""

    def _forget_wish(self) -> None:
        self._wish = ""

    def action_stop(self) -> None:
        """Asks whether training shall stop."""
        if isinstance(self.screen, Question):
            return
        if self.run_shown.state == "ended":
            self._send("stop", "")
            return
        kept = "write a checkpoint, and stop" if self.run_shown.saves else "stop"
        self.push_screen(Question(f"Finish this step, {kept}?"), self._stop)

    def _stop(self, sure: bool | None) -> None:
        if sure:
            self._send("stop", "stopping")

    def action_pause(self) -> None:
        """Lets training wait, or go on."""
        if self.run_shown.state == "paused":
            self._send("resume", "going on")
        else:
            self._send("pause", "pausing")

    def action_checkpoint(self) -> None:
        """Asks for a checkpoint."""
        self._send("checkpoint", "saving")

    def action_recent(self) -> None:
        """Shows recent steps, or all."""
        self.view.recent = not self.view.recent
        self.draw()

    def action_logarithmic(self) -> None:
        """Changes the values' axis."""
        self.view.logarithmic = not self.view.logarithmic
        self.draw()

    def action_smooth(self, more: int) -> None:
        """More or less smoothing."""
        place = SMOOTHINGS.index(self.view.smoothing) + more
        self.view.smoothing = SMOOTHINGS[min(max(place, 0), len(SMOOTHINGS) - 1)]
        self.draw()
        self._tell(f"smoothing {self.view.smoothing:g}")

    def action_page(self, by: int) -> None:
        """Shows other plots."""
        pages = -(-len(names_of(self.run_shown)) // self._per_page)
        self._page = (self._page + by) % max(1, pages)
        self.draw()

    def action_zoom(self) -> None:
        """One plot on the whole page, and back."""
        self._zoomed = not self._zoomed
        self.draw()

    def action_tab(self, name: str) -> None:
        """Plots, model or log."""
        self.query_one(ContentSwitcher).current = name
        self.set_focus(self.query_one(f"#{name}") if name != "overview" else None)
        self.call_after_refresh(self.draw)

    def action_theme(self) -> None:
        """Dark or light."""
        self.theme = (LIGHT if self.theme == DARK.name else DARK).name
        for log in self.query(RichLog):
            log.clear()
        self._logged = 0
        self.draw()

    def action_keys(self) -> None:
        """Shows what the keys do."""
        self.push_screen(Keys())

    def action_close(self) -> None:
        """Closes the dashboard; the training goes on."""
        self.exit("closed")

    def action_nothing(self) -> None:
        """Ctrl-Z would stop the dashboard alone, and leave the terminal to nobody."""


def show(folder: str | Path, *, parent: int | None = None, stay: bool = True) -> str:
    """Opens the dashboard of a run until it is closed; why it was.

    Raises:
        RunError: there is no run.
    """
    return DashboardApp(Run(folder), parent=parent, stay=stay).run() or "closed"
