"""One child as the kernel sees it: its start, its socket, what it prints, where it stands, how it ended, and its end."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import IO, Any, ClassVar

import psutil

from accel.processes.channel import Channel
from accel.processes.kernel_folder import FOLDER, KernelFolder
from accel.processes.process_tree import end_tree, signal_all
from accel.processes.spawner import spawn
from accel.processes.start import Start

PAST_THE_CELL = "  past the cell: it is about to say how that ended"
_STANDS_S = 5.0  # at most, for faulthandler to print where a child stands
_EXIT_S = 10.0  # at most, from a closed connection to the end of the process, on a busy machine
_AT_WORK_S = 2.0  # of these, at most, in which it has memory still, and sleeps or has a CPU
_LOOK_S = 0.1
_DRAIN_S = 2.0  # at most, for what an ended process printed to be read
_LAST_WORDS_S = 0.5  # longer where a process that it started holds on to its output
AS_THE_KERNEL = Start()
_BOTTOM = "in _run_module_as_main"  # the outermost line of an interpreter started with -m
_alive: weakref.WeakSet[Child] = weakref.WeakSet()


class Output(threading.Thread):
    """Drain a child's output so that it never blocks, and keep its end for error messages.

    >>> output = Output(process.stdout); output.text
    """

    _KEPT_BYTES = 64 << 10

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(name="accel-child-output", daemon=True)
        self._stream, self._kept, self.bytes_read = stream, b"", 0
        self._came = threading.Condition()
        self.start()

    def run(self) -> None:
        with self._stream:
            while data := os.read(self._stream.fileno(), 65536):
                self._take(data)

    def _take(self, data: bytes) -> None:
        with self._came:
            self.bytes_read += len(data)
            self._kept = (self._kept + data)[-self._KEPT_BYTES :]
            self._came.notify_all()

    @property
    def text(self) -> str:
        """The end of everything that was printed."""
        return self._kept.decode(errors="replace")

    def since(self, bytes_read: int) -> str:
        """What came after so many bytes, as far as it is kept."""
        new = self.bytes_read - bytes_read
        return self._kept[-new:].decode(errors="replace") if new > 0 else ""

    def wait_for(self, is_there: Callable[[], bool], timeout_s: float) -> None:
        """Wait until something has arrived."""
        with self._came:
            self._came.wait_for(is_there, timeout_s)


class Child:
    """A fresh interpreter that runs a module of ours and says what `incoming` decodes.

    >>> child = Child("accel.machine.peaks.gpus", incoming=Measured, folder=KernelFolder("peaks"))
    >>> child.channel.receive(timeout_s=60.0); child.close()

    It is `python -m module DESCRIPTOR KERNEL_PID *words`, started as `start` says; the module calls `child_main.begin` first.
    """

    outermost_files: ClassVar[
        tuple[str, ...]
    ] = ()  # of ours: what lies further out is the same for all cells

    def __init__(
        self, module: str, *words: str, incoming: Any, folder: KernelFolder, start: Start = AS_THE_KERNEL,
        output: type[Output] = Output,
    ) -> None:  # fmt: skip
        self.folder = folder
        start = replace(start, variables=(*start.variables, (FOLDER, folder.path)))
        try:
            self._process, end = spawn(start, module=module, words=words)
        except BaseException:
            folder.close()
            raise
        self.channel = Channel(end, incoming)
        self.output = output(self._process.stdout)  # type: ignore[arg-type]
        self._lock, self._is_ended = threading.Lock(), False
        _alive.add(self)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return not self._is_ended and self._process.poll() is None

    def signal(self, number: int) -> None:
        """Send it a signal, if it runs: its number is not another process's before it is reaped, which waits for us."""
        with self._lock:
            if self.is_alive:
                signal_all([self.pid], number)

    def ask_where_it_stands(self) -> int:
        """Have its own faulthandler print the Python lines that it is in; `where_it_stands` takes what this returns."""
        before = self.output.bytes_read
        signal_all([self.pid], signal.SIGUSR1)
        return before

    def where_it_stands(self, asked_at: int) -> str:
        """The Python lines that it is in, innermost first, down to the cell's own; in words where it cannot tell."""
        self.output.wait_for(lambda: _BOTTOM in self.output.since(asked_at), _STANDS_S)
        lines = self.output.since(asked_at).splitlines()
        own = [line.strip() for line in lines if line.lstrip().startswith("File ")]
        ours = next(
            (n for n, line in enumerate(own) if any(f in line for f in self.outermost_files)), len(own)
        )
        if own and not ours:
            return PAST_THE_CELL
        if own:
            return "\n".join(f"  {line}" for line in own[:ours])
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(self.pid).status() == psutil.STATUS_STOPPED:
                return "  nowhere: its process is stopped, as by SIGSTOP"
        return "  no Python line answered: it is inside native code that lets no signal in"

    def exit_status(self) -> int | None:
        """Of a child whose socket is closed: its exit status, or minus its signal; None where it runs on without the socket."""
        at_work_s, until = 0.0, time.monotonic() + _EXIT_S
        used_s = _cpu_s(self.pid)
        while at_work_s < _AT_WORK_S and time.monotonic() < until:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = self._process.wait(_LOOK_S)
                self.output.join(_LAST_WORDS_S)  # what it printed last is on its way
                return status
            used_before_s, used_s = used_s, _cpu_s(self.pid)
            if not _is_ending(self.pid):
                at_work_s += _LOOK_S if _sleeps(self.pid) else min(_LOOK_S, used_s - used_before_s)
        return None

    def kill(self) -> None:
        """End the process and everything it started."""
        with self._lock:
            if not self._is_ended:  # else it is reaped, and its number may be somebody else's by now
                end_tree(self._process)
                self._is_ended = True

    def close(self) -> None:
        """End it, let go of the socket and remove its folder; may be called from any thread, and twice."""
        self.kill()
        self.channel.close()
        self.output.join(_DRAIN_S)
        self.folder.close()
        _alive.discard(self)


def _is_ending(pid: int) -> bool:
    """Whether the system takes it apart: its memory goes first, a driver may hold on to the rest for seconds."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).memory_info().rss == 0
    return True


def _sleeps(pid: int) -> bool:
    """Whether it waits for neither a CPU nor a disk."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).status() == psutil.STATUS_SLEEPING
    return False


def _cpu_s(pid: int) -> float:
    """The CPU time of all its threads."""
    with contextlib.suppress(psutil.Error):
        return sum(psutil.Process(pid).cpu_times()[:2])
    return 0.0


def how_it_ended(status: int | None, *, ran_cell: bool = True) -> str:
    """In words, by what `exit_status` gave; what a cell does to end like that is named if the child had a cell."""
    if status is None:
        return "it closed its connection"
    if status >= 0 and not ran_cell:
        return f"its process ended with status {status} while it started, before your cell ran"
    if status >= 0:
        closed = " or closing descriptors that it did not open" if status == 0 else ""
        return f"its process exited with status {status}, as os._exit({status}){closed} in the cell does"
    hint = " (the system may have run out of memory)" if status == -signal.SIGKILL else ""
    names = {each.value: each.name for each in signal.Signals}  # those of real-time signals have no name
    return f"it was killed by {names.get(-status, f'signal {-status}')}{hint}"


@atexit.register
def _end_all() -> None:
    for child in list(_alive):
        if child.folder.is_ours:
            child.close()
