"""Numbers, times and bars as a person reads them."""

from __future__ import annotations

from rich.text import Text


def duration(seconds: float | None) -> str:
    """A length of time, such as 1:05 or 2 d 3:04:05.

    >>> from ingle.dashboard.telling import duration
    >>> duration(65), duration(3 * 3600 + 5), duration(200_000), duration(None)
    ('1:05', '3:00:05', '2 d 7:33:20', '-')
    """
    if seconds is None:
        return "-"
    whole = int(seconds)
    days, rest = divmod(whole, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, last = divmod(rest, 60)
    if days or hours:
        text = f"{hours}:{minutes:02}:{last:02}"
        return f"{days} d {text}" if days else text
    return f"{minutes}:{last:02}"


def nbytes(count: float) -> str:
    """A number of bytes.

    >>> from ingle.dashboard.telling import nbytes
    >>> nbytes(512), nbytes(3 * 2**20), nbytes(1.5 * 2**30)
    ('512 B', '3 MiB', '1.5 GiB')
    """
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count:.0f} B"


def milliseconds(seconds: float) -> str:
    """A short time.

    >>> from ingle.dashboard.telling import milliseconds
    >>> milliseconds(0.00123), milliseconds(0.25), milliseconds(2.5)
    ('1.23 ms', '250 ms', '2.5 s')
    """
    if seconds >= 1:
        return f"{seconds:.3g} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} µs"


def bar(share: float, width: int, style: str, empty: str) -> Text:
    """A bar of which a share is filled, to a half of a cell.

    >>> from ingle.dashboard.telling import bar
    >>> bar(0.5, 5, "blue", "grey50").plain
    '━━╸──'
    """
    halves = round(min(1.0, max(0.0, share)) * width * 2)
    whole, half = divmod(halves, 2)
    text = Text("━" * whole + "╸" * half, style)
    text.append("─" * (width - whole - half), empty)
    return text
