"""One worker as the kernel sees it: send, receive, and a clear error for every way in which it can end."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from typing import ClassVar, TypeVar

import msgspec

from accel.errors import AccelError, NotShippable, WorkerError
from accel.workers.kernel_folder import KernelFolder
from accel.workers.messages import Channel, Closed, Failed, FromWorker, Hello
from accel.workers.process_tree import end_tree
from accel.workers.spawner import Output, spawn

_START_TIMEOUT_S = 120.0
_alive: weakref.WeakSet[Worker] = weakref.WeakSet()
_home = os.getpid()
_Message = TypeVar("_Message")


class Worker:
    """A process that steps a workload; `label` names it in errors.

    >>> worker = Worker(); worker.wait_until_ready(); worker.close()
    """

    usual_start_s: ClassVar[float] = 5.0  # what starting took, the last time that somebody waited for it

    def __init__(
        self,
        python: str = sys.executable,
        environment: dict[str, str] | None = None,
        *,
        in_background: bool = False,
    ) -> None:
        self.label = "worker"
        self._began, self._is_spare = time.monotonic(), in_background
        self.environment = dict(os.environ)  # what it was started with
        self._folder = KernelFolder("trial")
        try:
            words = (str(int(in_background)), self._folder.path)
            self._process, end = spawn(python, environment, words=words)
        except BaseException:
            self._folder.close()
            raise
        self._channel = Channel(end, FromWorker)
        self._output = Output(self._process.stdout)  # type: ignore[arg-type]
        self._lock, self._is_ended = threading.Lock(), False
        self.hello: Hello | None = None
        _alive.add(self)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def is_ready(self) -> bool:
        """Whether its imports are over."""
        return self.is_alive and (self.hello is not None or self._channel.has_more)

    def wait_until_ready(self) -> None:
        """Wait for the worker's imports to be over."""
        if self.hello is None:
            self.hello = self.receive(Hello, timeout_s=_START_TIMEOUT_S)
            if not self._is_spare:
                Worker.usual_start_s = time.monotonic() - self._began

    def send(self, message: msgspec.Struct, blob: bytes = b"", descriptor: int | None = None) -> None:
        try:
            self._channel.send(message, blob, descriptor)
        except Closed:
            raise self._lost() from None

    def receive(self, kind: type[_Message], *, timeout_s: float) -> _Message:
        """The worker's next message, which must be of this kind.

        Raises WorkerError with the worker's traceback when it failed, its signal when it was killed, and where it stands
        when it gave no answer in time (it is ended then).
        """
        try:
            message, _, _ = self._channel.receive(timeout_s)
        except TimeoutError:
            raise self._stuck(timeout_s) from None
        except Closed:
            raise self._lost() from None
        if isinstance(message, Failed):
            raise self._failed(message)
        if not isinstance(message, kind):
            raise self._failed(Failed("ProtocolError", f"expected {kind.__name__}, got {message!r}", ""))
        return message

    def _failed(self, failed: Failed) -> AccelError:
        if failed.asked:
            return AccelError(failed.asked, because=failed.because, do=failed.do)
        if failed.kind == "NotShippable":
            return NotShippable(self.label, because=failed.message, do="Profile the cell again.")
        return WorkerError(
            f"The {self.label} worker ran your cell",
            because=": ".join(filter(None, (f"it raised {failed.kind}", failed.said))),
            do=_advice(failed),
            traceback_text=failed.traceback,
        )

    def _stuck(self, timeout_s: float) -> WorkerError:
        before = self._output.bytes_read
        os.kill(self.pid, signal.SIGUSR1)  # faulthandler prints where it stands
        time.sleep(0.3)
        stands = self._output.since(before).strip() or "no Python frame answered: it is inside native code"
        self.kill()
        return WorkerError(
            f"The {self.label} worker was stepped",
            because=f"it gave no answer within {timeout_s:.0f} s and was ended",
            do="Look at the line above; if the step only takes long, try again with a longer --timeout-s.",
            traceback_text=f"It stands here:\n{stands}",
        )

    def _lost(self) -> WorkerError:
        try:
            code = self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.returncode
        how, do = _ending(code) if self.hello is not None or code < 0 else _NOT_STARTED
        time.sleep(0.05)
        self.close()
        return WorkerError(
            f"The {self.label} worker was stepped",
            because=how,
            do=f"{do} The notebook and its objects are as they were.",
            traceback_text=self._output.text[-4000:],
        )

    def kill(self) -> None:
        """End the process and everything it started."""
        with self._lock:
            if self._is_ended:  # the process is reaped and its number may be somebody else's by now
                return
            end_tree(self._process)
            self._is_ended = True

    def close(self) -> None:
        """End the process and let go of the socket."""
        self.kill()
        self._channel.close()
        self._folder.close()
        _alive.discard(self)


def _ending(code: int) -> tuple[str, str]:
    """How a process ended, and what to do, by its exit code."""
    if code >= 0:
        closed = " or closing descriptors that it did not open" if code == 0 else ""
        return (
            f"its process exited with status {code}, as os._exit({code}){closed} in the cell does",
            "A trial runs the cell again and again in a process of its own: leave what ends the process out of it.",
        )
    name = signal.Signals(-code).name
    if code == -signal.SIGKILL:
        return (
            f"it was killed by {name} (the system may have run out of memory)",
            "Free some memory or use a smaller batch if that was the cause, then try again.",
        )
    return f"it was killed by {name}", "The lines above, if any, are what it printed last."


_NOT_STARTED = (
    "its process ended while it started, before your cell ran",
    "The lines above say why: mend that, then try again.",
)


def _advice(failed: Failed) -> str:
    if "can't allocate memory" in failed.message or failed.kind in ("MemoryError", "OutOfMemoryError"):
        return "It ran out of memory: a trial holds one copy of the model per plan; try fewer plans at once or a smaller batch."
    return "The traceback above shows the line in your cell; your notebook's own objects are unchanged."


@atexit.register
def _end_all() -> None:
    if os.getpid() == _home:  # not in a process that the user's own code forked
        for worker in list(_alive):
            worker.close()
