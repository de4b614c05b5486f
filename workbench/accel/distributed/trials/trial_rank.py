"""A rank of a trial's group: a worker that is stepped by tokens as any other, and trains together with others.

    python -m accel.distributed.trials.trial_rank <descriptor> <kernel pid> <rank> <its CPUs> <backend> <meeting place> <batch>

The cell is made data-parallel before the plan is applied, so that what is exchanged is what the plan left of the model.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel.accelerations.acceleration import Proof
from accel.distributed.ranks.rank_main import begin, read_back
from accel.distributed.ranks.rank_messages import Meet, RunFailed
from accel.distributed.ranks.rank_page import RankPage
from accel.private_disk import PrivateDisk
from accel.processes.channel import Closed
from accel.processes.child_main import say_hello
from accel.processes.failure import failure_of
from accel.processes.kernel_folder import own_folder
from accel.workers.messages import Load, ToWorker

if TYPE_CHECKING:
    from accel.distributed.data_parallel.data_parallel import DataParallel
    from accel.plans.plan import Plan
    from accel.workers.worker_main import Calls

# The kernel ends all ranks when it gives one up, and knows of one that died at once: it decides, not the exchange.
_LONGER_THAN_THE_KERNEL_WAITS_S = 3600.0


def main(
    descriptor: int, kernel_pid: int, rank: int, cpus: str, backend: str, meeting_place: str, batch: Any
) -> None:
    disk = PrivateDisk(own_folder(), shared=[os.path.dirname(meeting_place)])
    channel = begin(descriptor, kernel_pid, rank, cpus, ToWorker | Meet)
    from accel.workers.worker_main import serve

    say_hello(channel)
    with contextlib.suppress(Closed):
        message, _, given = channel.receive()
        if not isinstance(message, Meet) or given is None:
            return
        ready = read_back()
        group = _Group(
            RankPage(message.world_size, given), rank, backend, meeting_place, batch, ready.threads
        )
        channel.send(ready)
        serve(channel, disk, around=group.around, failure_message=_failure_of_rank)


def _failure_of_rank(error: BaseException, filename: str) -> RunFailed:
    from accel.distributed.ranks.process_group import is_communication_error

    return RunFailed(failure_of(error, filename), is_communication_error(error), is_clean=False)


@dataclass(frozen=True)
class _Group:
    page: RankPage
    rank: int
    backend: str
    meeting_place: str
    batch: Any
    threads: int

    @contextlib.contextmanager
    def around(self, load: Load, plan: Plan, namespace: dict[str, Any]) -> Iterator[Calls]:
        """This rank is one of the group, and the cell data-parallel; gives what is to be called."""
        import torch

        from accel.accelerations.ddp import training_together
        from accel.distributed.cells.run_options import RunOptions
        from accel.distributed.data_parallel.data_parallel import DataParallel
        from accel.distributed.data_parallel.gradient_readers import codes_of
        from accel.distributed.data_parallel.split_loaders import names_ranks
        from accel.distributed.ranks.process_group import met_at_file, process_group
        from accel.workers.worker_main import Calls

        torch.set_num_threads(self.threads)  # the notebook's count came with its settings
        knows_ranks = names_ranks(codes_of(load.source, load.filename, namespace))
        with (
            process_group(
                self.backend, met_at_file(self.meeting_place, self.page.ranks), rank=self.rank,
                world_size=self.page.ranks, timeout_s=_LONGER_THAN_THE_KERNEL_WAITS_S,
            ),
            DataParallel(
                self.page, rank=self.rank, world_size=self.page.ranks, namespace=namespace,
                options=RunOptions(batch=self.batch), plan=plan, knows_ranks=knows_ranks,
            ) as parallel,
            training_together(_ReadBack(parallel)),
        ):  # fmt: skip
            yield Calls(parallel.run_begins, parallel.lineages.put_back)


@dataclass(frozen=True)
class _ReadBack:
    """What a rank can prove together with the others, who are asked at the same step."""

    parallel: DataParallel

    def proof(self) -> Proof:
        """Every rank tells all others what its parameters are, and how often it exchanged gradients."""
        import torch
        import torch.distributed as dist

        exchanges = self.parallel.exchanges
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        own = torch.tensor([*checksum(self.parallel.parameters), exchanges], device=device)
        everyone = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(everyone, own)
        after = f"after {exchanges} exchanges of gradients"
        others = [rank for rank, each in enumerate(everyone) if not torch.equal(each, everyone[0])]
        if others:
            return Proof(False, f"what rank {others[0]} has is not what rank 0 has, {after}")
        if not exchanges:
            return Proof(False, "no gradient was exchanged")
        return Proof(True, f"parameters equal bit for bit on {len(everyone)} ranks, {after}")


def checksum(tensors: list[Any]) -> list[int]:
    """Of their bytes and shapes, in their order, as numbers that a tensor can hold.

    >>> checksum([torch.ones(2)]) == checksum([torch.ones(2)]), checksum([torch.ones(2)]) == checksum([torch.zeros(2)])
    (True, False)
    """
    import torch

    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(repr(tuple(tensor.shape)).encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    hashed = digest.digest()
    return [
        int.from_bytes(hashed[start : start + 8], "big", signed=True) for start in range(0, len(hashed), 8)
    ]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:8])
