"""Nothing clears the gradients: each update uses the sum over all steps so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.profiling.findings import Finding

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence


def gradients_never_cleared(evidence: Evidence) -> Finding | None:
    """An optimizer made several updates, and nothing cleared or replaced the watched gradient between them."""
    conditions = evidence.profile.whole_run.conditions
    if evidence.is_of_trace or conditions is None or not conditions.never_clears:
        return None
    updates = evidence.workload.steps
    return Finding(
        kind="gradients_never_cleared",
        title="Gradients are never cleared: each update uses the sum over all steps so far",
        what="backward() adds to existing gradients, and in this run nothing cleared the watched gradient between updates.",
        share=0.0,
        evidence=(f"{updates} updates, and nothing cleared the watched gradient between them",),
        prediction=None,
        suggests=(),
        remedy="Call optimizer.zero_grad() once for each update, before the backward pass.",
        wrong_when="gradients are summed over the whole run on purpose.",
        line=evidence.line_where(lambda node: getattr(node, "attr", "") == "step", in_loop=True),
    )
