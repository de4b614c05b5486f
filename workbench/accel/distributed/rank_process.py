"""One rank as the kernel sees it: its process, its socket, and what it prints."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import psutil

from accel.distributed.rank_folder import RankFolder
from accel.distributed.rank_messages import FromRank, Meet, RankReady
from accel.distributed.rank_output import RankOutput
from accel.distributed.rank_page import RankPage
from accel.errors import WorkerError
from accel.machine.cpu_lists import cpu_list
from accel.workers.messages import Channel, Closed, Hello
from accel.workers.process_tree import end_tree
from accel.workers.spawner import spawn

MODULE = "accel.distributed.rank_main"
PRIVATE = "private"  # the word for a rank whose writes to disk go with it
FOLDER = "ACCEL_RANK_FOLDER"  # the variable that tells a rank where multiprocessing's files belong
_START_TIMEOUT_S = 120.0
_WARM_TIMEOUT_S = 10.0  # a rank that is up answers at once, if nothing of an earlier run holds it
_LAST_WORDS_S = 0.5  # longer where a process that it started holds on to its output
_STANDS_S = 1.0  # at most, for faulthandler to print where a rank stands


class RankProcess:
    """A fresh interpreter for one rank.

    >>> rank = RankProcess(0, cpus=(0,)); rank.meet(page); rank.end()

    It runs `module` with its number, its CPUs and these `words`, and says what `incoming` decodes.
    """

    def __init__(
        self, rank: int, cpus: Sequence[int] = (), environment: dict[str, str] | None = None, *,
        module: str = MODULE, words: Sequence[str] = (), incoming: Any = FromRank,
    ) -> None:  # fmt: skip
        self.rank, self.cpus = rank, tuple(cpus)
        self._folder = RankFolder()
        environment = {"RANK": str(rank), **(environment or {}), FOLDER: self._folder.path}
        try:
            self._process, end = spawn(
                sys.executable, environment, module=module, words=(str(rank), cpu_list(self.cpus), *words)
            )
        except BaseException:
            self._folder.close()
            raise
        self.channel = Channel(end, incoming)
        self.output = RankOutput(self._process.stdout)  # type: ignore[arg-type]
        self._lock, self._is_ended = threading.Lock(), False
        self.ready: RankReady | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return not self._is_ended and self._process.poll() is None

    def meet(self, page: RankPage, look: Callable[[], object] | None = None) -> None:
        """Wait until it is imported, and give it the page; WorkerError if it does not come up. `look` is called while waiting."""
        try:
            if self.ready is None:
                hello, _, _ = self.channel.receive(_START_TIMEOUT_S, look)
                if not isinstance(hello, Hello):
                    raise self._did_not_start(f"it said {type(hello).__name__} first")
            self.channel.send(Meet(self.rank, page.ranks), descriptor=page.descriptor)
            patience_s = _START_TIMEOUT_S if self.ready is None else _WARM_TIMEOUT_S
            ready, _, _ = self.channel.receive(patience_s, look)
        except TimeoutError:
            patience_s = _START_TIMEOUT_S if self.ready is None else _WARM_TIMEOUT_S
            raise self._did_not_start(f"it was not ready within {patience_s:.0f} s") from None
        except Closed:
            raise self._did_not_start(self.how_it_ended()) from None
        if isinstance(ready, RankReady):
            self.ready = ready

    def _did_not_start(self, because: str) -> WorkerError:
        self.end()
        return WorkerError(
            f"Starting rank {self.rank}", because=because, traceback_text=self.output.text[-4000:],
            do="The lines above are what it printed; try again, with fewer ranks if memory was short.",
        )  # fmt: skip

    def send(self, message: msgspec.Struct, blob: bytes = b"", descriptor: int | None = None) -> None:
        """Send a request; that the rank is gone is found when its answer is awaited."""
        with contextlib.suppress(Closed):
            self.channel.send(message, blob, descriptor)

    def ask_where_it_stands(self) -> int:
        """Have its own faulthandler print the Python lines that it is in; `where_it_stands` takes what this returns."""
        self.output.stop_listening()  # what comes is no output of the cell
        before = self.output.bytes_read
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
        return before

    def where_it_stands(self, asked_at: int) -> str:
        """The Python lines that it is in, innermost first, down to the cell's own; in words where it cannot tell."""
        self.output.wait_for(lambda: _BOTTOM in self.output.since(asked_at), _STANDS_S)
        lines = self.output.since(asked_at).splitlines()
        own = [line.strip() for line in lines if line.lstrip().startswith("File ")]
        ours = next((n for n, line in enumerate(own) if any(each in line for each in _ENTRANCES)), len(own))
        if own and not ours:
            return PAST_THE_CELL
        if own:
            return "\n".join(f"  {line}" for line in own[:ours])
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(self.pid).status() == psutil.STATUS_STOPPED:
                return "  nowhere: its process is stopped, as by SIGSTOP"
        return "  no Python line answered: it is inside native code that lets no signal in"

    def how_it_ended(self) -> str:
        """In words, for a process whose socket is closed."""
        try:
            code = self._process.wait(2.0)
            self.output.join(_LAST_WORDS_S)  # what it printed last is on its way
        except subprocess.TimeoutExpired:
            return "it closed its connection"
        if code >= 0:
            return f"its process exited with status {code}, as os._exit() in the cell does"
        name = signal.Signals(-code).name
        hint = " (the system may have run out of memory)" if code == -signal.SIGKILL else ""
        return f"it was killed by {name}{hint}"

    def end(self) -> None:
        """End the process, everything it started, and the connection; by its number, once."""
        with self._lock:
            if not self._is_ended:
                end_tree(self._process)
                self._is_ended = True
                self.channel.close()
                self.output.join(2.0)
                self._folder.close()


_BOTTOM = "in _run_module_as_main"  # the outermost line of an interpreter started with -m
_ENTRANCES = (
    "distributed/run_in_rank.py",
    "workers/worker_main.py",
)  # what is further out is the same for all
PAST_THE_CELL = "  past the cell: it is about to say how that ended"
