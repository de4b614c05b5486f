"""The same training twice on several ranks: with a whole model in each, and with a part of it. To be run in every rank."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch
    from torch import nn


class ShardedRank(NamedTuple):
    """What one rank kept between two steps, both ways, and how far the trained weights were apart."""

    rank: int
    ddp_bytes: int  # parameters, gradients and optimizer state
    sharded_bytes: int
    ddp_step_ms: float  # median
    sharded_step_ms: float
    weight_difference: float
    proof: str  # what was read back of fully_shard


def sharded_training(width: int = 128, blocks: int = 4, samples: int = 32, steps: int = 5) -> ShardedRank:
    """Adam on a few blocks: by DistributedDataParallel, and by the plan entry `fully_shard`, on the same batches.

    >>> accel.RankPool(2).run(sharded_training)[0].weight_difference < 1e-10
    True
    """
    import copy

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from accel.accelerations.fully_shard import FullyShard
    from accel.techniques.sharding.sharded_model import sharding_of
    from accel.workload import Replica

    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # the same weights and batch in every rank, of which each takes its part
    model = stack(width, blocks)
    twin = copy.deepcopy(model)
    own_part = torch.randn(samples, width, dtype=torch.float64)[rank::ranks]

    optimizer = torch.optim.Adam(twin.parameters(), 0.01)
    ddp_step_ms = _train(DistributedDataParallel(twin), optimizer, own_part, steps)
    ddp_bytes = kept_bytes(twin, optimizer)

    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    entry, replica = FullyShard(), Replica(models={"model": model}, optimizers={"optimizer": optimizer})
    with entry.apply(replica):
        sharded_step_ms = _train(model, optimizer, own_part, steps)
        sharding = sharding_of(model)
        assert sharding is not None
        sharded_bytes, proof = sharding.state_bytes, entry.took_effect(replica).evidence
    apart = (p - q for p, q in zip(model.parameters(), twin.parameters(), strict=True))
    return ShardedRank(
        rank, ddp_bytes, sharded_bytes, ddp_step_ms, sharded_step_ms,
        max(float(each.detach().abs().max()) for each in apart), proof,
    )  # fmt: skip


def stack(width: int, blocks: int) -> nn.Sequential:
    """Equal blocks one after the other, in float64: so that only real differences show.

    >>> len(stack(8, blocks=4))
    4
    """
    from torch import nn

    parts = (
        nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width)) for _ in range(blocks)
    )
    return nn.Sequential(*parts).double()


def kept_bytes(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """What a training with whole parameters keeps between two steps: parameters, gradients, optimizer state.

    >>> kept_bytes(model, torch.optim.SGD(model.parameters(), 0.1))
    132608
    """
    parameters = list(model.parameters())
    gradients = [p.grad for p in parameters if p.grad is not None]
    states = [value for p in parameters for value in optimizer.state[p].values() if value.dim()]
    return sum(each.nbytes for each in (*parameters, *gradients, *states))


def _train(
    model: Callable[..., Any], optimizer: torch.optim.Optimizer, inputs: torch.Tensor, steps: int
) -> float:
    times = []
    for _ in range(steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)
