"""Evidence: a profile, its workload and its machine, and the facts that several rules ask them for; and what a rule is."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.profiling.device_activity import DeviceActivity
    from accel.profiling.findings import Finding
    from accel.profiling.loader_time import LoaderTime
    from accel.profiling.op_table import OpRow
    from accel.profiling.profile import Profile
    from accel.workload.replica import Replica
    from accel.workload.workload import Workload


class NotKnown(Exception):
    """A rule asked for something that is not known of this profile; `diagnose_trace` then says nothing for that rule."""


class Untold:
    """In place of the workload or the machine that a trace is from.

    >>> Untold("the workload").objects()
    Traceback (most recent call last):
    accel.diagnosis.evidence.NotKnown: the workload's objects
    """

    def __init__(self, what: str) -> None:
        self._what = what

    def __getattr__(self, name: str) -> NoReturn:
        raise NotKnown(f"{self._what}'s {name}")


BEFORE, UNTIL = ("data", "copy", "zero_grad", "optimizer", "scaler"), ("zero_grad", "copy", "forward")
BEFORE_CLOSURE = ("data → optimizer", "copy → optimizer", "optimizer → optimizer")
PROFILER_MS = 0.002  # an operation, at most: 0.4 to 2 µs on an AMD EPYC, torch 2.14


@dataclass(frozen=True, eq=False)
class Evidence:
    """All that a rule may look at; what costs time to read is read when first asked for.

    >>> evidence.share("data"), evidence.share_of_ops(lambda row: row.op == "aten::item")
    (0.38, 0.02)

    Shares are of the step, 0 to 1. `live` are the accelerations that were kept while the profile was taken.
    """

    profile: Profile
    workload: Workload
    machine: Machine
    live: tuple[str, ...] = ()
    machine_has_gpu: bool = False  # of a trace, as its head tells

    @classmethod
    def of_trace(cls, profile: Profile, *, machine_has_gpu: bool = False) -> Evidence:
        """What a trace tells alone. To ask it for the workload or the machine raises NotKnown.

        >>> Evidence.of_trace(accel.open_trace("trace.json.gz")).share("data")
        0.38
        """
        workload, machine = cast("Workload", Untold("the workload")), cast("Machine", Untold("the machine"))
        return cls(profile, workload, machine, machine_has_gpu=machine_has_gpu)

    @property
    def is_of_trace(self) -> bool:
        """Whether all there is to look at is a trace, perhaps from another machine."""
        return isinstance(self.workload, Untold)

    def share(self, *phases: str) -> float:
        """Share of these phases together, by the names of `profile.phases`: phases, or gaps ("forward → backward")."""
        return sum(phase.share for phase in self.profile.phases if phase.name in phases)

    @property
    def gaps_before_forward(self) -> tuple[str, ...]:
        """The gaps in which the loop's own code runs after an update, or after a batch was fetched, and before the forward."""
        names = [phase.name for phase in self.profile.phases if phase.is_gap]
        by_closure = BEFORE_CLOSURE if any(phase.name == "closure" for phase in self.profile.phases) else ()
        return tuple(
            name
            for name in names
            if name in by_closure or (name.split(" → ")[0] in BEFORE and name.split(" → ")[-1] in UNTIL)
        )

    def ms(self, *phases: str) -> float:
        """Their time per step, in ms."""
        return sum(phase.ms for phase in self.profile.phases if phase.name in phases)

    def of_cell(self, ms: float) -> float:
        """`ms` as a share of the cell's time without torch.profiler's."""
        timing = self.profile.timing
        return min(0.99, ms / max(timing.cell_ms - timing.added_ms, 1e-9))

    def rows(self, wanted: Callable[[OpRow], bool]) -> tuple[OpRow, ...]:
        """The finest rows (phase, module, operation) that are wanted, most expensive first; none if `is_disturbed`."""
        return () if self.is_disturbed else tuple(row for row in self.profile.rows if wanted(row))

    def share_of_ops(self, wanted: Callable[[OpRow], bool]) -> float:
        """The wanted rows' share of all self time in the profiled steps."""
        return sum(row.share for row in self.rows(wanted))

    def sure_share(self, phase: str) -> float:
        """Share of a phase less what the profiler can have cost in it, where all steps ran under it (a trace)."""
        if not self.is_of_trace:
            return self.share(phase)
        calls = sum(row.calls for row in self.rows(lambda row: row.phase == phase))
        return max(0.0, self.share(phase) - calls * PROFILER_MS / self.traced_step_ms)

    @property
    def is_slowed_by_stacks(self) -> bool:
        """Whether every call of Python was recorded (`with_stack=True`): what Python takes is then several times too long."""
        return self.is_of_trace and self.profile.options.stacks

    @cached_property
    def is_disturbed(self) -> bool:
        """Whether the profiled steps took so much longer than the others that their operations prove nothing.

        Another process that runs for a few ms in the middle of an operation makes it look the most expensive one of a short
        step. The profiler alone makes short steps 1.5 times as long, with all its options 2.3 times.
        """
        if not self.profile.profiled_steps:  # the rows are of the whole cell or trace, not of a step
            return False
        options = self.profile.options
        usual = 3.5 if options.shapes or options.stacks or options.memory else 2.0
        profiled_ms = sum(row.self_ms for row in self.profile.rows)
        return profiled_ms > usual * self.profile.step_ms

    @property
    def others(self) -> float:
        """How many of the usable cores other programs kept busy while the cell ran; 0 where that was not measured."""
        conditions = self.profile.whole_run.conditions
        taken = conditions.others if conditions is not None else None
        return taken.cores_of(self.machine.usable_cores) if taken is not None else 0.0

    @property
    def made_ms(self) -> float:
        """Milliseconds of making the batches of a step; 0 where that was not measured."""
        time = self.step_loader_time
        return time.ms_per_batch * max(self.workload.accumulation, 1) if time is not None else 0.0

    @property
    def traced_step_ms(self) -> float:
        """Wall time of a step under torch.profiler, which times from the trace are parts of; without a trace the timed one."""
        events = self.profile.events
        if events is None:
            return self.profile.step_ms
        return (events.kept.until_ns - events.kept.from_ns) / events.kept.steps / 1e6

    @property
    def steps_in_rows(self) -> int:
        """Steps that times and calls of the rows are of: one, but all where no training step was seen (batches of forward)."""
        timing = self.profile.timing
        return 1 if self.profile.profiled_steps else max(1, timing.steps + timing.warmup_steps)

    @cached_property
    def objects(self) -> Replica:
        """Models, optimizers, loaders … of the workload, by kind and name."""
        return self.workload.objects()

    @property
    def step_loader(self) -> tuple[str, Any] | None:
        """Name and DataLoader that the training steps take their batches from, not that of validation; None without one.

        A profile that does not tell leaves no choice where there is one loader only; a trace holds no loader.
        """
        if self.is_of_trace:
            return None
        loaders, name = self.objects.loaders, self.profile.whole_run.step_loader
        if name is None and len(loaders) == 1:
            return next(iter(loaders.items()))
        return (name, loaders[name]) if name in loaders else None

    @property
    def step_loader_time(self) -> LoaderTime | None:
        """What that loader's pipeline takes, where it was measured; a loader without a variable is measured without a name."""
        name = self.step_loader[0] if self.step_loader else None
        times = self.profile.loaders
        named = [each for each in times if each.loader == name]
        nameless = [each for each in times if not each.loader]
        found = named or (nameless if name is not None else [])
        return found[0] if len(found) == 1 else None

    @property
    def on_gpu(self) -> bool:
        """Whether the model's parameters are on a CUDA device; of a trace, whether they may be.

        A trace of the CPU alone, from a machine with a GPU, does not tell what ran where.
        """
        if self.is_of_trace:
            is_complete = self.profile.completeness.is_complete
            return bool(self.profile.devices) or not is_complete or self.machine_has_gpu
        return self.objects.device_type == "cuda"

    @property
    def device(self) -> DeviceActivity | None:
        """What the busiest GPU did; None when nothing of a GPU was recorded, or not all: what is missing would look idle."""
        if not self.profile.completeness.is_complete:
            return None
        return max(self.profile.devices, key=lambda device: device.busy_share, default=None)

    @cached_property
    def tree(self) -> ast.Module:
        """The cell as a syntax tree; empty where it cannot be parsed."""
        try:
            return ast.parse(self.workload.source)
        except SyntaxError:
            return ast.Module([], [])

    def line_where(self, wanted: Callable[[ast.AST], bool], *, in_loop: bool = False) -> int:
        """The first line of the cell with such a node; 0 when there is none (the code is elsewhere, or this is a trace)."""
        if self.is_of_trace:
            return 0
        loops = [node for node in ast.walk(self.tree) if isinstance(node, (ast.For, ast.While))]
        places: list[ast.stmt] = [line for loop in loops for line in loop.body] if in_loop else self.tree.body
        found = (node for place in places for node in ast.walk(place) if wanted(node))
        return min((line for node in found if (line := getattr(node, "lineno", 0))), default=0)

    def mentions(self, *names: str) -> bool:
        """Whether the cell, or a notebook's function that it reads, uses one of these names or attributes."""
        return any(name in self._names_used for name in names)

    @cached_property
    def _names_used(self) -> frozenset[str]:
        from accel.workload.names_used import names_used

        return names_used(self.workload)


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
