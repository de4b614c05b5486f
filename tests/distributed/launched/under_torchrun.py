"""Run all of it in one start of torchrun, and save what rank 0 has trained.

python -m torch.distributed.run --standalone --nproc-per-node 2 -m tests.distributed.launched.under_torchrun FILE NAMES
"""

from __future__ import annotations

import itertools
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from tests.distributed.cells import EARLIER
from tests.distributed.launched.ways import CELLS, SCRIPTS

_meetings = itertools.count()


def parameters_of(namespace: dict[str, Any]) -> list[torch.Tensor]:
    """What was trained."""
    model = getattr(namespace["model"], "module", namespace["model"])
    return [p.detach().clone() for p in model.state_dict().values()]


def main(file: str, names: list[str]) -> None:
    rank, world_size, trained = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), {}
    join = dist.init_process_group

    def meet(backend: str, **_: Any) -> None:
        """As the script does, but at a new place each time: the launcher's store still has the addresses of the last meeting."""
        place = f"file://{file}.meeting-{next(_meetings)}"
        join(backend, init_method=place, rank=rank, world_size=world_size)
        dist.barrier()

    dist.init_process_group = meet
    mp.spawn = lambda function, args, **_: function(rank, *args)  # torchrun has started the processes
    sys.argv = ["script.py"]
    for name in names:
        namespace: dict[str, Any] = {"__name__": "__main__"}
        if name in CELLS:
            exec(EARLIER, namespace)
        source = CELLS[name][0] if name in CELLS else SCRIPTS[name].replace('"nccl"', '"gloo"')
        exec(compile(source, name, "exec"), namespace)
        trained[name] = parameters_of(namespace)
        if dist.is_initialized():
            dist.destroy_process_group()
    if rank == 0:
        torch.save(trained, file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
