"""The step waits for communication between ranks, and no computation overlaps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.diagnosis.collectives import read_communication
from accel.diagnosis.predicting import GONE, Part, amdahl
from accel.profiling.findings import Finding
from accel.units import percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence

LEAST_EXPOSED = 0.05


def communication_bound(evidence: Evidence) -> Finding | None:
    """A good part of the step is in collectives, on the CPU or as kernels of a GPU, that do not overlap with computing."""
    seen = _on_gpu(evidence) or _on_cpu(evidence)
    if seen is None:
        return None
    ms, exposed_ms, step_ms, where = seen
    share = min(0.95, exposed_ms / step_ms)
    if share < LEAST_EXPOSED:
        return None
    return Finding(
        kind="communication_bound",
        title=f"Communication between ranks without overlap: {percent(share)} of each step",
        what=f"{ms:.3g} ms a step are communication between ranks, and for {exposed_ms:.3g} ms of that nothing else runs.",
        share=share,
        evidence=(f"{where}: {ms:.3g} ms a step", f"with nothing else: {exposed_ms:.3g} ms, {percent(share)} of the step"),
        prediction=amdahl(
            f"communication without overlap, {percent(share)} of the step, halves if ranks send half the bytes; at best, "
            "computation overlaps all of it",
            Part(share, 1.0, 2.0, GONE),
            Part(max(0.0, _after_backward(evidence) - share), 1.0, 1.0, GONE),
        ),
        suggests=(),
        remedy="Send less: register_comm_hook(None, bf16_compress_hook) halves the bytes; accumulating over more "
        "micro-batches with no_sync() sends less often; a larger batch per rank sends the same bytes for more samples. "
        "Start the first all-reduce earlier: smaller buckets (bucket_cap_mb). Save a copy: gradient_as_bucket_view=True.",
        wrong_when="one rank is slower than the others: then they wait for that rank, not for the network; profile that "
        "rank. With few large layers, computation cannot overlap the all-reduce of the last bucket.",
        details={"communication_ms": ms, "exposed_ms": exposed_ms},
    )  # fmt: skip


def _after_backward(evidence: Evidence) -> float:
    """Share of the step between a backward pass and what follows, where the loop may wait for collectives that it calls.

    On a CPU, no recorded operation includes the time to wake the collectives' threads; on a GPU, the kernels include it.
    """
    if evidence.device is not None:
        return 0.0
    return sum(phase.share for phase in evidence.profile.phases if phase.name.startswith("backward → "))


def _on_gpu(evidence: Evidence) -> tuple[float, float, float, str] | None:
    device = evidence.device
    if device is None or not device.communication_ms:
        return None
    exposed_ms = device.communication_ms * (1 - device.communication_overlap)
    return device.communication_ms, exposed_ms, device.step_ms, f"collective kernels of {device.device}"


def _on_cpu(evidence: Evidence) -> tuple[float, float, float, str] | None:
    talk = read_communication(evidence.profile.events)
    if talk is None:
        return None
    return talk.ms, talk.exposed_ms, evidence.traced_step_ms, f"{talk.calls:.3g} collectives"
