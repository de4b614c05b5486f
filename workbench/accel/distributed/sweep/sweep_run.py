"""Run the configurations of a sweep one after the other, never two at a time; what was measured stays, whatever ends it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from accel.errors import AccelError
from accel.measuring.sweep_row import Configuration, SweepRow, SweptRun

Measure = Callable[[Configuration], SweptRun]
Show = Callable[[tuple[SweepRow, ...], str], object]


class SweepRun:
    """Rows that fill. With several rounds the order is drawn anew for each: what drifts during it hits no row more than others.

    >>> rows, why_ended = SweepRun(rows, measure, rounds=3).go()

    `show` is called before each run with the rows so far and what runs next. A configuration that fails keeps the reason and is
    not run again; Ctrl-C ends the sweep, and the rows that have a run stay. Raises what made the runs fail where all did.
    """

    def __init__(
        self, rows: Sequence[SweepRow], measure: Measure, *,
        rounds: int = 1, show: Show = lambda _rows, _now: None, chance: random.Random | None = None,
    ) -> None:  # fmt: skip
        self.rows = list(rows)
        self._measure, self._rounds, self._show = measure, rounds, show
        self._chance = chance or random.Random()
        self._first_error: AccelError | None = None

    def go(self) -> tuple[tuple[SweepRow, ...], str]:
        """The rows, and why it ended before all were measured (empty: they were)."""
        wanted = sum(not row.reason for row in self.rows) * self._rounds
        done = 0
        try:
            for number in range(self._rounds):
                for place in self._order():
                    now = self.rows[place].configuration.words
                    about = f"Run {done + 1} of {wanted}" + (
                        f", round {number + 1}" if self._rounds > 1 else ""
                    )
                    self._show(tuple(self.rows), f"{about}: {now}")
                    self._run(place)
                    done += 1
        except KeyboardInterrupt:
            if not any(row.runs for row in self.rows):
                raise
            return tuple(
                self.rows
            ), f"Interrupted after {done} of {wanted} runs; what was measured until then stays."
        if self._first_error is not None and not any(row.runs for row in self.rows):
            raise self._first_error
        return tuple(self.rows), ""

    def _order(self) -> list[int]:
        places = [place for place, row in enumerate(self.rows) if not row.reason]
        return self._chance.sample(places, len(places)) if self._rounds > 1 else places

    def _run(self, place: int) -> None:
        row = self.rows[place]
        try:
            run = self._measure(row.configuration)
        except AccelError as error:
            self._first_error = self._first_error or error
            self.rows[place] = replace(row, reason=_reason(error))
            return
        self.rows[place] = replace(row, runs=(*row.runs, run))


def _reason(error: AccelError) -> str:
    return (
        f"failed: {error.because.strip().splitlines()[-1] if error.because.strip() else type(error).__name__}"
    )
