"""The table of the seam for devices names each part of it."""

from __future__ import annotations

import re
from pathlib import Path

from ingle.fusion.device import KernelDevice

PAGE = Path(__file__).with_name("devices-for-authors.md")


def test_the_table_has_all_that_plans_ask() -> None:
    table = PAGE.read_text("utf-8").split("## What plans ask")[1].split("\n\n")[2]
    named = {
        name
        for line in table.splitlines()[2:]
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    members = {n for n in vars(KernelDevice) if not n.startswith("_")}
    assert named == members | set(KernelDevice.__annotations__)
