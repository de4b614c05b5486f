"""The trainings and cases of the catalogue's contract are shared with the tests on the CPU."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "accelerations"))
