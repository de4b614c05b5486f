"""Many small operations: the time goes into calling them, and the device waits for the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.diagnosis.dispatch import TRAINING, dispatch_share, operations, short_ms, short_share
from accel.diagnosis.evidence import LEAST_SHARE
from accel.diagnosis.predicting import Part, amdahl
from accel.profiling.findings import Finding
from accel.units import percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence
    from accel.profiling.device_activity import DeviceActivity

# Every eager step spends some 5 to 15 % there; below a third it is not what makes it slow.
LEAST_ON_CPU = 0.35

# What compiling leaves of calls and short operations: a graph runs as a few generated kernels without Python, but autograd, the
# optimizer and the guards stay eager. 24 layers of 32 units, 95 % of the step: 1.58 [1.30, 1.92] and 1.66 [1.29, 2.12] of the
# whole (AMD EPYC, one thread), so 1.6 to 1.7 of this part. On a GPU gaps shrink likewise, and with CUDA graphs all but vanish.
COMPILED_CPU = (0.9, 1.65, 3.0)
COMPILED_GPU = (1.0, 2.0, 10.0)


def launch_bound(evidence: Evidence) -> Finding | None:
    """On a GPU: idle time that ended with a launch. On a CPU: Python and dispatch of more than a third of the step."""
    if evidence.is_slowed_by_stacks:
        return None
    device = evidence.device
    calls = _on_cpu(evidence) if device is None else _on_gpu(device)
    if calls is None:
        return None
    return Finding(
        kind="launch_bound",
        title=f"Calling operations rather than computing: {percent(calls.share)} of each step",
        what=calls.what,
        share=calls.share,
        evidence=calls.evidence,
        prediction=amdahl(f"{calls.part_name}, {percent(calls.part.share)} of the step, are compiled into fewer", calls.part),
        suggests=("compile_model",),
        remedy="A larger batch makes each operation worth its call; a fused optimizer saves most of the optimizer's calls.",
        wrong_when="the run is shorter than compiling takes, or shapes change from step to step.",
    )  # fmt: skip


@dataclass(frozen=True)
class _Calls:
    """What calling costs, and the part of the step that compiling changes."""

    share: float
    part: Part
    part_name: str
    what: str
    evidence: tuple[str, ...]


def _on_gpu(device: DeviceActivity) -> _Calls | None:
    share = device.launch_gaps_share
    if share < LEAST_SHARE:
        return None
    return _Calls(
        share, Part(share, *COMPILED_GPU), "launch gaps",
        "The GPU finishes its kernels faster than the CPU launches the next ones.",
        (f"{device.kernels_per_step:.0f} kernels a step, median {device.median_kernel_us:.1f} µs",
         f"GPU busy {percent(device.busy_share)}, waiting for launches {percent(share)}"),
    )  # fmt: skip


def _on_cpu(evidence: Evidence) -> _Calls | None:
    share, count = dispatch_share(evidence), operations(evidence)
    if evidence.on_gpu or share < LEAST_ON_CPU:
        return None
    part = Part(min(1.0, max(share, short_share(evidence, *TRAINING))), *COMPILED_CPU)
    return _Calls(
        share, part, f"calls and operations below {1e3 * short_ms(evidence):.2g} µs",
        "The operations are so small that calling them takes longer than what they compute.",
        (f"{count:.0f} operations a step, {1e3 * evidence.profile.step_ms / max(count, 1):.1f} µs of the step each",),
    )  # fmt: skip
