"""What a rule is: a function from evidence to a finding, or to None where the fault is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence
    from accel.profiling.findings import Finding

LEAST_SHARE = (
    0.03  # below 3 % of the step nobody's time is worth it, and the spread of a profile is of that size
)


class Rule(Protocol):
    """One cause of lost time; its function is named as the kind of its finding.

    >>> input_bound(evidence).kind
    'input_bound'

    A rule reads and never changes what it is given, and raises nothing on a profile that lacks what it looks for.
    """

    @property
    def __name__(self) -> str: ...

    def __call__(self, evidence: Evidence, /) -> Finding | None: ...
