"""Time that goes into calling operations rather than into their arithmetic: Python, dispatch, one launch after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.profiling.op_families import FREE
from accel.profiling.op_table import PYTHON

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence
    from accel.profiling.op_table import OpRow

# An operation on a handful of numbers takes 0.3 to 3 µs of self time on one EPYC core (torch 2.14, aten::detach to
# aten::addmm of 8×16): what an operation takes up to there is the price of calling it.
FLOOR_MS = 0.003
# A product of 8 to 32 samples with weights of 256×64 takes some 10 to 20 µs, whichever of the two: reading the weights and
# setting up the call, not the arithmetic.
SHORT_MS = 0.02
# On the core that the two were found on, a quarter of all calls that compute nothing (transpose, detach, to …) took up to 0.2 µs
# of self time each, between large operations up to 0.5 µs. A slower or a busy core takes longer for these as for every call.
USUAL_MS = 0.0002
LOW = 0.25  # the quantile: a call that was interrupted says nothing, and in a step some are
FEWEST = 8.0  # such calls a step; of fewer no quantile is known
TRAINING = ("forward", "loss", "backward", "recompute", "zero_grad", "optimizer", "closure", "scaler")


def dispatch_share(evidence: Evidence, *phases: str) -> float:
    """Share of the step that is Python and dispatch in these phases (by default all of training).

    >>> dispatch_share(evidence, "forward", "backward")
    0.62
    """
    floor_ms = FLOOR_MS * call_scale(evidence)
    rows = evidence.rows(lambda row: row.phase in (phases or TRAINING))
    return sum(_overhead_share(row, floor_ms) for row in rows)


def short_share(evidence: Evidence, *phases: str) -> float:
    """Share of the step in Python and in operations so short that more numbers would hardly make them longer."""
    rows, short = evidence.rows(lambda row: row.phase in phases), short_ms(evidence)
    return sum(row.share for row in rows if row.op == PYTHON or row.self_ms < short * row.calls)


def short_ms(evidence: Evidence) -> float:
    """How long an operation takes, here and now, whose time is its call and not its arithmetic."""
    return SHORT_MS * call_scale(evidence)


def call_scale(evidence: Evidence) -> float:
    """How many times as long a call takes in this profile as where the figures above were found; 1 where it cannot be told."""
    calls = sorted((row.self_ms / row.calls, row.calls) for row in evidence.rows(_is_free))
    total = sum(count for _, count in calls)
    if total < FEWEST:
        return 1.0
    below = 0.0
    for each_ms, count in calls:
        below += count
        if below >= LOW * total:
            return each_ms / USUAL_MS
    return 1.0


def operations(evidence: Evidence) -> float:
    """Operations a step in the phases of training."""
    calls = sum(row.calls for row in evidence.rows(lambda row: row.phase in TRAINING and row.op != PYTHON))
    return calls / evidence.steps_in_rows


def _is_free(row: OpRow) -> bool:
    """No arithmetic and no memory: what it takes is its call."""
    return row.op.removeprefix("aten::") in FREE and row.calls > 0 and row.self_ms > 0


def _overhead_share(row: OpRow, floor_ms: float) -> float:
    if row.op == PYTHON or row.self_ms <= 0:
        return row.share
    return row.share * min(1.0, row.calls * floor_ms / row.self_ms)
