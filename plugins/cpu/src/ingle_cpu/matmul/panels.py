"""The kernel that packs all panels of an operand: a walk over batch, slabs of k and panels."""

from __future__ import annotations

from ingle.fusion.device.llvm import Values, Writer

SLAB = 32
"""How much of k is packed at once: so many rows are read side by side, panel after panel."""
PANEL_ARGS = (
    "panels",  # of one matrix
    "slabs",  # in which depth is divided
    "slab",  # depth of one of these
    "depth",
    "count",  # along i, all panels together
    "width",  # of a panel
    "last_width",  # of the last one
    "outer",  # bytes from one k to the next
    "inner",  # bytes from one i to the next
    "to_matrix",  # bytes of a packed matrix
    "batch1", "batch2",  # sizes of the inner batch axes
    "from0", "from1", "from2",  # bytes along batch axes
)  # fmt: skip
"""The arguments of `pack_panels`, int64 each; its pointers are the source and the panels."""


def write_panels(pack: str, w: Writer, size: int) -> None:
    """Writes the kernel: a unit is a slab of a panel of a matrix."""
    source = w.let("source", "load ptr, ptr %pointers, align 8")
    place = w.let("slot", "getelementptr ptr, ptr %pointers, i64 1")
    panels_at = w.let("panels", f"load ptr, ptr {place}, align 8")
    arg: dict[str, str] = {}
    for number, what in enumerate(PANEL_ARGS):
        place = w.let("arg", f"getelementptr i64, ptr %args, i64 {number}")
        arg[what] = w.let(what, f"load i64, ptr {place}, align 8")

    def unit(u: str, _: Values) -> Values:
        panel = w.let("panel", f"urem i64 {u}, {arg['panels']}")
        rest = w.let("rest", f"udiv i64 {u}, {arg['panels']}")
        slab = w.let("slab", f"urem i64 {rest}, {arg['slabs']}")
        matrix = w.let("matrix", f"udiv i64 {rest}, {arg['slabs']}")
        last = w.let("b2", f"urem i64 {matrix}, {arg['batch2']}")
        rest = w.let("rest", f"udiv i64 {matrix}, {arg['batch2']}")
        middle = w.let("b1", f"urem i64 {rest}, {arg['batch1']}")
        first = w.let("b0", f"udiv i64 {rest}, {arg['batch1']}")
        k = w.let("k", f"mul i64 {slab}, {arg['slab']}")
        i = w.let("i", f"mul i64 {panel}, {arg['width']}")
        here = source
        steps = [(first, "from0"), (middle, "from1"), (last, "from2"), (k, "outer"), (i, "inner")]
        for index, stride in steps:
            step = w.let("step", f"mul i64 {index}, {arg[stride]}")
            here = w.let("here", f"getelementptr i8, ptr {here}, i64 {step}")
        depth, count = (
            w.call(
                "size", "i64", "llvm.smin.i64",
                f"i64 {w.let('left', f'sub i64 {arg[total]}, {start}')}", f"i64 {arg[most]}",
            )
            for total, start, most in (("depth", k, "slab"), ("count", i, "width"))
        )  # fmt: skip
        next_panel = w.let("next", f"add i64 {panel}, 1")
        is_last = w.let("last", f"icmp eq i64 {next_panel}, {arg['panels']}")
        widths = f"i64 {arg['last_width']}, i64 {arg['width']}"
        width = w.let("width", f"select i1 {is_last}, {widths}")
        before = w.let("before", f"mul i64 {i}, {arg['depth']}")
        inside = w.let("inside", f"mul i64 {k}, {width}")
        numbers = w.let("bytes", f"mul i64 {w.let('sum', f'add i64 {before}, {inside}')}, {size}")
        skip = w.let("skip", f"mul i64 {matrix}, {arg['to_matrix']}")
        there = w.let("there", f"getelementptr i8, ptr {panels_at}, i64 {numbers}")
        there = w.let("there", f"getelementptr i8, ptr {there}, i64 {skip}")
        w.do(
            f"call void @{pack}(ptr {here}, i64 {arg['outer']}, i64 {arg['inner']}, "
            f"i64 {depth}, i64 {count}, i64 {width}, ptr {there})"
        )
        return []

    w.loop("unit", "%begin", "%end", "1", [], unit)
    w.do("ret void")
