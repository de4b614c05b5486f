"""What plans need of memory, known from those that were measured; and gains that pay for what is above a limit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from accel.tuning.gain_model import NOTHING, Choice, Gains

TOO_LARGE = 3.0  # of log speed-up, which no plan gains: any plan that fits is better
STEEP = 10.0  # more for each factor of e above the limit, so that a search comes down to it


class MemoryLimit:
    """A limit in bytes, and what plans are expected to need.

    >>> limit = MemoryLimit(1000)
    >>> for choice, peak in (("", 2000), ("a", 1500), ("b", 1200)):
    ...     limit.take(frozenset(choice), peak)
    >>> limit.expected(frozenset("ab"))
    900.0

    A plan that was not measured needs what its largest measured part needs, times the share that each other part leaves
    alone. Its own measurement replaces that. What ran out of memory needs infinitely much.
    """

    def __init__(self, most: float) -> None:
        self.most = most
        self._known: dict[Choice, float] = {}

    def take(self, choice: Choice, peak: float) -> None:
        """What a plan, or nothing, was measured to need."""
        self._known[choice] = peak

    def expected(self, choice: Choice) -> float:
        """Bytes that a plan takes at its peak; NaN where nothing was measured."""
        if choice in self._known:
            return self._known[choice]
        parts = [known for known in self._known if known <= choice and math.isfinite(self._known[known])]
        if not parts:
            return self._known.get(NOTHING, math.nan)
        nearest = min(parts, key=lambda known: (-len(known), self._known[known]))
        return self._known[nearest] * math.prod(self._share(part) for part in choice - nearest)

    def _share(self, part: str) -> float:
        baseline = self._known.get(NOTHING, math.inf)
        own = self._known.get(frozenset({part}), baseline)
        return own / baseline if math.isfinite(own) and math.isfinite(baseline) else 1.0

    def fits(self, choice: Choice) -> bool:
        """Whether a plan is expected to fit."""
        return self.expected(choice) <= self.most

    def price(self, choice: Choice) -> float:
        """Of log speed-up, for what a plan needs above the limit."""
        over = self.expected(choice) / self.most
        return TOO_LARGE + STEEP * min(math.log(over), TOO_LARGE) if over > 1 else 0.0

    def priced(self, gains: Gains) -> Gains:
        """The same gains, less the price of each plan."""
        if math.isinf(self.most):
            return gains
        return _Priced(gains.parts, gains.alone, gains.together, self.price)


@dataclass(frozen=True)
class _Priced(Gains):
    price: Callable[[Choice], float]

    def of(self, choice: Choice) -> float:
        """The log speed-up of a plan, less its price."""
        return super().of(choice) - self.price(choice)

    def changes(self, choice: Choice) -> dict[str, float]:
        """What putting each part into the plan, or taking it out, would add."""
        here = self.price(choice)
        return {
            part: more + here - self.price(choice ^ {part}) for part, more in super().changes(choice).items()
        }
