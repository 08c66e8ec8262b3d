"""Mermaid blocks as pictures: drawn when the site is built, one for light pages, one for dark.

`mermaidx` runs Mermaid itself without a browser; readers load two SVG files and no script.
"""

from __future__ import annotations

import hashlib
import html
import re
from pathlib import Path
from typing import Any

import mermaidx
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.logging import getLogger

LOGGER = getLogger(__name__)
LABEL = re.compile(r"""[\[{(|]"([^"]+)"[\]})|]""")
VIEW = re.compile(r'viewBox="\S+ \S+ (\S+) \S+"')
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
LIGHT = {
    "primaryColor": "#eef4ff", "primaryBorderColor": "#6b8fd6", "primaryTextColor": "#1b2333",
    "lineColor": "#5b6475", "clusterBkg": "#f7f7f9", "clusterBorder": "#c9ced8",
    "edgeLabelBackground": "#ffffff", "tertiaryColor": "#f7f7f9",
}  # fmt: skip
DARK = {
    "primaryColor": "#22304d", "primaryBorderColor": "#6b8fd6", "primaryTextColor": "#e6e9f0",
    "lineColor": "#9aa4b8", "clusterBkg": "#1b1e25", "clusterBorder": "#444b5a",
    "edgeLabelBackground": "#131416", "tertiaryColor": "#1b1e25",
}  # fmt: skip


class Diagrams(SphinxPostTransform):
    """Puts two pictures in the place of each Mermaid block."""

    default_priority = 200
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        for block in [*self.document.findall(nodes.literal_block)]:
            if block.get("language") == "mermaid":
                try:
                    block.replace_self(self.pictures(block.astext()))
                except RuntimeError as error:
                    LOGGER.warning("%s", error, location=block)

    def pictures(self, text: str) -> nodes.raw:
        key = hashlib.sha256(text.encode()).hexdigest()[:12]
        folder = Path(self.app.outdir, "_images")
        folder.mkdir(exist_ok=True)
        up = "../" * self.env.docname.count("/")
        words = html.escape("diagram: " + ", ".join(LABEL.findall(text)))
        images = []
        for name, colours in (("light", LIGHT), ("dark", DARK)):
            drawn = mermaidx.render(
                text,
                theme="base",
                config={"themeVariables": {**colours, "fontFamily": FONT, "fontSize": "15px"}},
            )
            file = f"diagram-{key}-{name}.svg"
            (folder / file).write_text(drawn.svg(), "utf-8")
            box = VIEW.search(drawn.svg())
            width = round(float(box[1])) if box else 800
            images.append(
                f'<img class="diagram only-{name}" src="{up}_images/{file}" width="{width}" '
                f'alt="{words}">'
            )
        return nodes.raw("", "".join(images), format="html")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_post_transform(Diagrams)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
