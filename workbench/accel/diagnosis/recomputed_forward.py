"""Activation checkpointing: backward recomputes parts of forward. The time is wasted if the activations would fit into memory."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel.diagnosis.predicting import GONE, Part, amdahl
from accel.profiling.findings import Finding
from accel.units import percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence

# Without recomputation, its autograd bookkeeping and GPU launches go too; stored activations cost a little time. Checkpointing
# also adds hooks to forward and backward: small linear layers became 1.7 times as fast without it, where 21 % was recomputation.
FACTORS, OTHERS = (2.0, GONE, GONE), (1.0, 1.05, 1.5)
CALLS = ("checkpoint", "checkpoint_sequential", "gradient_checkpointing_enable")


def recomputed_forward(evidence: Evidence) -> Finding | None:
    """Checkpointed modules that run again within a backward pass."""
    share = evidence.share("recompute")
    if not share or "activation_checkpointing" in evidence.live:
        return None
    memory = None if evidence.is_of_trace or evidence.on_gpu else evidence.machine.available_bytes
    hooked = 0.0 if evidence.is_of_trace or evidence.on_gpu else evidence.share("forward", "backward")
    free = f"; {memory / 2**30:.1f} GiB of memory is free" if memory else ""
    return Finding(
        kind="recomputed_forward",
        title=f"Forward is computed again in backward: {percent(share)} of each step",
        what="Activation checkpointing drops activations in forward, and computes them again when backward needs them.",
        share=share,
        evidence=(
            f"checkpointed modules run again in backward: {evidence.ms('recompute'):.3g} ms a step{free}",
        ),
        prediction=amdahl(
            f"half to all of the recomputation, {percent(share)} of the step, goes away"
            + (
                f"; without checkpoint's hooks, forward and backward become up to {OTHERS[-1]:g} times as fast"
                if hooked
                else ""
            ),
            Part(share, *FACTORS),
            Part(hooked, *OTHERS),
        ),
        suggests=(),
        remedy="Remove checkpoint() (Hugging Face: model.gradient_checkpointing_disable()), or checkpoint fewer blocks.",
        wrong_when="the activations do not fit into memory without it, or the memory saved allows a larger batch that gains "
        "more than this costs.",
        line=evidence.line_where(
            lambda node: (
                isinstance(node, ast.Call)
                and getattr(node.func, "attr", getattr(node.func, "id", "")) in CALLS
            )
        ),
    )
