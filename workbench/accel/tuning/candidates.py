"""What a search may put into a plan: parts, what is expected of each, and which of them can be in one plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from accel.measuring.comparison import CHANGES, Interval
from accel.measuring.tuning import LeftOut
from accel.plans.plan import Plan
from accel.tuning.gain_model import Choice, Prior

_SIGMAS = 2.0  # from the middle of an expected interval to its ends
_LEAST_SD, _MOST_SD = 0.1, 0.4


@dataclass(frozen=True)
class Hint:
    """An expected speed-up, and who expects it ("a finding", "this machine's history")."""

    source: str
    expected: Interval

    @property
    def prior(self) -> Prior:
        """As the search takes it: never so sure that a measurement could not correct it.

        >>> Hint("a finding", Interval(1.5, 1.2, 1.8, 0, 0)).prior
        Prior(mean=0.405..., sd=0.10...)
        """
        sd = math.log(self.expected.high / self.expected.low) / 2 / _SIGMAS
        return Prior(math.log(self.expected.ratio), min(max(sd, _LEAST_SD), _MOST_SD))


@dataclass(frozen=True)
class Candidates:
    """The parts of a search, by their texts.

    Args:
        parts: What the search begins with, the likeliest first: each part as a plan of one entry.
        settings: Other settings of a part, raced once the part is good: by the part's text.
        of_process: What belongs to the whole process: measured with the winner, not in the search.
        excluded: Pairs of parts that cannot be in one plan, that of the process among them.
        hints: What is expected of parts, where something is.
        left_out: What cannot work, or was not asked for, and why.
    """

    parts: Mapping[str, Plan]
    settings: Mapping[str, Mapping[str, Plan]] = field(default_factory=dict)
    of_process: Plan = field(default_factory=Plan)
    excluded: frozenset[Choice] = frozenset()
    hints: Mapping[str, Hint] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()

    def prior(self, part: str) -> Prior:
        """What is expected of a part."""
        return self.hints[part].prior if part in self.hints else Prior()

    def allows(self, choice: Choice) -> bool:
        """Whether these parts can be in one plan."""
        return not any(pair <= choice for pair in self.excluded)

    @property
    def known(self) -> dict[str, Plan]:
        """All parts, other settings among them."""
        return {
            **self.parts,
            **{text: plan for each in self.settings.values() for text, plan in each.items()},
        }

    def plan(self, choice: Choice) -> Plan:
        """The plan that these parts make."""
        known, whole = self.known, Plan()
        for part in sorted(choice):
            whole = whole.updated(known[part])
        return whole

    @property
    def changing(self) -> frozenset[str]:
        """The parts that change training."""
        return frozenset(text for text, plan in self.known.items() if plan.effect == CHANGES)
