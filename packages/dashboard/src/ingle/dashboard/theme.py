"""The colours of the dashboard."""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="ingle-dark",
    primary="#6cb6f5",
    secondary="#b9a2e8",
    accent="#f0a35e",
    warning="#e8c467",
    error="#ea7a80",
    success="#8fd18b",
    foreground="#d5dbe5",
    background="#0e1218",
    surface="#0e1218",
    panel="#171d27",
    dark=True,
    variables={
        "border": "#2b3444",
        "footer-background": "#171d27",
        "footer-key-foreground": "#f0a35e",
        "footer-description-foreground": "#9aa5b8",
    },
)
LIGHT = Theme(
    name="ingle-light",
    primary="#1a6fb5",
    secondary="#6d4fb8",
    accent="#c05f0a",
    warning="#94690a",
    error="#b8343c",
    success="#2c7a35",
    foreground="#1f2933",
    background="#fbfbf8",
    surface="#fbfbf8",
    panel="#eeeee8",
    dark=False,
    variables={
        "border": "#c9cdd3",
        "footer-background": "#eeeee8",
        "footer-key-foreground": "#c05f0a",
        "footer-description-foreground": "#566072",
    },
)

COLOURS = {
    True: {
        "train": "#6cb6f5",
        "valid": "#f0a35e",
        "raw": "#29506f",
        "other": "#b9a2e8",
        "muted": "#7b879b",
        "faint": "#3a4558",
        "text": "#d5dbe5",
        "good": "#8fd18b",
        "bad": "#ea7a80",
        "warn": "#e8c467",
    },
    False: {
        "train": "#1a6fb5",
        "valid": "#c05f0a",
        "raw": "#a9cbe8",
        "other": "#6d4fb8",
        "muted": "#667085",
        "faint": "#c9cdd3",
        "text": "#1f2933",
        "good": "#2c7a35",
        "bad": "#b8343c",
        "warn": "#94690a",
    },
}
"""By whether the theme is dark: what things are drawn in."""

SPANS = {
    "data": "#e8c467",
    "forward": "#6cb6f5",
    "metrics": "#7b879b",
    "backward": "#b9a2e8",
    "optimizer": "#8fd18b",
    "other": "#4d5a70",
}
"""What a step is made of, in the order in which it is shown."""
