"""How long `%load_ext accel` takes in a kernel that has torch imported already: fresh processes, median.

`load_ext_s` is the time of the magic alone. `heavy_modules` counts what it must not load and loaded all the same.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from statistics import median
from typing import Any

from benchmarks.machine_line import report

HEAVY = (
    "plotly",
    "ipywidgets",
    "anywidget",
    "pandas",
    "libcst",
    "torchvision",
    "psutil",
    "accel.workers",
    "accel.profiling",
)
KERNEL = """
import json, sys, time
import torch
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("1 + 1", silent=True)
shell.run_line_magic("unload_ext", "not_there")  # IPython loads its own magics for extensions
before = set(sys.modules)
begin = time.perf_counter()
shell.run_line_magic("load_ext", "accel")
seconds = time.perf_counter() - begin
assert "accel" in shell.magics_manager.magics["cell"]
print(json.dumps({"seconds": seconds, "modules": sorted(set(sys.modules) - before)}))
"""


def load_once() -> dict[str, Any]:
    """Seconds, and the modules that came with it, in a fresh process."""
    printed = subprocess.run(
        [sys.executable, "-c", KERNEL], check=True, capture_output=True, text=True
    ).stdout
    result: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return result


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="three processes, and nothing is written")
    quick = arguments.parse_args().quick
    load_once()  # the first process reads the files from disk and writes the byte code
    runs = [load_once() for _ in range(3 if quick else 11)]
    seconds = sorted(run["seconds"] for run in runs)
    heavy = sorted(name for name in HEAVY if name in runs[0]["modules"])
    figures = {
        "load_ext_s": round(median(seconds), 4),
        "load_ext_s_low": round(seconds[0], 4),
        "load_ext_s_high": round(seconds[-1], 4),
        "heavy_modules": len(heavy),
    }
    report(
        "load_ext",
        figures,
        is_full_run=not quick,
        processes=len(runs),
        heavy=heavy,
        modules=len(runs[0]["modules"]),
    )


if __name__ == "__main__":
    main()
