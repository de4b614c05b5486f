"""Start children as forks of an interpreter that began in the same environment, on the same CPUs."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import secrets
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any

from accel.machine.cpu import parse_cpu_list
from accel.processes.process_tree import MarkedProcess
from accel.processes.starting_mask import BINDING
from tests.forked.server import MARK

# Children that differ in these can share a server: they are read as a child runs. One is read at import too, for torch's cache of
# precompiled code, which no test turns on.
_OWN_TO_A_CHILD = {
    MARK, "ACCEL_FOLDER", "ACCEL_HISTORY", "ACCEL_PRIVATE_DISK", "IPYTHONDIR", "PYTEST_CURRENT_TEST", "RANK", "TMPDIR",
    "TORCHINDUCTOR_CACHE_DIR", "XDG_CACHE_HOME",
}  # fmt: skip
_SERVERS = 4  # at most: each has the memory of torch
_RANK = "accel.distributed.ranks."
_ROOT = Path(__file__).parents[2]
_Start = tuple[tuple[tuple[str, str], ...], str, tuple[object, ...]]


def _inherited() -> tuple[object, ...]:
    """What a child has from this process without its environment: CPUs, rights of new files, number of open files."""
    umask = Path("/proc/self/status").read_text().partition("Umask:")[2].split()[0]
    return tuple(sorted(os.sched_getaffinity(0))), umask, resource.getrlimit(resource.RLIMIT_NOFILE)


def _readable(descriptors: Sequence[int], timeout: float | None = None) -> list[int]:
    """Those that can be read, at the latest after so many seconds; any number may stand in a descriptor."""
    waiting = select.poll()
    for each in descriptors:
        waiting.register(each, select.POLLIN)
    return [each for each, _ in waiting.poll(None if timeout is None else timeout * 1000)]


class ForkedProcess:
    """What accel asks of a `MarkedProcess`, of a child that a server has forked."""

    def __init__(
        self, server: Server, words: Sequence[str], environment: Mapping[str, str], end: int
    ) -> None:
        self.mark = environment[MARK]
        self.returncode: int | None = None
        self._reads = threading.Lock()
        output, theirs = os.pipe()
        self._ended, status = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            self.pid = server.fork(words, environment, (theirs, nothing, end, status), self._ended)
        finally:
            for each in (theirs, nothing, status):
                os.close(each)
        self.stdout = FileIO(output)

    def poll(self) -> int | None:
        """Its exit status, or minus its signal; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The same, when it has ended."""
        while self.returncode is None:
            if not _readable([self._ended], timeout):
                raise subprocess.TimeoutExpired("a forked child", timeout or 0.0)
            with self._reads:
                if self.returncode is None:  # no other thread was faster
                    self.returncode = int(os.read(self._ended, 16) or b"-9")
        return self.returncode

    def __del__(self) -> None:
        os.close(self._ended)


class Server:
    """One such interpreter."""

    def __init__(self, environment: Mapping[str, str], cpus: str) -> None:
        self._asked, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        room = " " * 200  # for the words that its children are seen by
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-m", "tests.forked.server", str(theirs.fileno()), cpus, room],
                pass_fds=[theirs.fileno()], cwd=_ROOT, env={**environment, MARK: "0" * 32}, start_new_session=True,
            )  # fmt: skip
        self._lock = threading.Lock()
        self._children: list[ForkedProcess] = []

    @property
    def is_idle(self) -> bool:
        """Whether none of its children lives."""
        return all(child.poll() is not None for child in self._children)

    def start(self, words: Sequence[str], environment: Mapping[str, str], end: int) -> ForkedProcess:
        """A child that runs a module."""
        self._children = [child for child in self._children if child.poll() is None]
        self._children.append(child := ForkedProcess(self, words, environment, end))
        return child

    def fork(
        self, words: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[int], ended: int
    ) -> int:
        """Its process id, when it can be signalled; `ended` is readable when it is over."""
        request = {"words": words, "environment": dict(environment), "folder": os.getcwd()}
        with self._lock:
            socket.send_fds(self._asked, [json.dumps(request).encode()], descriptors)
            if self._asked.fileno() not in _readable([self._asked.fileno(), ended]):
                raise OSError(f"the forked child for {words[0]} ended before it began")
            return int(self._asked.recv(64))

    def close(self) -> None:
        """End it."""
        self._process.kill()  # loader workers of the tests hold our end of its socket open
        self._process.wait()
        self._asked.close()


class Servers:
    """One for each environment and set of CPUs in which children start."""

    def __init__(self) -> None:
        self._kept: dict[_Start, Server] = {}

    def start(
        self, command: Sequence[str], *, env: Mapping[str, str], pass_fds: Sequence[int], **more: Any
    ) -> ForkedProcess | MarkedProcess:
        """In place of `MarkedProcess`: a fork where a fresh interpreter would have been the same."""
        words, (end,) = command[3:], pass_fds
        if list(command[:3]) != [sys.executable, "-u", "-m"] or any(env.get(name) for name in BINDING):
            return MarkedProcess(command, env=env, pass_fds=pass_fds, **more)
        module, _, _, *own = words
        cpus = ",".join(map(str, parse_cpu_list(own[1]))) if module.startswith(_RANK) and own[1] else "-"
        shared = {name: value for name, value in env.items() if name not in _OWN_TO_A_CHILD}
        start = (tuple(sorted(shared.items())), cpus, _inherited())
        if start not in self._kept:
            self._make_room()
        server = self._kept[start] = self._kept.pop(start, None) or Server(shared, cpus)  # the last one used
        return server.start([module, *own], {**env, MARK: secrets.token_hex(16)}, end)

    def _make_room(self) -> None:
        for start, server in list(self._kept.items()):
            if len(self._kept) >= _SERVERS and server.is_idle:
                self._kept.pop(start).close()

    def close(self) -> None:
        """End all of them."""
        for server in self._kept.values():
            server.close()
