"""What the link between the ranks does with nothing else to do: all-reduces of the sizes that the training sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from accel.distributed.communication.communication_times import BareAllReduce
from accel.distributed.ranks.device_clocks import Clock
from accel.workload.exchanged_values import from_first_rank

_TIMES = 5
_MOST_SIZES = 4


def bare_all_reduces(sizes: Iterable[int], clock: Clock, device: Any) -> list[BareAllReduce]:
    """Five of each size; all ranks call it together, and rank 0's sizes serve (none there: none).

    >>> bare_all_reduces([1 << 20], CpuClock(), torch.device("cpu"))
    """
    import torch
    import torch.distributed as dist

    marks = []
    for size in from_first_rank(sorted(set(sizes), reverse=True)[:_MOST_SIZES]):
        tensor = torch.zeros(max(size // 4, 1), device=device)
        for turn in range(_TIMES + 1):
            dist.barrier()
            began = clock.mark()
            dist.all_reduce(tensor)
            if turn:  # the first one finds memory and connections cold
                marks.append((size, began, clock.mark()))
    clock.settle()
    return [BareAllReduce(size, clock.seconds(began), clock.seconds(ended)) for size, began, ended in marks]
