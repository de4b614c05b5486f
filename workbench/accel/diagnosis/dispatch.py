"""Time that goes into calling operations rather than into their arithmetic: Python, dispatch, one launch after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
TRAINING = ("forward", "loss", "backward", "zero_grad", "optimizer", "scaler")


def dispatch_share(evidence: Evidence, *phases: str) -> float:
    """Share of the step that is Python and dispatch in these phases (by default all of training).

    >>> dispatch_share(evidence, "forward", "backward")
    0.62
    """
    return sum(_overhead_share(row) for row in evidence.rows(lambda row: row.phase in (phases or TRAINING)))


def short_share(evidence: Evidence, *phases: str) -> float:
    """Share of the step in Python and in operations so short that more numbers would hardly make them longer."""
    rows = evidence.rows(lambda row: row.phase in phases)
    return sum(row.share for row in rows if row.op == PYTHON or row.self_ms < SHORT_MS * row.calls)


def operations(evidence: Evidence) -> float:
    """Operations a step in the phases of training."""
    return sum(row.calls for row in evidence.rows(lambda row: row.phase in TRAINING and row.op != PYTHON))


def _overhead_share(row: OpRow) -> float:
    if row.op == PYTHON or row.self_ms <= 0:
        return row.share
    return row.share * min(1.0, row.calls * FLOOR_MS / row.self_ms)
