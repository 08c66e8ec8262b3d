"""Docstrings, whose text is Markdown, as the reStructuredText that Sphinx expects.

What they use of Markdown is code in backticks, lists and links. Sections such as `Args:` are left
to Napoleon, and doctests as they are.
"""

from __future__ import annotations

import re

CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
LINK = re.compile(r"\[([^\]\[]+)\]\((https?://[^)\s]+)\)")
PATH = re.compile(r"ingle(\.\w+)+")
DOCTEST = re.compile(r"^ *>>> .*?(?=\n *\n|\Z)", re.MULTILINE | re.DOTALL)


def to_rst(text: str) -> str:
    """The text with its markup changed; doctests are kept.

    >>> to_rst("`exp(x)`s of *all*, see [Ba](https://a.b)")
    '``exp(x)``\\\\ s of \\\\*all\\\\*, see `Ba <https://a.b>`__'
    """
    done, start = [], 0
    for kept in DOCTEST.finditer(text):
        done += [_prose(text[start : kept.start()]), kept[0]]
        start = kept.end()
    return "".join([*done, _prose(text[start:])])


def _prose(text: str) -> str:
    done, start = [], 0
    for code in CODE.finditer(text):
        done.append(_plain(text[start : code.start()]))
        if code.start() and text[code.start() - 1].isalnum():
            done.append(r"\ ")
        done.append(f":py:obj:`{code[2]}`" if PATH.fullmatch(code[2]) else f"``{code[2]}``")
        start = code.end()
        if start < len(text) and (text[start].isalnum() or text[start] == "_"):
            done.append(r"\ ")
    return "".join([*done, _plain(text[start:])])


def _plain(text: str) -> str:
    """Text outside of code: links, and what reStructuredText would take for markup, escaped.

    A star that begins a line is left alone: it is one of `*args` in a list of arguments.
    """
    done, start = [], 0
    for link in LINK.finditer(text):
        done += [_escaped(text[start : link.start()]), f"`{link[1]} <{link[2]}>`__"]
        start = link.end()
    return "".join([*done, _escaped(text[start:])])


def _escaped(text: str) -> str:
    text = re.sub(r"(?<!^)(?<!\n)(?<![\n ] )([\\*|])", r"\\\1", text)
    return re.sub(r"(\w)_(?!\w)", r"\1\\_", text)
