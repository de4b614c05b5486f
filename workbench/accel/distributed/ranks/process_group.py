"""The process group that a run's ranks talk in, and the errors of one who talks to ranks that are gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from accel.errors import words_of


@dataclass(frozen=True)
class JoinedGroup:
    """What the ranks talk by, and what there is to say of it."""

    backend: str
    store: Any  # by which they meet
    note: str = ""
    is_stuck: bool = False  # a thread of this process may still be meeting the others: it is not used again


def met_at_file(path: str, world_size: int) -> Any:
    """The store of ranks on one machine: a file that only this user can open.

    >>> met_at_file("/tmp/accel-meet-k3j2h1g0/meet-1", 2)
    """
    import torch.distributed as dist

    return dist.FileStore(path, world_size)  # type: ignore[attr-defined]


@contextmanager
def process_group(
    backend: str, store: Any, *, rank: int, world_size: int, timeout_s: float
) -> Iterator[JoinedGroup]:
    """Join the ranks that meet by this store, and leave them at the end; over gloo where oneCCL cannot be used.

    >>> with process_group("gloo", met_at_file(path, 2), rank=0, world_size=2, timeout_s=60):
    ...     torch.distributed.all_reduce(tensor)
    """
    import torch
    import torch.distributed as dist

    timeout = timedelta(seconds=timeout_s)
    group = JoinedGroup(backend, store)
    if backend == "ccl":
        from accel.distributed.oneccl.joining import join

        group = JoinedGroup("ccl", store, "The ranks talked by oneCCL, which is experimental here.")
        why_not, is_stuck = join(store, rank, world_size, timeout)
        if why_not:
            group = JoinedGroup(
                "gloo", store, f"oneCCL could not be used ({why_not}): trained over gloo.", is_stuck
            )
    device = torch.device("cuda", 0) if group.backend == "nccl" else None
    try:
        dist.init_process_group(
            group.backend, store=store, rank=rank, world_size=world_size, timeout=timeout, device_id=device
        )
        if group.backend == "gloo":
            dist.barrier()  # a rank that is done at once would leave before another has connected to it
        yield group
    finally:
        if dist.is_initialized():  # else joining failed half-way, or the cell has left the group itself
            dist.destroy_process_group()


def is_communication_error(error: BaseException) -> bool:
    """Whether it is torch.distributed that failed: then another rank is, as a rule, where it began.

    >>> is_communication_error(RuntimeError("Connection closed by peer [127.0.0.1]:4711"))
    True
    """
    import torch.distributed as dist

    before = error.__cause__ or error.__context__  # the cell may have caught it and raised another
    if before is not None and is_communication_error(before):
        return True
    kinds = (dist.DistError, dist.DistBackendError, dist.DistNetworkError, dist.DistStoreError)
    if isinstance(error, kinds):
        return True
    words = (
        "gloo",
        "Connection closed by peer",
        "Connection reset by peer",
        "NCCL",
        "oneCCL",
        "Timed out waiting",
        "Wait timeout",
        "process group",
    )
    return isinstance(error, RuntimeError) and any(word in words_of(error) for word in words)
