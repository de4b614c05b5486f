"""A worker as the kernel sees it: a child that steps a workload, with a clear error for every way in which it can end."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, ClassVar, TypeVar

import msgspec

from accel.errors import AccelError, NotShippable, OutOfMemory, WorkerError
from accel.processes.channel import Closed
from accel.processes.child import AS_THE_KERNEL, Child, how_it_ended
from accel.processes.child_main import Hello
from accel.processes.failure import Failed
from accel.processes.kernel_folder import KernelFolder
from accel.processes.start import Start
from accel.workers.messages import EffectRead, FromWorker
from accel.workers.starting import displayed_with

MODULE = "accel.workers.worker_main"
SHOWN_BY_RUNTIMES = ("openmp_affinity", "omp_wait_policy", "intel_openmp")
_START_TIMEOUT_S = 120.0
_Message = TypeVar("_Message")


class Worker(Child):
    """A process that steps a workload; `label` names its plan in errors.

    >>> worker = Worker(); worker.wait_until_ready(); worker.close()
    """

    usual_start_s: ClassVar[float] = 5.0  # what starting took, the last time that somebody waited for it
    outermost_files = ("workload/cell_code.py", "workers/worker_main.py")

    def __init__(self, start: Start = AS_THE_KERNEL, *, in_background: bool = False) -> None:
        self.label, self.start = "", start
        self._began, self._is_usual = time.monotonic(), not (in_background or start)
        self.variables = dict(os.environ)  # of the kernel, when it was started
        super().__init__(
            MODULE, str(int(in_background)), incoming=FromWorker, folder=KernelFolder("trial"), start=start
        )
        self.hello: Hello | None = None

    @property
    def is_ready(self) -> bool:
        """Whether its imports are over."""
        return self.is_alive and (self.hello is not None or self.channel.has_more)

    def wait_until_ready(self) -> None:
        """Wait for the worker's imports to be over."""
        if self.hello is None:
            self.hello = self.receive(Hello, timeout_s=_START_TIMEOUT_S)
            self.hello.check_python(self.start.environment)
            if self._is_usual:
                Worker.usual_start_s = time.monotonic() - self._began

    def send(self, message: msgspec.Struct, blob: bytes = b"", descriptor: int | None = None) -> None:
        """Send a message; raises WorkerError where the worker is gone."""
        if self.start:
            self.signal(signal.SIGCONT)
        try:
            self.channel.send(message, blob, descriptor)
        except Closed:
            raise self._lost() from None

    def receive(self, kind: type[_Message], *, timeout_s: float) -> _Message:
        """The worker's next message, which must be of this kind.

        Raises WorkerError with the worker's traceback when it failed, its signal when it was killed, and where it stands
        when it gave no answer in time (it is ended then).
        """
        try:
            message, _, _ = self.channel.receive(timeout_s)
        except TimeoutError:
            raise self._stuck(timeout_s) from None
        except Closed:
            raise self._lost() from None
        if isinstance(message, Failed):
            raise self._failed(message)
        if not isinstance(message, kind):
            raise self._failed(Failed("ProtocolError", f"expected {kind.__name__}, got {message!r}", ""))
        if self.start:  # threads that were started to spin while they wait would do so in the turns of others
            self.signal(signal.SIGSTOP)
        return self._with_runtimes(message) if isinstance(message, EffectRead) else message

    def _with_runtimes(self, read: EffectRead) -> Any:
        """What the runtimes that it loaded printed of themselves, as a part of the evidence."""
        said = displayed_with(self.start, self.output.text)
        proofs = [
            (name, took, f"{evidence}; {said}" if name in SHOWN_BY_RUNTIMES else evidence)
            for name, took, evidence in read.proofs
        ]
        return msgspec.structs.replace(read, proofs=proofs) if said else read

    @property
    def _asked(self) -> str:
        """What it was to do, in errors."""
        which = f"the {self.label} worker" if self.label else "a worker"
        return f"Running your cell in {which}" if self.hello is not None else f"Starting {which}"

    def _failed(self, failed: Failed) -> AccelError:
        if failed.asked:
            kind = NotShippable if failed.kind == "NotShippable" else AccelError
            return kind(failed.asked, because=failed.because, do=failed.do)
        advice = failed.memory_advice("each plan of a trial", "fewer plans at once")
        return (OutOfMemory if advice else WorkerError)(
            self._asked,
            because=failed.what,
            do=advice or _SAFE,
            traceback_text=failed.traceback,
        )

    def _stuck(self, timeout_s: float) -> WorkerError:
        stands = self.where_it_stands(self.ask_where_it_stands())
        self.kill()
        longer = "if a step takes that long, try again with a longer --timeout-s"
        if self.hello is None:
            longer = "close what keeps this machine busy, then try again"
        return WorkerError(
            self._asked,
            because=f"it gave no answer within {timeout_s:.0f} s and was ended",
            do=f"The lines above show where it stood, the innermost first; {longer}.",
            traceback_text=f"It stands here:\n{stands}",
        )

    def _lost(self) -> WorkerError:
        status = self.exit_status()
        self.close()
        because, do = how_it_ended(status, ran_cell=self.hello is not None), _OF_ITSELF
        if status is not None and status < 0:
            do = _MEMORY if status == -signal.SIGKILL else _LAST_WORDS
        elif self.hello is None:
            do = "The lines above say why: fix that, then try again."
        elif status is None:
            do = _DESCRIPTORS
        return WorkerError(
            self._asked,
            because=because,
            do=f"{do} The notebook and its objects are as they were.",
            traceback_text=self.output.text[-4000:],
        )


_OF_ITSELF = (
    "A trial runs the cell again and again in a process of its own: remove the line that ends the process."
)
_DESCRIPTORS = "Remove the line that closes descriptors which it did not open, such as os.closerange(3, 200)."
_LAST_WORDS = "The lines above, if any, are what it printed last."
_MEMORY = "Free some memory or use a smaller batch if that was the cause, then try again."
_SAFE = "The traceback above shows the line in your cell; your notebook's own objects are unchanged."
