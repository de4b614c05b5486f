"""Most of a step costs the same whatever the batch: the optimizer, clearing gradients, calling operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.diagnosis.dispatch import dispatch_share, short_share
from accel.profiling.findings import Finding, Prediction
from accel.units import percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence

FIXED = ("optimizer", "zero_grad", "scaler")
GROWING = ("forward", "loss", "closure", "backward", "recompute")
LEAST_SHARE = 0.4  # where less is fixed, four times the batch gains under 1.4
TINY = 32  # up to so many samples, a product mostly reads its weights; batches of 4 to 16 samples became 3.5 times as fast
LARGE_ENOUGH = 1024  # samples a step from where a batch is not small, whatever else is slow
TIMES = 4


def batch_too_small(evidence: Evidence) -> Finding | None:
    """The part of the step that does not grow with the batch, when the batch is small."""
    samples = evidence.workload.samples_per_step
    if samples is None or samples > LARGE_ENOUGH or evidence.workload.boundary != "optimizer":
        return None
    update, calls = evidence.share(*FIXED), dispatch_share(evidence, *GROWING)
    least = min(1.0, max(update + calls, _idle(evidence)))
    most = min(1.0, max(least, update + _perhaps_fixed(evidence)))
    if (least if evidence.is_disturbed else most) < LEAST_SHARE:
        return None
    return Finding(
        kind="batch_too_small",
        title=f"The batch is small: {percent(most)} of each step would cost the same with a larger one",
        what=f"A step trains on {samples} samples; updating the weights and launching operations would take no longer "
        "for a larger batch.",
        share=most,
        evidence=(f"optimizer and clearing gradients: {percent(update)}",
                  f"calls, and operations too short to grow with the batch: {percent(most - update)}"),
        prediction=_per_sample(least, most, perhaps=most + evidence.share(*GROWING) if samples <= TINY else most),
        suggests=(f"batch_size(factor={TIMES})",) if evidence.step_loader is not None else (),
        remedy=f"Raise the batch to {TIMES * samples} samples, and the learning rate with it (linearly up to a point).",
        wrong_when="the larger batch does not fit into memory, or the model needs many small updates to reach its quality: "
        "samples per second rise, steps per second do not.",
        details={"times": TIMES},
    )  # fmt: skip


def _idle(evidence: Evidence) -> float:
    """Share of the step in which the GPU had nothing to do, though the loop had its batch."""
    device, waiting = evidence.device, ("data", "copy", *evidence.gaps_before_forward)
    if device is None:
        return 0.0
    return max(0.0, device.idle_share - sum(share for name, share in device.idle_phases if name in waiting))


def _perhaps_fixed(evidence: Evidence) -> float:
    """Calls, short operations and the time between phases; all of forward and backward where operations prove nothing."""
    if evidence.is_disturbed:
        return 1.0 - evidence.share("data", "copy", *FIXED, *evidence.gaps_before_forward)
    between = sum(
        phase.share
        for phase in evidence.profile.phases
        if phase.is_gap and "data" not in phase.name and phase.name not in evidence.gaps_before_forward
    )
    return between + short_share(evidence, *GROWING)


def _per_sample(least: float, most: float, perhaps: float) -> Prediction:
    """With `TIMES` the batch, the fixed part is still paid once: `least` to `most` of the step, `perhaps` for the upper end.

    It is at least the update and the calls, at most the short operations too, and for tiny batches perhaps all of forward and
    backward. The rest grows with the batch, and a little faster where it no longer fits the caches (1.25: 0.88 [0.87, 0.91]
    was measured at four times the batch of the course CNN), or slower where larger products run nearer to the peak (0.8).
    """

    def ratio(fixed: float, growth: float) -> float:
        return 1.0 / (fixed / TIMES + (1.0 - fixed) * growth)

    upper = max(most, min(1.0, perhaps))
    fixed = f"{percent(least)} to {percent(upper)} of the step takes no longer with {TIMES} times the samples"
    basis = f"{fixed}; the predicted speed-up is in samples per second"
    middle = (least + 2.0 * most) / 3.0
    return Prediction(
        ratio(middle, 1.0), ratio(0.9 * least, 1.25), ratio(min(1.0, 1.05 * perhaps), 0.8), basis
    )
