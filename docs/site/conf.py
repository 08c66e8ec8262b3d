"""Settings of the site; `build.py` runs Sphinx with them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.domains.python import PyObject

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from docstrings import to_rst  # noqa: E402

project = "Ingle"
author = "the contributors of Ingle"
copyright = author  # noqa: A001
release = (HERE.parents[1] / "VERSION").read_text("utf-8").strip()
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "diagrams",
    "linking",
]
smartquotes = False
myst_heading_anchors = 4
suppress_warnings = ["ref.python"]  # a type variable `T` is also a property

autodoc_inherit_docstrings = False
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
add_module_names = False
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
toc_object_entries = False

html_theme = "furo"
html_title = f"Ingle {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_last_updated_fmt = None
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {
        "color-brand-primary": "#b3471d",
        "color-brand-content": "#1d5fb3",
        "color-sidebar-link-text": "#3b4252",
        "color-sidebar-link-text--top-level": "#3b4252",
    },
    "dark_css_variables": {
        "color-brand-primary": "#ff9a62",
        "color-brand-content": "#79b0ff",
        "color-sidebar-link-text": "#c8cdd8",
        "color-sidebar-link-text--top-level": "#c8cdd8",
    },
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def to_markup(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are Markdown."""
    lines[:] = to_rst("\n".join(lines)).split("\n")


def setup(app: Sphinx) -> None:
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    app.connect("autodoc-process-docstring", to_markup, priority=100)  # before Napoleon
