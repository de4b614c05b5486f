"""What a reader must know before believing a profile, in plain words."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from accel.measuring.disturbance import Disturbance
from accel.processes.starting_mask import narrowing_variables, starting_mask
from accel.units import counted

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.profiling.op_table import OpTable
    from accel.profiling.profiled_window import ProfiledWindow
    from accel.profiling.step_timing import StepTiming
    from accel.workload.run_conditions import RunConditions

WIDE_SPREAD = 0.25
_ROUTINE = ("Left out of the ", "Times of operations are ")


def is_routine(note: str) -> bool:
    """Whether a note says what holds for every sound profile: how many steps its figures are of."""
    return note.startswith(_ROUTINE)


def notes_for(
    timing: StepTiming,
    table: OpTable,
    window: ProfiledWindow,
    machine: Machine,
    *,
    conditions: RunConditions | None = None,
    on_gpu: bool = False,
    ended_early: str = "",
) -> tuple[str, ...]:
    """All caveats that hold, the gravest first."""
    notes = [
        f"{ended_early}: this is a partial profile, of what ran until then." if ended_early else "",
        _sentence(window.reason),
        _sentence(window.user_lines.reason),
        _about_steps(timing),
        _about_operations(table),
        _about_lines(table, window),
        _about_noise(timing, conditions, machine, on_gpu=on_gpu),
        _about_binding(),
        _about_gpu(window, machine),
    ]
    return tuple(note for note in notes if note)


def _sentence(reason: str) -> str:
    return reason[:1].upper() + reason[1:].rstrip(".") + "." if reason else ""


def _about_steps(timing: StepTiming) -> str:
    if not timing.steps:
        return "No training step was seen (no optimizer, no backward, no model called): shares are of the whole cell."
    seen = "" if timing.unit == "step" else "No training step was seen, only forward: times are per batch. "
    if timing.is_under_profiler:
        every = "steps" if timing.unit == "step" else "batches"
        cost = f"All {every} that could be timed ran under torch.profiler, so their time includes its cost"
        return f"{seen}{cost}; run more of them for a clean time."
    if timing.includes_warmup:
        return f"{seen}The only {timing.unit} is also the first one, which is often slower than later ones."
    left_out = [
        (timing.warmup_steps, "warm-up " + timing.unit),
        (timing.profiled_steps, timing.unit + " under torch.profiler"),
    ]
    excluded = " and ".join(counted(count, what) for count, what in left_out if count)
    slow = timing.outlier_steps and counted(timing.outlier_steps, "unusually slow " + timing.unit)
    return seen + " ".join(
        [f"Left out of the times: {excluded}."] * bool(excluded)
        + [f"Left out of the shares: {slow}."] * bool(slow)
    )


def _about_operations(table: OpTable) -> str:
    if not table.rows:
        return ""
    if not table.has_steps:
        return "Times of operations are for the whole run of the cell."
    dropped = (
        f" after {table.dropped_steps} for warm-up" if table.dropped_steps else ", none dropped as warm-up"
    )
    steps = counted(table.steps, "step")
    return f"Times of operations are averages over {steps} under torch.profiler{dropped}; trust their shares."


def _about_lines(table: OpTable, window: ProfiledWindow) -> str:
    if not table.rows or not window.user_lines.lines:
        return ""
    return "Following your lines (--stacks) takes time of its own: the share of Python code is too high here."


def _about_noise(
    timing: StepTiming, conditions: RunConditions | None, machine: Machine, *, on_gpu: bool
) -> str:
    taken, load = conditions.others if conditions is not None else None, machine.load_average
    if conditions is not None and taken is not None:
        cpus = min(taken.cpus, max(1, machine.usable_cores))
        wanted = (1 if on_gpu else conditions.threads) + conditions.loader_workers
        busy = Disturbance(
            taken.cores_of(cpus) / cpus, cpus, wanted, stopped=taken.stopped, quota_cores=taken.quota_cores
        )
        if busy:
            return str(busy)
    elif load is not None and load > 1.5 * machine.usable_cores:
        return f"The machine is busy (load {load:.1f} on {machine.usable_cores} cores): times are uncertain."
    low, high = timing.spread_ms
    if timing.steps > 3 and high - low > WIDE_SPREAD * timing.step_ms:
        why = (
            "other programs ran during some of them"
            if taken is not None
            else "the machine is busy with other work"
        )
        return f"Step times vary widely: the steps differ in work, or {why}."
    return ""


def _about_binding() -> str:
    """Variables by which OpenMP has bound this thread, and whoever it starts, to one of several CPUs."""
    variables = ", ".join(f"{name}={value}" for name, value in narrowing_variables())
    if (
        not variables
        or not hasattr(os, "sched_getaffinity")
        or len(own := sorted(os.sched_getaffinity(0))) > 1
    ):
        return ""
    return (
        f"{variables} keeps the main thread on CPU {own[0]} of the {len(starting_mask())} that there are, and loader workers "
        "inherit that: with accel.loader_affinity() round the loop, they have all."
    )


def _about_gpu(window: ProfiledWindow, machine: Machine) -> str:
    """When the profiler cannot reach the GPU it records the CPU alone, and says so only in its log."""
    failed = [line for line in window.profiler_said if "CUPTI" in line or "failed" in line]
    return f"The profiler could not read the GPU: {failed[0]}." if machine.gpus and failed else ""
