"""An interpreter that has imported what children import, and forks one for each request; it has one thread.

    python -m tests.forked.server <descriptor of its socket> <CPUs, as 0,1, or -> <room for the words of a child>

A request is one packet: JSON, and four descriptors (output, standard input, the child's socket, a pipe for how it ended).
The child answers it, with its process id, as soon as it can be signalled.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import random
import runpy
import selectors
import signal
import socket
import sys
import tempfile
from typing import Any, NoReturn

IMPORTED = (
    "torch._dynamo", "torch._inductor.config", "torch.distributed", "torch.nn.parallel", "torch.utils.data", "accel.plans.plan",
    "accel.distributed.cells.run_in_rank", "accel.workers.evaluating", "accel.workload.discovery", "accel.workload.shipping",
)  # fmt: skip
MARK = "ACCEL_PROCESS"
_PACKET_BYTES = 1 << 20


def serve(ask: socket.socket) -> None:
    """Fork children until the other end is closed; report how each ended."""
    own = {int(each) for each in os.listdir("/proc/self/fd")}
    ended: dict[int, tuple[int, int]] = {}  # by the child's pidfd: its id, the pipe to write to
    with selectors.DefaultSelector() as ready:
        ready.register(ask, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fd in ended:
                    ready.unregister(key.fd)
                    _report(key.fd, *ended.pop(key.fd))
                    continue
                packet, descriptors, _, _ = socket.recv_fds(ask, _PACKET_BYTES, 4)
                if not packet:
                    return
                *given, status = descriptors
                if not (pid := os.fork()):
                    ready.close()
                    _become_child(json.loads(packet), given, ask, own)
                for each in given:
                    os.close(each)
                pidfd = os.pidfd_open(pid)
                ended[pidfd] = (pid, status)
                ready.register(pidfd, selectors.EVENT_READ)


def _report(pidfd: int, pid: int, pipe: int) -> None:
    _, status = os.waitpid(pid, 0)
    os.close(pidfd)
    with contextlib.suppress(BrokenPipeError):  # who asked is gone
        os.write(pipe, str(os.waitstatus_to_exitcode(status)).encode())
    os.close(pipe)


def _become_child(request: dict[str, Any], given: list[int], ask: socket.socket, own: set[int]) -> NoReturn:
    """Leave by sys.exit, as an interpreter does at its end."""
    os.setsid()
    answer = socket.socket(fileno=os.dup(ask.fileno()))
    output, nothing, end = given
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    for each in {int(fd) for fd in os.listdir("/proc/self/fd")} - own - {end, answer.fileno()}:
        with contextlib.suppress(OSError):  # it was the listing's own
            os.close(each)
    ask.close()
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # where the child's own environment says
    os.chdir(request["folder"])
    sys.path[0] = request["folder"]
    _seed_as_new()
    module, *words = request["words"]
    sys.argv = [module, str(end), str(os.getppid()), *words]
    _be_seen_as([sys.executable, "-u", "-m", *sys.argv], request["environment"][MARK])
    answer.send(str(os.getpid()).encode())
    answer.close()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    sys.exit()


def _seed_as_new() -> None:
    random.seed()
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()


def _be_seen_as(command: list[str], mark: str) -> None:
    """Show these words in the list of processes, and this mark in what the system shows of the environment."""
    with open("/proc/self/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    words_at, words_end, variables_at, variables_end = map(int, fields[45:49])
    words = "\0".join(command).encode()[: words_end - words_at - 1]
    ctypes.memmove(words_at, words.ljust(words_end - words_at, b"\0"), words_end - words_at)
    before = ctypes.string_at(variables_at, variables_end - variables_at)
    at = before.index(f"{MARK}=".encode()) + len(MARK) + 1
    ctypes.memmove(variables_at + at, mark.encode(), len(mark))


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        os.set_inheritable(asked.fileno(), False)
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if sys.argv[2] != "-":
            os.sched_setaffinity(0, map(int, sys.argv[2].split(",")))
        for name in IMPORTED:
            importlib.import_module(name)
        serve(asked)
