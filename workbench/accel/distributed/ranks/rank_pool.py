"""RankPool: a function in every rank, with a process group and nothing else changed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from accel.distributed.cells.run_options import RunOptions
from accel.distributed.ranks.rank_environment import sent_along
from accel.distributed.ranks.rank_messages import RunRequest
from accel.distributed.ranks.rank_run import RankRun
from accel.distributed.ranks.run_outcome import THIS_MACHINE, Print, Ranks, Watch
from accel.distributed.ranks.warm_ranks import WarmRanks
from accel.private_disk import current_folder
from accel.workload.memory_file import MemoryFile
from accel.workload.shipping import Parcel, load, pack_cell


class RankPool(WarmRanks):
    """So many ranks with so many threads each, kept warm, and called with functions.

    Args:
        ranks: How many processes.
        threads: Threads of each. None: as many as can run at once on the CPUs that this process may use, shared out evenly.
        environments: More environment variables, one dict a rank.
        is_private: What ranks write to disk goes with them, and they end after one run.

    Raises:
        AccelError: There are not enough CPUs.

    Examples:
        >>> pool = accel.RankPool(2, threads=1)
        >>> pool.run(torch.distributed.get_rank)
        [0, 1]
        >>> pool.close()
    """

    def run(
        self, function: Callable[..., Any], *arguments: Any, timeout_s: float = 60.0, **keywords: Any
    ) -> list[Any]:
        """Call a function in every rank, where torch.distributed is initialised.

        Args:
            function: Any function; it travels to the ranks with what it reads.
            *arguments: Its positional arguments.
            timeout_s: A rank that is silent for so many seconds is stuck.
            **keywords: Its keyword arguments.

        Returns:
            What each rank returned, rank 0's first.

        Raises:
            RankError: A rank raised, was killed or hung: the one that caused it, with its traceback.

        Examples:
            >>> pool = accel.RankPool(2, threads=1)
            >>> pool.run(lambda step: step + torch.distributed.get_rank(), 10)
            [10, 11]
            >>> pool.close()
        """
        return run_function(self, function, arguments, keywords, timeout_s=timeout_s)

    restart_themselves = False
    where = THIS_MACHINE

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of its CPUs."""
        return self.allocation.notes if self.allocation else ()

    def begin(
        self, request: RunRequest, parcel: Parcel, *, asked: str, watch: Watch | None = None,
        on_print: Print | None = None,
    ) -> RankRun:  # fmt: skip
        """A run of this request on its ranks."""
        return RankRun(self, request, parcel, asked, watch, on_print)


def run_function(
    ranks: Ranks, function: Callable[..., Any], arguments: tuple[Any, ...] = (), keywords: Mapping[str, Any] | None = None, *,
    timeout_s: float = 60.0, trains: bool = False, backend: str = "gloo",
) -> list[Any]:  # fmt: skip
    """Call a function in every rank, where torch.distributed is initialised; gives what each returned.

    >>> run_function(ranks, lambda: torch.distributed.get_rank())
    [0, 1]

    `trains`: with models and loaders made data-parallel. Raises the error of the rank that caused it.
    """
    name = getattr(function, "__name__", type(function).__name__)
    namespace = getattr(function, "__globals__", {})
    call = {"accel_call": (function, arguments, dict(keywords or {}))}
    parcel = pack_cell("", f"<{name}>", namespace, [], extra=call)
    request = request_for(
        "function",
        backend=backend,
        options=RunOptions(timeout_s=timeout_s),
        trains=trains,
        names=["accel_call"],
    )
    try:
        outcome = ranks.begin(request, parcel, asked=f"{name}()").go()
    finally:
        parcel.close()
    values = []
    try:
        for answer in outcome.answers:
            memory, answer.memory = answer.memory, None
            values.append(_value(answer.blob, memory))
    finally:
        for answer in outcome.answers:
            answer.let_go()
        outcome.on_home()
    return values


def request_for(kind: Any, **given: Any) -> RunRequest:
    """A request with what is the same for all: where the notebook is, what it imports from, its variables."""
    settings: dict[str, Any] = {
        "trains": True, "source": "", "filename": "", "backend": "gloo", "rendezvous": "",
        "folder": current_folder(), "import_path": list(sys.path), "environment": sent_along(), "names": [], "writes": [],
        "options": RunOptions(),
    }  # fmt: skip
    return RunRequest(kind=kind, **(settings | given))


def _value(blob: bytes, descriptor: int | None) -> Any:
    if descriptor is None:
        return None
    memory = MemoryFile(descriptor)
    try:
        return load(blob, memory)
    finally:
        memory.close()
