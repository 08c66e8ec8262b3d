"""The model as a tree, with the norms of its parameters and their gradients."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text
from textual.widgets import DataTable

from .canvas import short
from .reading import Run
from .theme import COLOURS


class ModelView(DataTable[Text]):
    """A row for each module and each parameter; what is above is the root of the sum of squares."""

    DEFAULT_CSS = "ModelView { height: 1fr; }"

    def __init__(self, run: Run) -> None:
        super().__init__(id="model", cursor_type="row", zebra_stripes=True)
        self.run = run
        self._shown: object = None

    def on_mount(self) -> None:
        """Makes the columns."""
        for name in ("module", "parameters", "weights", "gradients", "gradient/weight"):
            self.add_column(name, key=name)
        self.show()

    def show(self) -> None:
        """Shows the norms as they are now."""
        state = self.run.norms_step, len(self.run.modules), self.app.current_theme.dark
        if not self.is_mounted or state == self._shown:
            return
        self._shown = state
        place = self.cursor_row
        self.clear()
        for cells in self._rows():
            self.add_row(*cells)
        self.move_cursor(row=place)

    def _rows(self) -> Iterator[tuple[Text, ...]]:
        colours = COLOURS[self.app.current_theme.dark]
        for path, kind, own in self.run.modules:
            depth = path.count(".") + 1 if path else 0
            name = Text("  " * depth)
            name.append(path.rpartition(".")[2] + " " if path else "", colours["text"])
            name.append(kind, colours["train"])
            below = f"{path}." if path else ""
            count = sum(
                n
                for p, _, sizes in self.run.modules
                if p == path or p.startswith(below)
                for n in sizes.values()
            )
            yield name, *self._numbers(below, count, colours["text"])
            for parameter, size in own.items():
                label = Text("  " * (depth + 1) + parameter, colours["muted"])
                yield label, *self._numbers(below + parameter, size, colours["muted"])

    def _numbers(self, prefix: str, count: int, style: str) -> tuple[Text, ...]:
        """Elements and norms of all parameters whose names begin so."""
        found = [v for name, v in self.run.norms.items() if name.startswith(prefix)]
        weight = sum(w * w for w, _ in found) ** 0.5
        gradient = sum(g * g for _, g in found) ** 0.5
        texts = [f"{count:,}" if count else "-"]
        if found:
            ratio = short(float(f"{gradient / weight:.2g}")) if weight else "-"
            texts += [short(weight), short(float(f"{gradient:.3g}")), ratio]
        else:
            texts += ["-"] * 3
        return tuple(Text(t, style, justify="right") for t in texts)
