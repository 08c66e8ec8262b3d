"""Beside the plots: speed, where the time goes, and what is taken of the machine."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from .canvas import short
from .reading import Run
from .telling import bar, duration, milliseconds, nbytes
from .theme import COLOURS, SPANS

RECENT = 40
"""How many lines of the run's file make up the speed of now."""


class Sidebar(Widget):
    """Figures that change with every look."""

    DEFAULT_CSS = """
    Sidebar { border: round $border; border-title-color: $foreground; border-title-style: bold;
              padding: 0 1; }
    """

    def __init__(self, run: Run) -> None:
        super().__init__(id="sidebar")
        self.run = run
        self.border_title = "step"

    def render(self) -> Text:
        """The figures, as many as there is room for."""
        width, height = self.size.width, self.size.height
        colours = COLOURS[self.app.current_theme.dark]
        sections = [
            _speed(self.run, width, colours),
            _spans(self.run, width, colours),
            _machine(self.run, width, colours),
        ]
        found: list[Text] = []
        room = height
        for lines in sections:
            gap = 1 if found and room > sum(map(len, sections[1:])) else 0
            if lines and len(lines) + gap <= room:
                found += [Text("")] * gap + lines
                room -= len(lines) + gap
            elif lines and room > 1:
                found += lines[:room]
                room = 0
        return Text("\n").join(found)


def _pair(name: str, value: str, width: int, colours: dict[str, str]) -> Text:
    """A name at the left, its value at the right."""
    name = name[: max(3, width - len(value) - 1)]
    text = Text(name, colours["muted"])
    text.append(" " * max(1, width - len(name) - len(value)))
    text.append(value, colours["text"])
    return text


def _speed(run: Run, width: int, colours: dict[str, str]) -> list[Text]:
    found = []
    for name in ("steps/s", "samples/s"):
        series = run.series.get(name)
        if series is not None and series.values:
            recent = series.values[-RECENT:]
            # The mean of times, not of speeds.
            speed = len(recent) / sum(1 / v for v in recent if v > 0) if min(recent) > 0 else 0.0
            found.append(_pair(name, short(float(f"{speed:.3g}")), width, colours))
    rate = run.series.get("lr")
    if rate is not None and rate.values:
        found.append(_pair("learning rate", f"{rate.last:.3g}", width, colours))
    return found


def _spans(run: Run, width: int, colours: dict[str, str]) -> list[Text]:
    """Where the time of a step goes: one bar of all, and a line for each part."""
    total = sum(run.spans.values())
    if not total:
        series = run.series.get("waiting for data")
        if series is None or not series.values:
            return []
        share = sum(series.values[-RECENT:]) / len(series.values[-RECENT:])
        return [_pair("waiting for data", f"{share:.0%}", width, colours)]
    parts = [(name, run.spans.get(name, 0.0)) for name in SPANS]
    parts += [(name, s) for name, s in run.spans.items() if name not in SPANS]
    whole = Text()
    used, sofar = 0, 0.0
    for name, seconds in parts:
        sofar += seconds
        until = round(sofar / total * width)
        whole.append("█" * (until - used), SPANS.get(name, colours["muted"]))
        used = until
    found = [_pair("a step takes", milliseconds(total), width, colours), whole]
    for name, seconds in parts:
        if seconds / total >= 0.005:
            line = Text("▪ ", SPANS.get(name, colours["muted"]))
            told, time = f"{seconds / total:4.0%}", milliseconds(seconds)
            if width - 2 - len(told) >= len(name) + len(time) + 2:
                told = f"{time} {told}"
            line.append_text(_pair(name, told, width - 2, colours))
            found.append(line)
    return found


def _machine(run: Run, width: int, colours: dict[str, str]) -> list[Text]:
    gauges, found = run.gauges, []

    def gauge(name: str, value: str, share: float | None, colour: str | None = None) -> None:
        found.append(_pair(name, value, width, colours))
        if share is not None:
            colour = colour or ("bad" if share > 0.92 else "warn" if share > 0.8 else "good")
            found.append(bar(share, width, colours[colour], colours["faint"]))

    cores = gauges.get("machine/cores", 1)
    if "process/cpu" in gauges:
        used = gauges["process/cpu"]
        gauge("processors", f"{used:.1f} of {cores:.0f}", used / cores)
    if "machine/temperature" in gauges:
        gauge("temperature", f"{gauges['machine/temperature']:.0f} °C", None)
    total = gauges.get("machine/memory total")
    if total:
        memory = gauges["process/memory"]
        told = f"{nbytes(memory)} of {nbytes(total)}"
        told = told if len(told) + 7 <= width else nbytes(memory)
        gauge("memory", told, gauges["machine/memory"] / total)
    for device in run.devices:
        if f"{device}/memory" in gauges:
            limit = gauges.get(f"{device}/limit")
            inside = gauges[f"{device}/memory"]
            gauge(f"on {device}", nbytes(inside), inside / limit if limit else None)
        if f"{device}/use" in gauges:
            use = gauges[f"{device}/use"]
            gauge(f"{device} works", f"{use:.0%}", use, "train")
        if whole := gauges.get(f"{device}/total"):
            used = gauges[f"{device}/used"]
            told = f"{nbytes(used)} of {nbytes(whole)}"
            told = told if len(told) + len(device) + 5 <= width else nbytes(used)
            gauge(f"all {device}", told, used / whole)
        if f"{device}/temperature" in gauges:
            gauge(f"{device} is at", f"{gauges[f'{device}/temperature']:.0f} °C", None)
        if f"{device}/power" in gauges:
            gauge(f"{device} takes", f"{gauges[f'{device}/power']:.0f} W", None)
    return found


class Progress(Widget):
    """How far training is, and how long it will take."""

    DEFAULT_CSS = "Progress { height: 2; padding: 0 1; }"

    def __init__(self, run: Run) -> None:
        super().__init__(id="progress")
        self.run = run

    def render(self) -> Text:
        """A bar of the whole training and one of the epoch."""
        run, colours = self.run, COLOURS[self.app.current_theme.dark]
        width = self.size.width
        done, inside = run.done, run.batch / run.batches if run.batches else None
        ended = run.state == "ended"
        if done == 1.0:
            inside = 1.0
        of = f"/{run.epochs}" if run.epochs else ""
        number = min(run.epoch + (not ended), run.epochs or run.epoch + 1)
        left = duration(run.left) if run.left is not None and not ended else "-"
        first = (f"epoch {number}{of}", f"{duration(run.seconds)} gone  {left:>6} left")
        count = run.batches if inside == 1.0 and run.batches else run.batch
        batch = f"{count:,}/{run.batches:,}" if run.batches else f"{count:,}"
        second = f"batch {batch}", f"step {run.step:,}"
        names = max(len(first[0]), len(second[0])) + 2
        ends = max(len(first[1]), len(second[1])) + 2
        text = Text(no_wrap=True)
        for (name, end), share, style in zip(
            (first, second), (done, inside), (colours["train"], colours["other"]), strict=True
        ):
            room = max(4, width - names - ends - 5)
            text.append(f"{name:<{names}}", colours["text"])
            text.append_text(bar(share or 0.0, room, style, colours["faint"]))
            text.append(f"{'' if share is None else f'{share:.0%}':>5}", colours["text"])
            text.append(f"{end:>{ends}}", colours["muted"])
            text.append("\n")
        text.right_crop(1)
        return text
