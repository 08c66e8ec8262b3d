"""Code such as `it.softmax` or `nn.Linear(3, 4)` in a page becomes a link to the name's entry."""

from __future__ import annotations

import re
from typing import Any

from api_pages import MODULES, names_of
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform

SHORT = {"it": "ingle.tensor"} | {m.rpartition(".")[2]: m for m in MODULES if m.count(".") == 1}
"""What pages call modules."""

NAME = re.compile(r"@?((?:[a-z]+\.)+\w+)(\(.*\))?")
PATHS = {name.path for module in MODULES for name in names_of(module)}
HOMES: dict[str, str] = {}
for _module in MODULES:
    for _name in names_of(_module):
        HOMES.setdefault(_name.name, _name.path)


def path_of(code: str) -> str | None:
    """The public name that a piece of code is about.

    >>> path_of("it.softmax(x)"), path_of("nn.init.Zeros"), path_of("it.no_such_name")
    ('ingle.tensor.softmax', 'ingle.nn.init.Zeros', None)
    """
    found = NAME.fullmatch(code)
    if not found:
        return None
    first, _, rest = found[1].partition(".")
    path = f"{SHORT.get(first, first)}.{rest}"
    return path if path in PATHS else None


class Links(SphinxPostTransform):
    """Links what is named in a sentence; headings and what is a link already stay."""

    default_priority = 5  # before references are resolved

    def run(self, **kwargs: Any) -> None:
        for code in [*self.document.findall(nodes.literal)]:
            path = path_of(code.astext())
            if path and not isinstance(code.parent, (nodes.reference, pending_xref, nodes.title)):
                link = pending_xref(
                    "", refdomain="py", reftype="obj", reftarget=path, refwarn=False,
                    refdoc=self.env.docname, refexplicit=True,
                )  # fmt: skip
                code.replace_self(link)
                link += code


def to_public_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.reference | None:
    """Annotations name the module that defines a class; its entry is where it is exported."""
    home = HOMES.get(str(node.get("reftarget", "")).rpartition(".")[2])
    if node.get("refdomain") != "py" or home is None:
        return None
    python = env.domains.python_domain
    return python.resolve_xref(env, node["refdoc"], app.builder, "obj", home, node, content)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_post_transform(Links)
    app.connect("missing-reference", to_public_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
