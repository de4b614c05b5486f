"""The stand-in for `hostname` in a rehearsal."""

import os
import sys

sys.stdout.write(os.environ["SLURMD_NODENAME"] + "\n")
