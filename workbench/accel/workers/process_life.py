"""How a worker lives: it ends with its kernel and before it when memory runs out, and imports torch without being in the way."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import sys
import threading


def die_with(kernel_pid: int) -> None:
    """End with the kernel; loader workers, which may be frozen then, end with us; and memory runs out here first.

    What our children leave behind becomes ours (`PR_SET_CHILD_SUBREAPER`), so that who ends us finds it (`process_tree.py`).
    """
    if sys.platform == "linux":
        die_with_parent = ctypes.CDLL(None).prctl
        die_with_parent(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        die_with_parent(36, 1)  # PR_SET_CHILD_SUBREAPER
        os.register_at_fork(after_in_child=lambda: die_with_parent(1, signal.SIGKILL))
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
            score.write("1000")  # when memory runs out, the system ends a worker and not the notebook
        if os.getppid() != kernel_pid:  # it died before we asked
            os._exit(1)


def import_torch(in_background: bool) -> None:
    """Import torch, and what the first optimizer would import inside the first step.

    A spare does so in a thread that runs only while nobody else wants the cores: the user's own cell may be running and
    timed. A thread, because nobody but root may leave SCHED_IDLE again; what it starts itself is back to normal.
    """
    if not (in_background and hasattr(os, "SCHED_IDLE")):
        importlib.import_module("torch._dynamo")
        return

    def import_idly() -> None:
        os.sched_setscheduler(0, os.SCHED_IDLE | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        importlib.import_module("torch._dynamo")

    thread = threading.Thread(target=import_idly)
    thread.start()
    thread.join()
