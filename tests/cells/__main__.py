"""The table of outcomes: `python -m tests.cells`, or `python -m tests.cells GAN LBFGS` for cells whose names hold these words.

With `--whole` each trial is `%accel try` itself, with fresh processes: minutes instead of seconds.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter

from tests.cells.cell import COMMANDS, Cell
from tests.cells.corpus import CELLS
from tests.cells.notebook import a_notebook


def main(words: list[str]) -> int:
    """Print a row a cell, and what was refused or wrong; whether anything was wrong is the exit status."""
    os.environ["ACCEL_HISTORY"] = os.devnull
    names = [word for word in words if word != "--whole"]
    chosen = [cell for name, cell in CELLS.items() if not names or any(word in name for word in names)]
    width = max((len(cell.name) for cell in chosen), default=0) + 2
    print(" " * width + "".join(f"{command:<9}" for command in COMMANDS) + "seconds")
    remarks, counts, began = [], Counter[str](), time.monotonic()
    with a_notebook(whole_trials="--whole" in words) as notebook:
        for cell in chosen:
            cell_began = time.monotonic()
            found = notebook.outcomes(cell)
            columns = {command: _word(cell, command, answer) for command, answer in found.items()}
            counts.update(columns.values())
            line = "".join(f"{columns[command]:<9}" for command in COMMANDS)
            print(f"{cell.name:<{width}}{line}{time.monotonic() - cell_began:.1f}", flush=True)
            remarks += [f"{cell.name}, {command}: {told}" for command, told in found.items() if told != "ok"]
    counted = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    print(f"\n{len(chosen)} cells in {time.monotonic() - began:.0f} s: {counted}", *remarks, sep="\n")
    return int(counts["WRONG"] > 0)


def _word(cell: Cell, command: str, answer: str) -> str:
    word = answer.partition(":")[0]
    return "known" if word == "WRONG" and command in cell.awaits else word


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
