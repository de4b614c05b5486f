"""The stand-in for `scontrol show hostnames` in a rehearsal."""

import os
import sys

for number in range(int(os.environ["REHEARSED_NODES"])):
    sys.stdout.write(f"n{number + 1}\n")
