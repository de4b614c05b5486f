"""The optimizer updates parameter by parameter in many small operations, where one fused kernel would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.diagnosis.dispatch import dispatch_share
from accel.diagnosis.predicting import Part, amdahl
from accel.profiling.finding import Finding
from accel.profiling.report.words import percent

if TYPE_CHECKING:
    import torch

    from accel.diagnosis.evidence import Evidence

HAVE_FUSED = ("Adam", "AdamW", "SGD", "Adagrad")

# How many times as fast the update itself becomes: ratios of CPU time on one core of an AMD EPYC, torch 2.14, from 40 weights of
# 32×32 to 4 of 1000×1000 and the course CNN's: Adam 2.8 to 4.6; SGD with momentum 1.1 to 3.8, without 0.94 to 1.8, where
# only the calls are saved. With default malloc the plain update pays for its temporary tensors on top.
ADAM = (2.0, 3.4, 6.0)
MOMENTUM = (1.05, 1.6, 4.0)
PLAIN_SGD = (0.9, 1.1, 1.9)
# On CUDA the default is the multi-tensor update already, a few kernels for all weights; not measured here.
ON_GPU = (1.0, 1.3, 2.5)


def optimizer_not_fused(evidence: Evidence) -> Finding | None:
    """Adam, AdamW, SGD or Adagrad without `fused=True`."""
    plain = {
        name: optimizer
        for name, optimizer in evidence.objects.optimizers.items()
        if type(optimizer).__name__ in HAVE_FUSED
        and not any(group.get("fused") or group.get("differentiable") for group in optimizer.param_groups)
    }
    share = evidence.share("optimizer")
    if not plain or "fused_optimizer" in evidence.live:
        return None
    name, optimizer = next(iter(plain.items()))
    kind = type(optimizer).__name__
    count = sum(len(group["params"]) for group in optimizer.param_groups)
    calls = sum(row.calls for row in evidence.rows(lambda row: row.phase == "optimizer"))
    many = f"about {calls:.0f} operations" if calls else "many operations"
    low, factor, high = ON_GPU if evidence.on_gpu else _factors(optimizer)
    if factor == PLAIN_SGD[1] and dispatch_share(evidence, "optimizer") < share / 2:
        return None  # plain SGD on large weights is one pass over them either way
    return Finding(
        kind="optimizer_not_fused",
        title=f"The optimizer's update is not fused: {percent(share)} of each step",
        what=f"{kind} updates {count} parameters in {many} a step, "
        "each of which reads and writes memory again.",
        share=share,
        evidence=(f"{name}: {kind} with fused not set", f"optimizer: {evidence.ms('optimizer'):.3g} ms a step"),
        prediction=amdahl(
            f"the optimizer, {percent(share)} of the step, becomes {low:g} to {high:g} times as fast when fused",
            Part(share, low, factor, high),
        ),
        suggests=("fused_optimizer",),
        remedy="",
        wrong_when="the loop reads or changes optimizer state between steps in ways that assume the plain update; "
        "results differ in the last bit (1e-7).",
    )  # fmt: skip


def _factors(optimizer: torch.optim.Optimizer) -> tuple[float, float, float]:
    if type(optimizer).__name__ != "SGD":
        return ADAM
    return MOMENTUM if any(group.get("momentum") for group in optimizer.param_groups) else PLAIN_SGD
