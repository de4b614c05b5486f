"""Measurements behind the project's claims; each is `python -m benchmarks.<name>`."""

import os

os.environ.setdefault("ACCEL_HISTORY", "off")  # these trials are not the user's
