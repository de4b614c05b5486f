"""Many small operations: the time goes into calling them, and the device waits for the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.diagnosis.dispatch import dispatch_share, operations
from accel.diagnosis.predicting import Part, amdahl
from accel.diagnosis.rule import LEAST_SHARE
from accel.profiling.finding import Finding
from accel.profiling.report.words import percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence

LEAST_ON_CPU = (
    0.35  # every eager step spends some 5 to 15 % there; below a third it is not what makes it slow
)

# What compiling leaves of the calls: a graph runs as a few generated kernels without Python, but autograd, the optimizer
# and the guards stay eager. On a GPU the gaps shrink likewise; with CUDA graphs they can all but vanish.
COMPILED_CPU = (0.8, 1.4, 3.0)
COMPILED_GPU = (1.0, 2.0, 10.0)


def launch_bound(evidence: Evidence) -> Finding | None:
    """On a GPU: idle time that ended with a launch. On a CPU: Python and dispatch of more than a third of the step."""
    device = evidence.device
    if device is not None:
        share = device.launch_gaps_share
        said: tuple[str, ...] = (f"{device.kernels_per_step:.0f} kernels a step, median {device.median_kernel_us:.1f} µs",
                f"GPU busy {percent(device.busy_share)}, waiting for launches {percent(share)}")  # fmt: skip
        what, factors = (
            "The GPU finishes its kernels faster than the CPU launches the next ones.",
            COMPILED_GPU,
        )
        if share < LEAST_SHARE:
            return None
    else:
        share, count = dispatch_share(evidence), operations(evidence)
        if evidence.on_gpu or share < LEAST_ON_CPU:
            return None
        said = (
            f"{count:.0f} operations a step, {1e3 * evidence.profile.step_ms / max(count, 1):.1f} µs of the step each",
        )
        what, factors = (
            "The operations are so small that calling them takes longer than what they compute.",
            COMPILED_CPU,
        )
    return Finding(
        kind="launch_bound",
        title=f"Calling operations rather than computing: {percent(share)} of each step",
        what=what,
        share=share,
        evidence=said,
        prediction=amdahl(f"calls, {percent(share)} of the step, are compiled into fewer", Part(share, *factors)),
        suggests=("compile_model",),
        remedy="A larger batch makes each operation worth its call; a fused optimizer saves most of the optimizer's calls.",
        wrong_when="the run is shorter than compiling takes, or shapes change from step to step.",
    )  # fmt: skip
