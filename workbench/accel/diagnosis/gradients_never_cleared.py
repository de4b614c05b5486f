"""Nothing clears the gradients: each update uses the sum over all steps so far."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel.profiling.findings import Finding

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence

FEWEST_STEPS = 2
CLEARING = ("zero_grad", "set_to_none", "setattr")


def gradients_never_cleared(evidence: Evidence) -> Finding | None:
    """Several updates by an optimizer, and no code of the notebook that clears or sets a gradient."""
    if (
        evidence.is_of_trace
        or evidence.workload.boundary != "optimizer"
        or evidence.workload.steps < FEWEST_STEPS
    ):
        return None
    if evidence.ms("zero_grad") or evidence.mentions(*CLEARING) or not evidence.ms("backward"):
        return None
    if evidence.mentions("grad") and not _only_reads(evidence.tree):
        return None
    if not any(_has_gradients(optimizer) for optimizer in evidence.objects.optimizers.values()):
        return None
    line = evidence.line_where(lambda node: getattr(node, "attr", "") == "step", in_loop=True)
    return Finding(
        kind="gradients_never_cleared",
        title="Gradients are never cleared: each update uses the sum over all steps so far",
        what="backward() adds to the gradients that are there, and no zero_grad() was seen in this run.",
        share=0.0,
        evidence=(f"{evidence.workload.steps} updates, no zero_grad()",),
        prediction=None,
        suggests=(),
        remedy="Call optimizer.zero_grad() once for each update, before the backward pass.",
        wrong_when="gradients are summed over the whole run on purpose.",
        line=line,
    )


def _only_reads(tree: ast.Module) -> bool:
    """Whether the cell itself has all that is done with a gradient, and nothing there sets one, changes it or passes it on."""
    grads = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "grad"]
    changing = [
        node
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr.endswith("_") and _is_grad(node.value))
        or (isinstance(node, ast.Call) and any(_is_grad(each) for each in (*node.args, node.func)))
    ]
    return bool(grads) and not changing and all(isinstance(node.ctx, ast.Load) for node in grads)


def _is_grad(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "grad"


def _has_gradients(optimizer: object) -> bool:
    groups = getattr(optimizer, "param_groups", [])
    return any(each.grad is not None for group in groups for each in group["params"])
