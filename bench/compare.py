"""Compares two runs: `python bench/compare.py old.json new.json`.

Prints how many times faster each row of the new run is, slowest first, and exits with 1 if one of
Ingle's rows is slower than `--limit` allows. Compare runs of one machine only.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def read(file: str) -> dict[tuple[str, str], float]:
    """Medians by workload and system."""
    rows = json.loads(Path(file).read_text("utf-8"))
    return {(r["workload"], r["system"]): r["median_s"] for r in rows}


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare two runs of bench/run.py.")
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--limit", type=float, default=0.8, help="the least allowed new/old speed")
    asked = parser.parse_args()
    old, new = read(asked.old), read(asked.new)
    both = sorted((old[key] / new[key], key) for key in old.keys() & new.keys())
    for speed, (workload, system) in both:
        print(f"{workload:34s} {system:15s} {old[workload, system] * 1e6:13.2f} µs -> "
              f"{new[workload, system] * 1e6:13.2f} µs  {speed:6.2f}x")  # fmt: skip
    for kind, keys in (
        ("only old", old.keys() - new.keys()),
        ("only new", new.keys() - old.keys()),
    ):
        for workload, system in sorted(keys):
            print(f"{workload:34s} {system:15s} {kind}")
    slower = [key for speed, key in both if speed < asked.limit and key[1].startswith("ingle")]
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
