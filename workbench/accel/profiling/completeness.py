"""Is a profile complete? CUPTI can lose kernels and shift their times without saying so; two cross-checks look.

Sources: pytorch/pytorch#175790 (later profiles in one process are shifted), #192021 (kernels dropped at a session's start).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Completeness:
    """The stamp on a report.

    >>> str(Completeness(False, ("412 of 1,200 launched kernels are missing",)))
    'Incomplete: 412 of 1,200 launched kernels are missing'
    """

    is_complete: bool = True
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "Complete" if self.is_complete else "Incomplete: " + "; ".join(self.reasons)
