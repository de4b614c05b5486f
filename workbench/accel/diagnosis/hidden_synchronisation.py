"""The loop reads a number back from the GPU in every step, so the CPU cannot launch ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.diagnosis.evidence import LEAST_SHARE
from accel.diagnosis.predicting import Part, amdahl
from accel.profiling.findings import Finding
from accel.techniques.source.deferred_read import DeferredRead, deferred_read
from accel.units import milliseconds, percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence
    from accel.profiling.profiled_events import ProfiledEvents
    from accel.profiling.synchronisations import Synchronisation
    from accel.workload.read_backs import Number

READS = ("aten::item", "aten::is_nonzero", "aten::_local_scalar_dense")


def hidden_synchronisation(evidence: Evidence) -> Finding | None:
    """`.item()`, `.cpu()`, `print(loss)` on CUDA tensors: idle GPU time is what they can cost, no more.

    While the CPU waits the GPU works through its queue, which has to be done anyway; what is lost is the time after it,
    in which the queue is empty. So the cost is at most the time in these calls, and at most the GPU's idle time.
    """
    if evidence.is_of_trace:
        return _of_trace(evidence)
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
    title = f"{first.call.rpartition('.')[2]}() waits for the GPU at {first.place}: up to {percent(share)} of each step"
    edit = deferred_read(evidence.tree, first.line, _number(evidence, first)) if is_of_cell else None
    line = first.line if is_of_cell else 0
    return _finding(title, share, tuple(map(_line, calls[:5])), line, edit)


def _number(evidence: Evidence, call: Synchronisation) -> Number:
    """What Python got in that line, as the run has shown."""
    reads = evidence.workload.reads_back or ()
    found = (read.number for read in reads if (read.filename, read.line) == (call.filename, call.line))
    return next(found, "float")


def _of_trace(evidence: Evidence) -> Finding | None:
    """The time in `aten::item` and its like, in a trace whose GPU tells how long it was idle."""
    device, events = evidence.device, evidence.profile.events
    if device is None or events is None:
        return None
    ms, calls = _reads(events)
    share = min(ms / evidence.traced_step_ms, device.idle_share)
    if share < LEAST_SHARE:
        return None
    said = f"{' and '.join(READS[:2])}: {calls:.3g} a step, {milliseconds(ms)}; GPU idle {percent(device.idle_share)} of it"
    return _finding(
        f"Numbers are read back from the GPU: up to {percent(share)} of each step", share, (said,), 0
    )


def _reads(events: ProfiledEvents) -> tuple[float, float]:
    """(ms, calls) a step of the outermost operations that read one number, on the thread of the training loop."""
    import numpy as np

    columns = events.columns
    reads = np.array([name in READS for name in columns.names], dtype=np.bool_)[columns.name]
    reads &= events.begins_inside & (columns.thread == events.found.own_thread)
    outermost = reads & ~((events.parent >= 0) & reads[events.parent])
    steps = events.kept.steps
    return float(events.duration_ns[outermost].sum()) / steps / 1e6, float(outermost.sum()) / steps


def _finding(
    title: str,
    share: float,
    evidence: tuple[str, ...],
    line: int,
    edit: DeferredRead | None = None,
) -> Finding:
    # How much of the idle time goes away is not known beforehand: none if the CPU is late anyway, all if it is not.
    return Finding(
        kind="hidden_synchronisation",
        title=title,
        what="Reading a number back makes the CPU wait until the GPU has done all it was given; "
        "then the GPU waits until the CPU has launched the next kernels.",
        share=share,
        evidence=evidence,
        prediction=amdahl(f"idle time after waiting, up to {percent(share)} of the step, shrinks or vanishes",
                          Part(share, 1.0, 2.0, float("inf"))),
        suggests=("async_metrics",),
        remedy="Keep the value on the GPU, and read it every hundred steps, or once an epoch. "
        + (str(edit) if edit else "For example: total += loss.detach()."),
        wrong_when="the number decides what the loop does next (early stopping, a NaN check that must act at once).",
        line=line,
    )  # fmt: skip


def _line(call: Synchronisation) -> str:
    return f"{call.place}: {call.text.strip()} ({call.calls:.3g} a step, {milliseconds(call.ms)})"
