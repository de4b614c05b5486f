"""Consecutive layers on consecutive ranks, with a batch in small parts that follow each other. To be run in every rank."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from torch import nn
    from torch.distributed.pipelining import PipelineStage

Schedule = Literal["gpipe", "1f1b"]


class PipelineRank(NamedTuple):
    """One rank's stage: what it held, how exact it was, and how much of a step it computed."""

    rank: int
    schedule: Schedule
    micro_batches: int
    part_bytes: int
    whole_bytes: int
    loss_difference: float  # of the last stage, which has the loss; 0 elsewhere
    gradient_difference: float
    step_ms: float  # median
    computing_ms: float  # median of what the stage computed meanwhile

    @property
    def idle_share(self) -> float:
        """The part of a step in which this stage computed nothing: the bubble, and what talking took."""
        return 1 - self.computing_ms / self.step_ms


def bubble_share(stages: int, micro_batches: int) -> float:
    """The part of a step in which a stage has to wait, where all stages take equally long and talking takes nothing.

    >>> bubble_share(2, 4)
    0.2

    (p - 1) / (m + p - 1) for p stages and m micro-batches, the same for both schedules (Huang et al., *GPipe*, 2019; Narayanan
    et al., *PipeDream*, 2019): 1F1B saves memory, as it keeps the activations of p micro-batches at most, not of all m.
    """
    return (stages - 1) / (micro_batches + stages - 1)


def pipeline_parallel(
    micro_batches: int = 4, schedule: Schedule = "gpipe", *, width: int = 128, samples: int = 64, steps: int = 5
) -> PipelineRank:  # fmt: skip
    """A model with a stage on every rank, trained on one batch in micro-batches, beside the whole model in one process.

    >>> accel.RankPool(2).run(pipeline_parallel, 4)[1].loss_difference < 1e-10
    True
    """
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
    from torch.nn import functional as F

    rank, stages = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # the same weights and batch in every rank
    blocks = layers(width, stages)
    inputs, target = torch.randn(2, samples, width, dtype=torch.float64)
    expected = F.mse_loss(blocks(inputs), target)
    expected.backward()  # type: ignore[no-untyped-call]
    wanted = [p.grad.clone() for p in blocks[rank].parameters() if p.grad is not None]

    stage = PipelineStage(blocks[rank], rank, stages, torch.device("cpu"))
    clock = StageClock(stage)
    kind = ScheduleGPipe if schedule == "gpipe" else Schedule1F1B
    pipeline = kind(stage, micro_batches, loss_fn=F.mse_loss)
    losses: list[torch.Tensor] = []
    times: list[tuple[float, float]] = []
    for _ in range(steps + 1):  # the first one asks what shapes the stages send
        blocks[rank].zero_grad()
        losses.clear()
        dist.barrier()
        began, clock.computed_s = time.perf_counter(), 0.0
        if rank == 0:
            pipeline.step(inputs)
        else:
            pipeline.step(target=target, losses=losses)
        times.append((time.perf_counter() - began, clock.computed_s))
    found = [p.grad for p in blocks[rank].parameters() if p.grad is not None]
    loss = torch.stack(losses).mean() if losses else expected
    return PipelineRank(
        rank=rank, schedule=schedule, micro_batches=micro_batches,
        part_bytes=sum(p.nbytes for p in blocks[rank].parameters()),
        whole_bytes=sum(p.nbytes for block in blocks for p in block.parameters()),
        loss_difference=float((loss - expected).detach().abs()),
        gradient_difference=max(float((a - b).abs().max()) for a, b in zip(found, wanted, strict=True)),
        step_ms=1000 * statistics.median(step for step, _ in times[1:]),
        computing_ms=1000 * statistics.median(computed for _, computed in times[1:]),
    )  # fmt: skip


def layers(width: int, stages: int) -> nn.Sequential:
    """A block for each stage, all as large, in float64: so that only real differences show.

    >>> len(layers(8, stages=2))
    2
    """
    from torch import nn

    blocks = (
        nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width)) for _ in range(stages)
    )
    return nn.Sequential(*blocks).double()


class StageClock:
    """Adds up what a stage computes: its forward and backward passes, without the waiting between them.

    >>> clock = StageClock(stage); schedule.step(inputs); clock.computed_s
    0.0021
    """

    def __init__(self, stage: PipelineStage) -> None:
        self.computed_s = 0.0
        for name in ("forward_one_chunk", "backward_one_chunk"):
            setattr(stage, name, self._timed(getattr(stage, name)))

    def _timed(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return compute(*args, **kwargs)
            finally:
                self.computed_s += time.perf_counter() - began

        return timed
