"""Most of a step costs the same whatever the batch: the optimizer, clearing gradients, calling operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.diagnosis.dispatch import dispatch_share
from accel.profiling.finding import Finding, Prediction
from accel.profiling.report.words import percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence

FIXED = ("optimizer", "zero_grad", "scaler")
LEAST_SHARE = 0.4  # where less is fixed, four times the batch gains under 1.4
LARGE_ENOUGH = 1024  # samples a step from where a batch is not small, whatever else is slow
TIMES = 4


def batch_too_small(evidence: Evidence) -> Finding | None:
    """The part of the step that does not grow with the batch, when the batch is small."""
    samples = evidence.workload.samples_per_step
    if samples is None or samples > LARGE_ENOUGH or evidence.workload.boundary != "optimizer":
        return None
    update, calls = evidence.share(*FIXED), dispatch_share(evidence, "forward", "loss", "backward")
    device = evidence.device
    fixed = min(1.0, max(update + calls, device.idle_share if device is not None else 0.0))
    if fixed < LEAST_SHARE:
        return None
    return Finding(
        kind="batch_too_small",
        title=f"The batch is small: {percent(fixed)} of each step would cost the same with a larger one",
        what=f"A step trains on {samples} samples; updating the weights and calling operations take as long for more.",
        share=fixed,
        evidence=(f"optimizer and clearing gradients: {percent(update)}", f"calling operations: {percent(calls)}"),
        prediction=_per_sample(fixed),
        suggests=(),
        remedy=f"Raise the batch to {TIMES * samples} samples, and the learning rate with it (linearly up to a point).",
        wrong_when="the memory does not hold it, or the model needs many small updates to reach its quality: "
        "the gain is in samples a second, not in steps.",
        details={"times": TIMES},
    )  # fmt: skip


def _per_sample(fixed: float) -> Prediction:
    """With `TIMES` the batch: the fixed part is paid once for all of it.

    At most all that is called fixed is; at least three quarters of it, for calls get longer with what they compute; and
    the rest may grow a little faster than the batch, where it no longer fits the caches (1.25: 0.88 [0.87, 0.91] was measured
    at four times the batch of the course CNN).
    """

    def ratio(share: float, growth: float) -> float:
        return 1.0 / (share / TIMES + (1.0 - share) * growth)

    basis = f"{percent(fixed)} of the step is paid once for {TIMES} times the samples; in samples a second"
    return Prediction(ratio(fixed, 1.0), ratio(0.75 * fixed, 1.25), ratio(min(1.0, 1.1 * fixed), 0.9), basis)
