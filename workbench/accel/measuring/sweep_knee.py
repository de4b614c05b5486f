"""Where more threads, processes or GPUs stop helping, by a rule that is stated, and in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from accel.measuring.sweep_row import SweepRow
from accel.units import counted, percent

WITHIN = 0.05  # of the best time: no more than a machine drifts by between two runs
RULE = f"The knee is the smallest number that comes within {percent(WITHIN, 0)} of the best, or is statistically tied with it."

Cost = Callable[[SweepRow], float]
Apart = Callable[[SweepRow, SweepRow], bool]


@dataclass(frozen=True)
class Knee:
    """The number from which on more do no more: `counts` with the cost of each, in seconds or seconds a sample.

    >>> Knee("thread", ((1, 311.0), (8, 93.0), (12, 73.0), (16, 73.0))).at
    12
    """

    what: str  # "thread", "process" or "GPU"
    costs: tuple[tuple[int, float], ...]
    where: str = ""  # at so many CPUs in all, over a backend
    alike: tuple[int, ...] = ()  # numbers that the rounds cannot tell from the best

    @property
    def at(self) -> int:
        """The smallest number whose cost is within 5 % of the best, or is statistically tied with it."""
        best = min(cost for _, cost in self.costs)
        return min(count for count, cost in self.costs if cost <= best * (1 + WITHIN) or count in self.alike)

    @property
    def is_reached(self) -> bool:
        """Whether a larger number was measured, and did no more."""
        return self.at < max(count for count, _ in self.costs)

    def sentence(self, shown: Callable[[float], str]) -> str:
        """In words, with costs as `shown` writes them."""
        costs, at = dict(self.costs), self.at
        most = max(costs)
        start = f"{self.where}: " if self.where else ""
        best = min(costs, key=lambda count: costs[count])
        if costs[at] > costs[best] * (1 + WITHIN):
            many, few = counted(max(best, at), self.what), min(best, at)
            shown_two = f"{shown(costs[max(best, at)])} and {shown(costs[few])}"
            return f"{start}{many} and {few} are statistically tied ({shown_two})."
        if self.is_reached:
            slower = costs[most] > costs[at] * (1 + WITHIN) and most not in self.alike
            verb = "are slower than" if slower else "do no more than"
            return f"{start}{counted(most, self.what)} {verb} {at} ({shown(costs[most])} and {shown(costs[at])})."
        before = max(count for count in costs if count < most)
        gain = costs[before] / costs[most]
        return (
            f"{start}no knee up to {counted(most, self.what)}: they are {gain:.2f} times as fast as {before} "
            f"({shown(costs[most])} and {shown(costs[before])})."
        )


def knees(rows: Sequence[SweepRow], cost: Cost, apart: Apart) -> tuple[Knee, ...]:
    """The knees of a sweep: in threads of one process, in processes on the same CPUs, in GPUs; for each backend.

    >>> knees(rows, sweep.cost, sweep.is_told_apart)
    (Knee(what='thread', ...), Knee(what='process', ...))
    """
    measured = [row for row in rows if row.runs and cost(row) > 0]
    on_cpus = [row for row in measured if not row.configuration.on_gpus]
    found = [_along_threads(on_cpus, cost, apart)]
    backends = dict.fromkeys(row.configuration.backend for row in measured if row.configuration.backend)
    for backend in backends:
        over = f"over {backend}" if len(backends) > 1 else ""
        of_it = [row for row in measured if row.configuration.backend in ("", backend)]
        found.append(_along_gpus([row for row in of_it if row.configuration.on_gpus], cost, apart, over))
        found.append(
            _along_processes([row for row in of_it if not row.configuration.on_gpus], cost, apart, over)
        )
    return tuple(knee for knee in found if knee is not None)


def _along_threads(rows: list[SweepRow], cost: Cost, apart: Apart) -> Knee | None:
    for processes in sorted({row.configuration.processes for row in rows}):
        family = [row for row in rows if row.configuration.processes == processes]
        backend = family[0].configuration.backend
        family = [row for row in family if row.configuration.backend == backend]
        if len(family) > 1:
            where = "One process" if processes == 1 else f"{counted(processes, 'process')}, threads each"
            return _knee("thread", family, cost, apart, lambda row: row.configuration.threads or 1, where)
    return None


def _along_processes(rows: list[SweepRow], cost: Cost, apart: Apart, over: str) -> Knee | None:
    """On the most CPUs that several numbers of processes were measured on; else with the same threads each."""
    for units in sorted({row.configuration.units for row in rows}, reverse=True):
        family = [row for row in rows if row.configuration.units == units]
        if len(family) > 1:
            where = f"{counted(units, 'CPU')} in all {over}".rstrip()
            return _knee("process", family, cost, apart, lambda row: row.configuration.processes, where)
    for threads in sorted({row.configuration.threads or 1 for row in rows}):
        family = [row for row in rows if (row.configuration.threads or 1) == threads]
        if len(family) > 1:
            where = f"{counted(threads, 'thread')} each {over}".rstrip()
            return _knee("process", family, cost, apart, lambda row: row.configuration.processes, where)
    return None


def _along_gpus(rows: list[SweepRow], cost: Cost, apart: Apart, over: str) -> Knee | None:
    if len(rows) < 2:
        return None
    return _knee("GPU", rows, cost, apart, lambda row: row.configuration.processes, over.capitalize())


def _knee(
    what: str, rows: list[SweepRow], cost: Cost, apart: Apart, count: Callable[[SweepRow], int], where: str
) -> Knee:
    best = min(rows, key=cost)
    alike = tuple(count(row) for row in rows if row is not best and not apart(row, best))
    return Knee(what, tuple(sorted((count(row), cost(row)) for row in rows)), where, alike)
