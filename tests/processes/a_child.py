"""A child for tests: it does as its words say, then waits. The words: crash, raise, children, close (its connection,
alone), compute or stop (after that), or wait."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time

from accel.machine.peaks.measuring_child import Measured
from accel.processes.child_main import begin


def wait_for_ever() -> None:
    """Where a child stands that waits."""
    time.sleep(1000)


def main(descriptor: int, kernel_pid: int, what: str) -> None:
    channel = begin(descriptor, kernel_pid, Measured)
    started = []
    if what == "children":
        command = [sys.executable, "-c", "import time; time.sleep(1000)"]
        started = [subprocess.Popen(command, start_new_session=apart).pid for apart in (False, True)]
    channel.send(Measured({"started": started}))
    if what == "crash":
        ctypes.string_at(0)
    if what == "raise":
        raise ZeroDivisionError("in the child")
    if what in ("close", "compute", "stop"):
        channel.close()
    while what == "compute":
        pass
    if what == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(3)
    wait_for_ever()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
