"""Make the pictures of the panel anew, from a trial on this machine: `python docs/pictures/make.py`, about two minutes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]


def main() -> int:
    """Run the page that takes the pictures, in JupyterLab in Chromium, as the browser tests do."""
    command = [sys.executable, "-m", "pytest", "tests/browser/pictures_of_the_panel.py"]
    return subprocess.run(
        command, cwd=REPOSITORY, env={**os.environ, "ACCEL_SCREENSHOTS": str(HERE)}
    ).returncode


if __name__ == "__main__":
    raise SystemExit(main())
