"""The loop reads a number back from the GPU in every step, so the CPU cannot launch ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.diagnosis.predicting import Part, amdahl
from accel.diagnosis.rule import LEAST_SHARE
from accel.profiling.finding import Finding
from accel.profiling.report.words import milliseconds, percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence
    from accel.profiling.synchronisations import Synchronisation


def hidden_synchronisation(evidence: Evidence) -> Finding | None:
    """`.item()`, `.cpu()`, `print(loss)` on CUDA tensors: idle GPU time is what they can cost, no more.

    While the CPU waits the GPU works through its queue, which has to be done anyway; what is lost is the time after it,
    in which the queue is empty. So the cost is at most the time in these calls, and at most the GPU's idle time.
    """
    calls = sorted(
        (s for s in evidence.profile.synchronisations if s.device.startswith("cuda")), key=lambda s: -s.ms
    )
    if not calls:
        return None
    device = evidence.device
    waiting = sum(call.ms for call in calls) / evidence.profile.step_ms
    share = min(waiting, device.idle_share) if device else waiting
    if share < LEAST_SHARE:
        return None
    first = calls[0]
    is_of_cell = first.filename == evidence.workload.filename
    where = f"line {first.line}" if is_of_cell else f"{first.filename}, line {first.line}"
    # How much of the idle time goes away is not known beforehand: none if the CPU is late anyway, all if it is not.
    return Finding(
        kind="hidden_synchronisation",
        title=f"{first.call.rpartition('.')[2]}() waits for the GPU at {where}: up to {percent(share)} of each step",
        what="Reading a number back makes the CPU wait until the GPU has done all it was given; "
        "then the GPU waits until the CPU has launched the next kernels.",
        share=share,
        evidence=tuple(map(_line, calls[:5])),
        prediction=amdahl(f"idle time after waiting, up to {percent(share)} of the step, shrinks or vanishes",
                          Part(share, 1.0, 2.0, float("inf"))),
        suggests=(),
        remedy="Keep the value on the GPU (total += loss.detach()) and read it every hundred steps, or once an epoch.",
        wrong_when="the number decides what the loop does next (early stopping, a NaN check that must act at once).",
        line=first.line if is_of_cell else 0,
    )  # fmt: skip


def _line(call: Synchronisation) -> str:
    return f"line {call.line}: {call.text.strip()} ({call.calls:.3g} a step, {milliseconds(call.ms)})"
