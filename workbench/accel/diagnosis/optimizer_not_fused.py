"""The optimizer updates parameter by parameter in many small operations, where one fused kernel would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.diagnosis.predicting import Part, amdahl
from accel.profiling.finding import Finding
from accel.profiling.report.words import percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence

HAVE_FUSED = ("Adam", "AdamW", "SGD", "Adagrad")

# How many times as fast the update itself becomes. From whole-step ratios on one core of an EPYC (1.08 of the course CNN
# with an optimizer share near 0.12, 1.10 [1.05, 1.57] of DenseNet121): 2.6; Adam makes 13 passes over each parameter,
# the fused kernel one, which bounds it where memory is the limit; SGD makes 1 to 4.
FACTORS = {"SGD": (1.0, 1.3, 2.5)}
ADAM_FACTORS = (1.5, 2.6, 6.0)


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
    low, factor, high = FACTORS.get(kind, ADAM_FACTORS)
    return Finding(
        kind="optimizer_not_fused",
        title=f"The optimizer's update is not fused: {percent(share)} of each step",
        what=f"{kind} updates {count} parameters in about {calls:.0f} operations a step, "
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
