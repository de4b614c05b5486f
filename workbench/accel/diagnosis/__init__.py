"""Rules that read a profile and say what costs time, why, and what to do: one rule a file.

evidence.py       what a rule is; Evidence: what it may look at; what a trace does not tell
predicting.py     Amdahl's law with a range, and no further than the roofline
dispatch.py       time that goes into calling operations
products.py       which operations low precision and memory layout make faster: products, pooling, normalisation
collectives.py    communication between ranks in a trace

Every other file is one rule: a function of the file's name. To add one, take the steps in CONTRIBUTING.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from accel.diagnosis.allocator_page_faults import allocator_page_faults
from accel.diagnosis.batch_too_small import batch_too_small
from accel.diagnosis.communication_bound import communication_bound
from accel.diagnosis.copy_bound import copy_bound
from accel.diagnosis.ddp_without_no_sync import ddp_without_no_sync
from accel.diagnosis.evidence import LEAST_SHARE, Evidence, NotKnown, Rule
from accel.diagnosis.gradients_in_validation import gradients_in_validation
from accel.diagnosis.gradients_never_cleared import gradients_never_cleared
from accel.diagnosis.graph_kept import graph_kept
from accel.diagnosis.hidden_synchronisation import hidden_synchronisation
from accel.diagnosis.input_bound import input_bound
from accel.diagnosis.last_batch_recompiles import last_batch_recompiles
from accel.diagnosis.launch_bound import launch_bound
from accel.diagnosis.layout_nchw import layout_nchw
from accel.diagnosis.loader_restarts import loader_restarts
from accel.diagnosis.low_precision_emulated import low_precision_emulated
from accel.diagnosis.low_precision_idle import low_precision_idle
from accel.diagnosis.memory_bound_elementwise import memory_bound_elementwise
from accel.diagnosis.narrowed_workers import narrowed_workers
from accel.diagnosis.optimizer_not_fused import optimizer_not_fused
from accel.diagnosis.predicting import share_without_marks, without_marks
from accel.diagnosis.profiling_leftovers import profiling_leftovers
from accel.diagnosis.recompilation_churn import recompilation_churn
from accel.diagnosis.recomputed_forward import recomputed_forward
from accel.diagnosis.thread_subscription import thread_subscription

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.profiling.findings import Finding
    from accel.profiling.profile import Profile
    from accel.workload.workload import Workload

# fmt: off
RULES: tuple[Rule, ...] = (
    input_bound,
    copy_bound,
    launch_bound,
    hidden_synchronisation,
    low_precision_idle,
    low_precision_emulated,
    layout_nchw,
    optimizer_not_fused,
    batch_too_small,
    gradients_in_validation,
    thread_subscription,
    narrowed_workers,
    profiling_leftovers,
    allocator_page_faults,
    last_batch_recompiles,
    recompilation_churn,
    ddp_without_no_sync,
    communication_bound,
    memory_bound_elementwise,
    loader_restarts,
    recomputed_forward,
    graph_kept,
    gradients_never_cleared,
)
# fmt: on

# Told however little they cost: a setting that nobody wants, or a fault whose cost a profile of a few steps cannot see.
HYGIENE: frozenset[str] = frozenset({
    "gradients_in_validation", "profiling_leftovers", "graph_kept", "gradients_never_cleared",
})  # fmt: skip

LEAST_GAIN = 1.02  # a change that is expected to gain less is no advice
# Of a trace: the only step in it may be the first of the run, which is no measure of the others.
FEWEST_STEPS = 2


def diagnose(
    profile: Profile,
    workload: Workload,
    machine: Machine,
    *,
    live: tuple[str, ...] = (),
    rules: Iterable[Rule] = RULES,
) -> tuple[Finding, ...]:
    """What costs time in this profile, the largest predicted gain first; empty for a cell in which no step was seen.

    >>> [finding.kind for finding in diagnose(profile, workload, machine)]
    ['input_bound', 'low_precision_idle']

    `live` are the names of accelerations that were on. Suggestions are not checked against this machine here.
    """
    if not profile.steps:
        return ()
    found = _ask(rules, Evidence(profile, workload, machine, live))
    return tuple(replace(each, filename=workload.filename) if each.line else each for each in found)


def diagnose_trace(
    profile: Profile,
    *,
    machine_has_gpu: bool = False,
    fewest_steps: int = FEWEST_STEPS,
    rules: Iterable[Rule] = RULES,
) -> tuple[Finding, ...]:
    """What a trace alone shows of it: a rule that would have to ask for the notebook's objects or for the machine is silent.

    >>> [finding.kind for finding in diagnose_trace(report)]
    ['input_bound']

    Also empty with too few steps, or with neither forward nor backward.
    """
    evidence = Evidence.of_trace(profile, machine_has_gpu=machine_has_gpu)
    if profile.steps < max(fewest_steps, 1) or not evidence.share("forward", "backward"):
        return ()
    return _ask(rules, evidence)


def _ask(rules: Iterable[Rule], evidence: Evidence) -> tuple[Finding, ...]:
    found = []
    for rule in rules:
        with suppress(NotKnown):
            if (finding := rule(evidence)) is not None:
                found.append(finding)
    unmarked = share_without_marks(evidence)
    found = [replace(each, prediction=without_marks(each.prediction, unmarked)) for each in found]
    worth = [
        each for each in found if each.kind in HYGIENE or (each.share >= LEAST_SHARE and _may_gain(each))
    ]
    worth.sort(key=lambda finding: -finding.gain)
    return tuple(each if _may_gain(each) else replace(each, prediction=None) for each in worth)


def _may_gain(finding: Finding) -> bool:
    """Whether the predicted ratio and the interval's geometric middle reach LEAST_GAIN; True without a prediction."""
    predicted = finding.prediction
    if predicted is None:
        return True
    return min(predicted.ratio, math.sqrt(max(predicted.low, 0.0) * predicted.high)) >= LEAST_GAIN


__all__ = ["HYGIENE", "RULES", "Evidence", "NotKnown", "Rule", "diagnose", "diagnose_trace"]
