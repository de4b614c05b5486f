"""What a child does first: it ends with its kernel and before it when memory runs out, and imports torch out of the way."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import os
import platform
import signal
import socket
import sys
import threading
from typing import Any

import msgspec

from accel.errors import AccelError
from accel.processes.channel import Channel
from accel.processes.kernel_folder import keep_multiprocessing_in, own_folder
from accel.processes.start import give_back_preload
from accel.processes.starting_mask import unbind


class Hello(msgspec.Struct, tag="hello", frozen=True):
    """Child → kernel: imported and ready."""

    pid: int
    python: str
    torch: str

    def check_python(self, environment: str) -> None:
        """Functions travel as bytecode, which another minor version of Python cannot run. Raises AccelError."""
        own = f"{sys.version_info.major}.{sys.version_info.minor}"
        if self.python.split(".")[:2] != own.split("."):
            raise AccelError(
                f"A process of {environment or 'accel'}",
                because=f"it has Python {self.python}, and functions travel as bytecode of {own}",
                do=f"Make an environment with Python {own}: %accel env create makes them so.",
            )


def begin(descriptor: int, kernel_pid: int, incoming: Any) -> Channel:
    """Live and die with the kernel, print where it stands on SIGUSR1, leave Ctrl-C to the kernel; gives the channel to it.

    >>> channel = begin(int(sys.argv[1]), int(sys.argv[2]), ToWorker)
    """
    _die_with(kernel_pid)
    give_back_preload()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=False)
    keep_multiprocessing_in(own_folder())
    os.set_inheritable(descriptor, False)  # the user's own child processes must not keep the socket open
    return Channel(socket.socket(fileno=descriptor), incoming)


def become_rank() -> None:
    """Before torch is imported: have CPUs of its own, and listen on this machine alone.

    The notebook's variables would bind every rank to the same first CPU. Gloo and NCCL listen for the other ranks, all of which
    are here: nobody else is to hear of it.
    """
    unbind()
    loopback = "lo" if sys.platform == "linux" else "lo0"
    os.environ.update(GLOO_SOCKET_IFNAME=loopback, NCCL_SOCKET_IFNAME=loopback)


def say_hello(channel: Channel) -> None:
    """Imported and ready. What imports made stays, and no later collection looks through it, in the middle of a step."""
    import torch

    gc.freeze()
    gc.enable()
    channel.send(Hello(pid=os.getpid(), python=platform.python_version(), torch=str(torch.__version__)))


def _die_with(kernel_pid: int) -> None:
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

    From here to `say_hello` no garbage is collected: imports leave none, and five collections would take half a second.
    """
    gc.disable()
    if not (in_background and hasattr(os, "SCHED_IDLE")):
        importlib.import_module("torch._dynamo")
        return

    def import_idly() -> None:
        os.sched_setscheduler(0, os.SCHED_IDLE | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        importlib.import_module("torch._dynamo")

    thread = threading.Thread(target=import_idly)
    thread.start()
    thread.join()
