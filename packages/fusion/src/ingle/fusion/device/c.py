"""Nests as C, and what a language of the C family derives from."""

from ..render.c.dialect import C11 as C11
from ..render.c.dialect import Dialect as Dialect
from ..render.c.source import render as render
from ..render.c.source import rendered as rendered
