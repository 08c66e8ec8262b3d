"""Compares two runs: `python bench/compare.py old.json new.json`.

Prints how many times faster each row of the new run is, by the median and by the quickest call,
slowest first. Exits with 1 if one of Ingle's rows is slower than `--limit` allows by both: a median
alone may have met a busy machine. Compare runs of one machine only.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

Times = tuple[float, float]
"""The median and the least seconds of a row."""


def read(file: str) -> dict[tuple[str, str], Times]:
    """Times by workload and system."""
    rows = json.loads(Path(file).read_text("utf-8"))
    return {(r["workload"], r["system"]): (r["median_s"], r["min_s"]) for r in rows}


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare two runs of bench/run.py.")
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--limit", type=float, default=0.8, help="the least allowed new/old speed")
    asked = parser.parse_args()
    old, new = read(asked.old), read(asked.new)
    both = sorted(
        (old[key][0] / new[key][0], old[key][1] / new[key][1], key)
        for key in old.keys() & new.keys()
    )
    print(f"{'':50s} {'median µs':>27s} {'':9s} {'speed':>7s} {'by min':>7s}")
    for speed, least, key in both:
        before, after = old[key][0] * 1e6, new[key][0] * 1e6
        print(
            f"{key[0]:34s} {key[1]:15s} {before:13.2f} -> {after:13.2f} "
            f"{'':6s} {speed:6.2f}x {least:6.2f}x"
        )
    for kind, keys in (
        ("only old", old.keys() - new.keys()),
        ("only new", new.keys() - old.keys()),
    ):
        for workload, system in sorted(keys):
            print(f"{workload:34s} {system:15s} {kind}")
    ours = [(speed, least) for speed, least, key in both if key[1].startswith("ingle")]
    return 1 if any(max(pair) < asked.limit for pair in ours) else 0


if __name__ == "__main__":
    sys.exit(main())
