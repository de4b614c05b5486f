"""Start children from one thread that lives for ever.

Linux ties the parent-death signal to the *thread* that forked: a worker started from a trial's thread would die with that
thread. So every child is started by this one daemon thread, which ends only with the kernel.
"""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack

from accel.errors import AccelError
from accel.processes.kernel_folder import own_kernel_folder
from accel.processes.process_tree import MarkedProcess
from accel.processes.start import Start
from accel.processes.starting_mask import binding_variables, starting_mask

_Request = tuple["Future[tuple[MarkedProcess, socket.socket]]", "list[str]", Start]
_requests: queue.SimpleQueue[_Request] = queue.SimpleQueue()
_lock = threading.Lock()
_thread: threading.Thread | None = None


def spawn(start: Start, *, module: str, words: Sequence[str]) -> tuple[MarkedProcess, socket.socket]:
    """Start one child; returns its process and our end of its socket pair.

    >>> process, end = spawn(Start(), module="accel.workers.worker_main", words=("0",))

    Standard output and error are one pipe, which the caller must drain.
    The child is `python -m module DESCRIPTOR KERNEL_PID *words`.
    """
    global _thread
    with _lock:
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_serve, name="accel-spawner", daemon=True)
            _thread.start()
    own_kernel_folder()
    started: Future[tuple[MarkedProcess, socket.socket]] = Future()
    _requests.put((started, [start.interpreter, "-u", "-m", module, *words], start))
    try:
        return started.result()
    except (OSError, ValueError) as error:  # a value with a zero byte is a ValueError
        raise _no_process_for(error, start) from error


def _no_process_for(error: OSError | ValueError, start: Start) -> AccelError:
    """Why none could be started, and what to do."""
    if isinstance(error, FileNotFoundError):
        return AccelError(
            f"Starting a process of {start.environment or 'accel'}", because=f"its Python is gone: {start.interpreter}",
            do=f"Remove the environment and make it again: %accel env remove {start.environment}."
            if start.environment
            else "Restart the kernel.",
        )  # fmt: skip
    return AccelError(
        "Starting a process of accel's own",
        because=f"the system refuses: {getattr(error, 'strerror', None) or error}",
        do="Close what holds many files or processes open, or raise the limit (ulimit -n, ulimit -u), then try again.",
    )


def _serve() -> None:
    while True:
        future, command, start = _requests.get()
        try:
            _undo_narrowing()
            future.set_result(_popen(command, start))
        except BaseException as error:
            future.set_exception(error)


def _undo_narrowing() -> None:
    """Where OpenMP narrowed the main thread's mask, this thread has inherited it: a child begins with the mask that the
    notebook began with, and has its own OpenMP narrow it as it did the notebook's.
    """
    if sys.platform == "linux" and binding_variables():
        os.sched_setaffinity(0, starting_mask())


def _popen(command: list[str], start: Start) -> tuple[MarkedProcess, socket.socket]:
    ours, theirs = socket.socketpair()
    program, words = command[:4], command[4:]
    with theirs, ExitStack() as where_it_fails:
        where_it_fails.callback(ours.close)
        process = MarkedProcess(
            [*program, str(theirs.fileno()), str(os.getpid()), *words],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=start.of_child(os.environ),
            start_new_session=True,  # the notebook's Ctrl-C goes to the kernel's group; we stop children on purpose
        )
        where_it_fails.pop_all()
    return process, ours
