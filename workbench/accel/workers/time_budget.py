"""The wall time that a measurement may take, counted from the command on, and what of it goes to which phase."""

from __future__ import annotations

import time
from collections.abc import Callable

ENDING_S = 0.4  # for ending workers, and for looking whether anything of the notebook changed


class TimeBudget:
    """Counts from the moment it is made; `deadline` is where measuring has to end.

    >>> budget = TimeBudget(60.0)
    >>> budget.left_s, budget.is_up
    (59.6, False)

    None is no budget: `usual_s` is when no other relaunch begins, but what has begun comes to its end.
    """

    def __init__(
        self,
        asked_s: float | None = None,
        *,
        usual_s: float = 240.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self.asked_s, self.usual_s = asked_s, usual_s
        self.began = clock()

    @property
    def is_strict(self) -> bool:
        """Whether everything ends with it, whatever it waits for."""
        return self.asked_s is not None

    @property
    def seconds(self) -> float:
        """What may be taken in all."""
        return self.usual_s if self.asked_s is None else self.asked_s

    @property
    def deadline(self) -> float:
        """When measuring ends, on the clock: a little before the time is up where that was asked for."""
        return self.began + (self.usual_s if self.asked_s is None else max(self.asked_s - ENDING_S, 0.0))

    @property
    def used_s(self) -> float:
        return self.clock() - self.began

    @property
    def left_s(self) -> float:
        """Until the deadline; negative when it is over."""
        return self.deadline - self.clock()

    @property
    def is_up(self) -> bool:
        return self.left_s <= 0


class PhaseClock:
    """What goes on now, in words, and how many seconds each phase took; written by one thread, read by any.

    >>> phases = PhaseClock("preparing"); phases.enter("measuring", "round 3")
    >>> phases.now, phases.spent
    ('measuring, round 3', (('preparing', 0.2), ('measuring', 0.0)))
    """

    def __init__(
        self, first: str, *, began: float | None = None, clock: Callable[[], float] = time.monotonic,
        on_phase: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._clock, self._on_phase = clock, on_phase
        self._phase, self._detail = first, ""
        self._since = clock() if began is None else began
        self._spent: dict[str, float] = {}
        self._is_over = False

    def enter(self, phase: str, detail: str = "") -> None:
        """From now on this goes on; the same phase again only changes what is said of it."""
        is_another = phase != self._phase
        if is_another:
            self._count()
            self._phase = phase
        self._detail = detail
        if is_another:
            self._on_phase()

    def end(self) -> None:
        """Nothing goes on any more."""
        self._count()
        self._is_over, self._phase, self._detail = True, "", ""

    @property
    def now(self) -> str:
        """The phase in words; empty when all is over."""
        return f"{self._phase}, {self._detail}" if self._detail else self._phase

    @property
    def phase(self) -> str:
        """The phase in a word or two, without its details."""
        return self._phase

    @property
    def detail(self) -> str:
        """What is known of it, such as which plan it is about."""
        return self._detail

    @property
    def phase_s(self) -> float:
        """For how long it has been going on."""
        return self._clock() - self._since

    @property
    def spent(self) -> tuple[tuple[str, float], ...]:
        """Seconds of each phase, in the order in which they first began."""
        spent = dict(self._spent)
        if not self._is_over:
            spent[self._phase] = spent.get(self._phase, 0.0) + self._clock() - self._since
        return tuple(spent.items())

    def _count(self) -> None:
        now = self._clock()
        self._spent[self._phase] = self._spent.get(self._phase, 0.0) + now - self._since
        self._since = now
