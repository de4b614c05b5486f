"""Make the pictures of the documentation anew, from runs on this machine: `python docs/pictures/make.py [panel …]`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]


def main() -> int:
    """Run the pages that take the pictures, in JupyterLab in Chromium, as the browser tests do; names on the line choose."""
    chosen = sys.argv[1:] or ["panel", "profile", "cores", "topology", "ranks"]
    pages = {
        "panel": "pictures_of_the_panel.py", "profile": "pictures_of_a_profile.py", "cores": "pictures_of_the_core_map.py",
        "topology": "pictures_of_a_topology.py", "ranks": "pictures_of_ranks.py",
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", *(f"tests/browser/{pages[name]}" for name in chosen)]
    return subprocess.run(
        command, cwd=REPOSITORY, env={**os.environ, "ACCEL_SCREENSHOTS": str(HERE)}
    ).returncode


if __name__ == "__main__":
    raise SystemExit(main())
