"""What a data-parallel run did: per rank its steps, loss, rate and share of communication, with the ranks' CPUs read back."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from accel.distributed.cells.plan_effects import PlanEffect
from accel.distributed.cells.values_of_ranks import RankValues, line_of
from accel.distributed.communication.communication_report import CommunicationReport
from accel.distributed.communication.straggler import straggler
from accel.distributed.first_step.verdict import FirstStepCheck
from accel.distributed.ranks.rank_page import RankLane
from accel.profiling.compilation import Compilation
from accel.shown import Shown
from accel.units import counted


@dataclass(frozen=True)
class RankReport:
    """One rank: its lane as it ended, its CPUs and threads, read back, and what it printed."""

    lane: RankLane
    cpus: tuple[int, ...]
    threads: int
    output: str = ""
    host: str = ""  # of a job: where it was

    @property
    def own_ms(self) -> float:
        """Of a step, the time in which it did not wait for others."""
        return self.lane.own_ms


@dataclass(frozen=True)
class DdpResult(Shown):
    """A finished run. `step_ms` is the mean over its steps; `first_step_s` runs from the request to the first optimizer step.

    >>> result = accel.ddp(cell, n=2)
    >>> result.samples_per_s
    """

    ranks: tuple[RankReport, ...]
    backend: str
    batch: str
    seconds: float
    start_s: float
    first_step_s: float | None
    steps: int
    step_ms: float
    was_stopped: bool = False
    has_state: bool = True
    left_behind: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    communication: CommunicationReport | None = None  # with --communication
    plan: str = ""
    effects: tuple[PlanEffect, ...] = ()
    compilation: Compilation | None = None  # in rank 0
    first_step: FirstStepCheck | None = None  # compared with one process's, with --batch global
    quality: float | None = None  # on held-out data, where it was asked for
    quality_reason: str = ""
    values: tuple[RankValues, ...] = ()  # what came home of rank 0 alone, and is another on other ranks
    distributes_itself: bool = False  # as for torchrun: its ranks' waits for each other are not recorded

    @property
    def samples_per_s(self) -> float:
        """Samples that all ranks together trained on, a second of training."""
        return sum(each.lane.samples_per_s for each in self.ranks)

    @property
    def line(self) -> str:
        """The run in one line."""
        ranks = counted(len(self.ranks), "rank")
        if not self.steps:
            return f"{ranks} over {self.backend}: no optimizer stepped; {self.seconds:.1f} s in all."
        ended = "stopped after" if self.was_stopped else "trained"
        return (
            f"{ranks} over {self.backend} {ended} {self.steps} steps of {self.step_ms:.1f} ms, "
            f"{self.samples_per_s:,.0f} samples/s; {self.seconds:.1f} s in all, "
            f"{self.start_s:.1f} s of it until the ranks were up."
        )

    @property
    def state_line(self) -> str:
        """What became of the notebook's objects."""
        if not self.has_state:
            return "Your objects are as they were: the trained state was not asked for."
        if not self.steps:
            return "Nothing was trained by an optimizer; what else the cell changed is in your notebook's own objects."
        return "The trained state is in your notebook's own objects."

    @property
    def check_lines(self) -> list[str]:
        """What comparing the first step with one process's gave, where it was asked for."""
        return [self.first_step.line] if self.first_step is not None else []

    @property
    def values_line(self) -> str:
        """Which numbers are one rank's; empty where all ranks have the same."""
        return line_of(self.values)

    @property
    def plan_lines(self) -> list[str]:
        """What was read back of the plan, an entry a line, and what was compiled for it."""
        lines = [str(effect) for effect in self.effects if effect.took_effect]
        return [*lines, f"{self.compilation.line} (rank 0)"] if self.compilation is not None else lines

    @property
    def warnings(self) -> list[str]:
        """Stragglers, ranks that share CPUs, what of the plan took no effect, and what could not be brought back."""
        found = [*self.notes, *filter(None, (effect.warning for effect in self.effects))]
        if (slow := straggler([each.lane for each in self.ranks])) is not None:
            found.append(str(slow))
        if len({(each.host, cpu) for each in self.ranks for cpu in each.cpus}) < sum(
            len(each.cpus) for each in self.ranks
        ):
            found.append(
                "Ranks share CPUs: there are more ranks × threads than CPUs that this process may use."
            )
        found += [f"{name} was not brought back: {why}." for name, why in self.left_behind]
        return found

    def to_dict(self) -> dict[str, Any]:
        """Every figure as plain values, with the warnings."""
        seen = self.communication.to_dict() if self.communication is not None else None
        derived = {"samples_per_s": self.samples_per_s, "warnings": self.warnings, "communication": seen}
        return asdict(replace(self, communication=None)) | derived

    def to_dataframe(self) -> Any:
        """One row a rank."""
        import pandas

        return pandas.DataFrame(
            [asdict(each.lane) | {"cpus": each.cpus, "threads": each.threads} for each in self.ranks]
        )
