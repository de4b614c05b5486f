"""One rank as the kernel sees it: a child with a number and CPUs of its own, that meets the others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from accel.distributed.oneccl.leftovers import remove_of
from accel.distributed.ranks.rank_messages import FromRank, Meet, RankReady
from accel.distributed.ranks.rank_output import RankOutput
from accel.distributed.ranks.rank_page import RankPage
from accel.errors import WorkerError
from accel.machine.cpu_lists import cpu_list
from accel.processes.channel import Closed
from accel.processes.child import AS_THE_KERNEL, Child, how_it_ended
from accel.processes.child_main import Hello
from accel.processes.kernel_folder import KernelFolder, remove_abandoned
from accel.processes.start import Start, together

MODULE = "accel.distributed.ranks.rank_main"
PRIVATE = "private"  # the word for a rank whose writes to disk go with it
ALONE = "alone"  # for the process that takes the first steps which ranks compare with
_START_TIMEOUT_S = 120.0
_WARM_TIMEOUT_S = 10.0  # a rank that is up answers at once, if nothing of an earlier run holds it


class RankFolder(KernelFolder):
    """A rank's folder: what its Python and its cell put into files, and the name of the process that used oneCCL.

    >>> folder = RankFolder(); folder.path
    '/tmp/accel-rank-k3j2h1g0'
    """

    def __init__(self) -> None:
        super().__init__("rank")

    def close(self) -> None:
        """Remove it with all that is in it."""
        if self.is_open:
            remove_of(self.path)
        super().close()

    @staticmethod
    def remove_abandoned() -> None:
        """Remove the folders of kernels that were killed: no process holds their locks any more."""
        remove_abandoned("rank", "meet", before=remove_of)


class RankProcess(Child):
    """A fresh interpreter for one rank.

    >>> rank = RankProcess(0, cpus=(0,)); rank.meet(page); rank.close()

    It runs `module` with its number, its CPUs and these `words`, and says what `incoming` decodes.
    """

    outermost_files = ("distributed/cells/run_in_rank.py", "workers/worker_main.py")
    output: RankOutput

    def __init__(
        self, rank: int, cpus: Sequence[int] = (), environment: dict[str, str] | None = None, *,
        module: str = MODULE, words: Sequence[str] = (), incoming: Any = FromRank, start: Start = AS_THE_KERNEL,
    ) -> None:  # fmt: skip
        self.rank, self.cpus, self.start = rank, tuple(cpus), start
        self.ready: RankReady | None = None
        super().__init__(
            module, str(rank), cpu_list(self.cpus), *words, incoming=incoming, folder=RankFolder(),
            start=together([start, Start((("RANK", str(rank)), *(environment or {}).items()))]), output=RankOutput,
        )  # fmt: skip

    def meet(self, page: RankPage, look: Callable[[], object] | None = None) -> None:
        """Wait until it is imported, and give it the page; WorkerError if it does not come up. `look` is called while waiting."""
        try:
            if self.ready is None:
                hello, _, _ = self.channel.receive(_START_TIMEOUT_S, look)
                if not isinstance(hello, Hello):
                    raise self._did_not_start(f"it said {type(hello).__name__} first")
                hello.check_python(self.start.environment)
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
        self.close()
        return WorkerError(
            f"Starting rank {self.rank}", because=because, traceback_text=self.output.text[-4000:],
            do="The lines above are what it printed; try again, with fewer ranks if memory was short.",
        )  # fmt: skip

    def send(self, message: msgspec.Struct, blob: bytes = b"", descriptor: int | None = None) -> None:
        """Send a request; that the rank is gone is found when its answer is awaited."""
        with contextlib.suppress(Closed):
            self.channel.send(message, blob, descriptor)

    def ask_where_it_stands(self) -> int:
        """The same as of any child; what comes is no output of the cell."""
        self.output.stop_listening()
        return super().ask_where_it_stands()

    def how_it_ended(self) -> str:
        """In words, where its socket is closed."""
        return how_it_ended(self.exit_status(), ran_cell=self.ready is not None)
