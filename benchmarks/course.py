"""Every table and figure of the course that this machine can reproduce, next to the course's own; for the others, the reason.

    python -m benchmarks.course --table

Digits in the shape of the course's data and a few epochs take the place of 60,000 images and ten epochs. So seconds and
accuracies are not the course's: compare which variant is faster, and by how much. Variants train in turns. `reproduced` counts
figures that were measured here, `with_a_reason` those that need other hardware or software.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict

from benchmarks.course_experiments import EXPERIMENTS, FULL, QUICK, Row
from benchmarks.machine_line import report


def as_table(rows: list[Row]) -> str:
    """The rows as Markdown.

    >>> print(as_table(rows))
    """
    lines = ["| chapter | figure | the course | here |", "|---|---|---|---|"]
    lines += [
        f"| {row.chapter} | {row.figure} | {row.reference} | {row.here or f'not measured: {row.why_not}'} |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="less than a minute, and nothing is written")
    arguments.add_argument("--table", action="store_true", help="print the table, too")
    given = arguments.parse_args()
    scale = QUICK if given.quick else FULL
    rows: list[Row] = []
    figures: dict[str, float] = {}
    for experiment in EXPERIMENTS:
        began = time.perf_counter()
        rows += experiment(scale)
        figures[f"{experiment.__name__}_s"] = round(time.perf_counter() - began, 1)
        sys.stderr.write(f"{experiment.__name__}: {figures[f'{experiment.__name__}_s']} s\n")
    rows.sort(key=lambda row: row.chapter)
    if given.table:
        sys.stdout.write(as_table(rows) + "\n")
    figures |= {
        "reproduced": float(sum(not row.why_not for row in rows)),
        "with_a_reason": float(sum(bool(row.why_not) for row in rows)),
    }
    report("course", figures, is_full_run=not given.quick, rows=[asdict(row) for row in rows])


if __name__ == "__main__":
    main()
