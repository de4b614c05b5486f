"""One worker as the kernel sees it: send, receive, and a clear error for every way in which it can end."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from typing import TypeVar

import msgspec

from accel.errors import AccelError, NotShippable, WorkerError
from accel.workers.messages import Channel, Closed, Failed, FromWorker, Hello
from accel.workers.spawner import Output, spawn

_START_TIMEOUT_S = 120.0
_alive: weakref.WeakSet[Worker] = weakref.WeakSet()
_home = os.getpid()
_Message = TypeVar("_Message")


class Worker:
    """A process that steps a workload; `label` names it in errors.

    >>> worker = Worker(); worker.wait_until_ready(); worker.close()
    """

    def __init__(
        self,
        python: str = sys.executable,
        environment: dict[str, str] | None = None,
        *,
        in_background: bool = False,
    ) -> None:
        self.label = "worker"
        self.environment = dict(os.environ)  # what it was started with
        self._process, end = spawn(python, environment, words=(str(int(in_background)),))
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

    def wait_until_ready(self) -> None:
        """Wait for the worker's imports to be over."""
        if self.hello is None:
            self.hello = self.receive(Hello, timeout_s=_START_TIMEOUT_S)

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
            because=f"it raised {failed.kind}: {failed.message}",
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
        how = (
            f"it was killed by {signal.Signals(-code).name}" if code < 0 else f"it exited with status {code}"
        )
        hint = " (the system may have run out of memory)" if code == -signal.SIGKILL else ""
        time.sleep(0.05)
        self.close()
        return WorkerError(
            f"The {self.label} worker was stepped",
            because=how + hint,
            do="The notebook and its objects are as they were; free some memory or use a smaller batch if that was the cause, "
            "then try again.",
            traceback_text=self._output.text[-4000:],
        )

    def kill(self) -> None:
        """End the process and everything it started (loader workers share its process group)."""
        with self._lock:
            if self._is_ended:  # the process is reaped and its number may be somebody else's by now
                return
            with contextlib.suppress(ProcessLookupError):  # already gone
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._is_ended = True

    def close(self) -> None:
        """End the process and let go of the socket."""
        self.kill()
        self._channel.close()
        _alive.discard(self)


def _advice(failed: Failed) -> str:
    if "can't allocate memory" in failed.message or failed.kind in ("MemoryError", "OutOfMemoryError"):
        return "It ran out of memory: a trial holds one copy of the model per plan; try fewer plans at once or a smaller batch."
    return "The traceback above shows the line in your cell; your notebook's own objects are unchanged."


@atexit.register
def _end_all() -> None:
    if os.getpid() == _home:  # not in a process that the user's own code forked
        for worker in list(_alive):
            worker.close()
