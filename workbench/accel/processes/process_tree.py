"""A process and all that it started, wherever that went: ended together, by their ids."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psutil

_PATIENCE_S = 2.0
_ENDING_S = 10.0  # a killed process is gone at once, unless a driver or a disk holds it
_MARK = "ACCEL_PROCESS"


class MarkedProcess(subprocess.Popen[bytes]):
    """A process of ours. What it starts inherits a mark with the environment, and is found by it when the process is gone."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], **more: Any) -> None:
        self.mark = secrets.token_hex(16)
        super().__init__(command, env={**env, _MARK: self.mark}, **more)


def end_tree(process: MarkedProcess) -> None:
    """End a worker, what it started, and what that started, also in a session of its own (`Popen(start_new_session=True)`).

    >>> end_tree(process)

    The worker adopts what its children leave (child_main.py), and is stopped first: it starts nothing more, and no id of a
    child can become another process's while nobody waits for it. Of a worker that ended by itself, what bears its mark ends.
    """
    with contextlib.suppress(ProcessLookupError):
        if process.poll() is None:
            os.kill(process.pid, signal.SIGSTOP)
            until = time.monotonic() + _PATIENCE_S
            while (found := living_descendants(process.pid)) and time.monotonic() < until:
                for each in found:
                    with contextlib.suppress(psutil.Error):  # it is gone, or another user's (sudo)
                        each.kill()
        else:
            _end_marked(f"{_MARK}={process.mark}".encode())
    with contextlib.suppress(ProcessLookupError):  # of a worker that is gone, its group
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):  # the system ends it when it can
        process.wait(_ENDING_S)


def _end_marked(mark: bytes) -> None:
    """Whoever inherited it and is no child of ours any more; again, as one may have started another since."""
    until = time.monotonic() + _PATIENCE_S
    while sys.platform == "linux" and sum(_end_if_marked(pid, mark) for pid in psutil.pids()):
        if time.monotonic() > until:
            return
        time.sleep(0.01)


def _end_if_marked(pid: int, mark: bytes) -> bool:
    """The descriptor is opened first: if the number has become another process's since, the signal reaches nobody."""
    with contextlib.suppress(OSError):  # it is gone, or somebody else's
        descriptor = os.pidfd_open(pid)
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                    return True
        finally:
            os.close(descriptor)
    return False


def living_descendants(pid: int | None = None) -> list[psutil.Process]:
    """What runs beneath a process (default: this one), however deep; not what has ended and is only waited for."""
    with contextlib.suppress(psutil.Error):
        return [each for each in psutil.Process(pid).children(recursive=True) if _lives(each)]
    return []


def forked_children() -> set[int]:
    """What multiprocessing started here and still runs, such as the workers of loaders."""
    return {child.pid for child in multiprocessing.active_children() if child.pid}


def signal_all(pids: Iterable[int], number: int) -> None:
    """Send a signal to each that still runs."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD))
    except psutil.Error:
        return False
