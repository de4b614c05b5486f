"""The optimizer updates parameter by parameter in many small operations, where one fused kernel would do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from accel.diagnosis.allocator_page_faults import FEW_FAULTS
from accel.diagnosis.dispatch import dispatch_share
from accel.diagnosis.evidence import LEAST_SHARE
from accel.diagnosis.predicting import Part, amdahl
from accel.profiling.findings import Finding
from accel.units import percent

if TYPE_CHECKING:
    import torch

    from accel.diagnosis.evidence import Evidence

RANGE = re.compile(r"Optimizer\.step#(\w+)\.step")
LARGE_BYTES, PAGE_BYTES = 1 << 20, 4096  # smaller tensors come from memory that malloc keeps
HAVE_FUSED = ("Adam", "AdamW", "SGD", "Adagrad")

# How many times as fast the update itself becomes: ratios of CPU time on one core of an AMD EPYC, torch 2.14, from 40 weights of
# 32×32 to 4 of 1000×1000 and the course CNN's: Adam 2.8 to 4.6; SGD with momentum 1.1 to 3.8, without 0.94 to 1.8, where
# only the calls are saved. With default malloc the plain update pays for its temporary tensors on top.
ADAM = (2.0, 3.4, 6.0)
MOMENTUM = (1.05, 1.6, 4.0)
PLAIN_SGD = (0.9, 1.1, 1.9)
# The plain update of Adam, AdamW and Adagrad takes tensors of the weights' size; where glibc hands their memory back to the
# system each time, the update waits for its pages. Adam and AdamW on layers of 64² to 2048², CPU time on a core of the same kind,
# plain and fused in turns: with default malloc 2.5 to 2.8 (up to 256²), 2.4 to 3.8 (512²), 4.5 to 7.4 (from 1024²), with memory
# kept 2.4 to 3.4 for all. From 1024² on the rest of the step was 1.03 to 1.11 times as fast, fused, as it takes fewer pages too.
ADAM_WITH_FAULTS = (2.0, 4.5, 9.0)
REST_WITH_FAULTS = (1.0, 1.0, 1.12)  # where convolutions fill the rest, nothing of it was seen
# On CUDA the default is the multi-tensor update already, a few kernels for all weights; not measured here.
ON_GPU = (1.0, 1.3, 2.5)


def optimizer_not_fused(evidence: Evidence) -> Finding | None:
    """Adam, AdamW, SGD or Adagrad without `fused=True`."""
    if evidence.is_of_trace:
        return _of_trace(evidence)
    plain = next(filter(_is_plain, evidence.objects.optimizers.items()), None)
    if plain is None or "fused_optimizer" in evidence.live:
        return None
    name, optimizer = plain
    kind, share = type(optimizer).__name__, evidence.share("optimizer")
    count = sum(len(group["params"]) for group in optimizer.param_groups)
    calls = sum(row.calls for row in evidence.rows(lambda row: row.phase == "optimizer"))
    many = f"about {calls:.0f} operations" if calls else "many operations"
    has_faults = not evidence.on_gpu and kind != "SGD" and _takes_new_pages(evidence, optimizer)
    factors = ON_GPU if evidence.on_gpu else ADAM_WITH_FAULTS if has_faults else _factors(optimizer)
    rest = [Part(1.0 - share, *REST_WITH_FAULTS)] if has_faults else []
    if factors is PLAIN_SGD and dispatch_share(evidence, "optimizer") < share / 2:
        return None  # plain SGD on large weights is one pass over them either way
    return Finding(
        kind="optimizer_not_fused",
        title=f"The optimizer's update is not fused: {percent(share)} of each step",
        what=f"{kind} updates {count} parameters in {many} a step, "
        "each of which reads and writes memory again.",
        share=share,
        evidence=(f"{name}: {kind} with fused not set", f"optimizer: {evidence.ms('optimizer'):.3g} ms a step"),
        prediction=amdahl(
            f"the optimizer, {percent(share)} of the step, becomes {factors[0]:g} to {factors[-1]:g} times as fast when fused"
            + (", and the rest up to 1.12 times, with fewer page faults" if has_faults else ""),
            Part(share, *factors), *rest,
        ),
        suggests=("fused_optimizer",),
        remedy="",
        wrong_when="the loop reads or changes optimizer state between steps in ways that assume the plain update; "
        "results differ in the last bit (1e-7).",
    )  # fmt: skip


def _is_plain(named: tuple[str, torch.optim.Optimizer]) -> bool:
    """Whether an optimizer has a fused update and does without it."""
    groups, kind = named[1].param_groups, type(named[1]).__name__
    return kind in HAVE_FUSED and not any(each.get("fused") or each.get("differentiable") for each in groups)


def _takes_new_pages(evidence: Evidence, optimizer: torch.optim.Optimizer) -> bool:
    """Whether the run took as many page faults a step as the update's temporary tensors have pages."""
    faults = evidence.profile.whole_run.page_faults_per_step
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    large = sum(size for weight in weights if (size := weight.numel() * weight.element_size()) >= LARGE_BYTES)
    return faults is not None and large > 0 and faults >= max(FEW_FAULTS, large / PAGE_BYTES)


def _of_trace(evidence: Evidence) -> Finding | None:
    """The optimizer by the name of its range, and whether one of its operations is a fused one."""
    rows = evidence.rows(lambda row: row.phase == "optimizer")
    events = evidence.profile.events
    names = events.columns.names if events is not None else ()
    kinds = {found[1] for name in names if (found := RANGE.match(name))}
    kind = kinds.pop() if len(kinds) == 1 else ""  # of several, which made the operations is not told
    plain = [row for row in rows if row.op.startswith("aten::") and row.calls]
    share = evidence.sure_share("optimizer")
    if kind not in HAVE_FUSED or not plain or share < LEAST_SHARE or any("_fused_" in row.op for row in rows):
        return None
    called = {row.op.removesuffix("_") for row in plain}
    if kind == "SGD" and called.isdisjoint(("aten::mul", "aten::_foreach_mul")) and not evidence.on_gpu:
        return None  # without momentum it is one pass over the weights either way
    low, factor, high = ON_GPU if evidence.on_gpu else MOMENTUM if kind == "SGD" else ADAM
    calls = sum(row.calls for row in plain)
    return Finding(
        kind="optimizer_not_fused",
        title=f"The optimizer's update is not fused: {percent(evidence.share('optimizer'))} of each step",
        what=f"{kind} makes about {calls:.0f} operations a step, each of which reads and writes memory again.",
        share=share,
        evidence=(f"optimizer: {evidence.ms('optimizer'):.3g} ms a step, mostly {plain[0].op}",),
        prediction=amdahl(
            f"the optimizer, at least {percent(share)} of the step without the profiler's cost, becomes {low:g} to {high:g} "
            "times as fast when fused",
            Part(share, low, factor, high),
        ),
        suggests=("fused_optimizer",),
        remedy="",
        wrong_when="the optimizer was built with differentiable=True, or the loop reads or changes its state in ways that "
        "assume the plain update; results differ in the last bit (1e-7).",
    )  # fmt: skip


def _factors(optimizer: torch.optim.Optimizer) -> tuple[float, float, float]:
    if type(optimizer).__name__ != "SGD":
        return ADAM
    return MOMENTUM if any(group.get("momentum") for group in optimizer.param_groups) else PLAIN_SGD
