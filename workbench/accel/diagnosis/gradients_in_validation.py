"""Forward passes that record a graph for a backward that never comes: validation without `torch.no_grad()`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.diagnosis.predicting import Part, amdahl
from accel.profiling.findings import Finding
from accel.units import percent
from accel.workload.user_code import CodeLine

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence
    from accel.profiling.whole_run import UnusedForward

# How many times as fast a forward is without its graph, on one core of an EPYC: MLP 1.08, course CNN 1.06 [1.01, 1.15],
# transformer layer 1.04, resnet18 1.01 [0.99, 1.03]. What it saves surely is memory.
LEAST, EXPECTED, MOST = 1.0, 1.04, 1.2


def gradients_in_validation(evidence: Evidence) -> Finding | None:
    """A line that calls a model with gradients on, and no backward follows any of its calls."""
    unused = evidence.profile.whole_run.unused_forwards
    if not unused or "no_grad_validation" in evidence.live:
        return None
    share = evidence.of_cell(sum(each.ms for each in unused))
    first, calls = unused[0], sum(each.calls for each in unused)
    in_cell = [each.line for each in unused if each.filename == evidence.workload.filename]
    mode = "" if first.was_training else " in eval mode, which does not switch gradients off,"
    return Finding(
        kind="gradients_in_validation",
        title=f"Gradients in validation: {percent(share)} of the cell is forward passes that no backward follows",
        what=f"{calls} forward passes{mode} recorded what a backward would need, and kept its activations in memory "
        "until the result was dropped.",
        share=share * (1 - 1 / MOST),
        evidence=tuple(
            f"{_place(each, evidence)}: {each.calls} calls, {each.ms:.3g} ms together" for each in unused[:3]
        ),
        prediction=amdahl(
            f"of the whole cell; forward passes without a graph, {percent(share)} of it, were seen to be "
            f"{LEAST:g} to {MOST:g} times as fast",
            Part(share, LEAST, EXPECTED, MOST),
            of="cell",
        ),
        suggests=("no_grad_validation",) if _is_told_by_mode(evidence) else (),
        remedy=f"Put `with torch.no_grad():` (or torch.inference_mode()) round the loop at {_place(first, evidence)}.",
        wrong_when="something reads gradients of these results later, in another cell, or one backward later "
        "trains several models by what they gave over many calls, as with a policy and a value network.",
        line=in_cell[0] if in_cell else 0,
        details={"forward_share_of_cell": share, "calls": float(calls)},
    )  # fmt: skip


def _is_told_by_mode(evidence: Evidence) -> bool:
    """Whether eval mode alone tells validation from training here: then it can be tried without an edit."""
    calls = evidence.workload.model_calls or ()
    in_eval = [call for call in calls if not call.is_training]
    is_apart = any(call.is_validation for call in in_eval) and not any(
        call.is_trained_through for call in in_eval
    )
    return is_apart and evidence.workload.has_training_step


def _place(found: UnusedForward, evidence: Evidence) -> str:
    """Where a reader finds the call: a line of the cell, or a function by name."""
    place = str(CodeLine(found.filename, found.line))
    return place if found.filename == evidence.workload.filename else f"{place}, in {found.function}()"
