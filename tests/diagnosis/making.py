"""Evidence for rules: from a real cell that runs here, or made by hand where a GPU or another machine is needed."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import nn

from accel.diagnosis import Evidence
from accel.machine import Machine, read_machine
from accel.profiling.op_table import OpRow
from accel.profiling.profile import Profile
from accel.profiling.step_timing import PhaseShare, StepTiming
from accel.workbench import Workbench
from accel.workload.workload import Role, Workload

TRAIN = """
for _ in range(50):
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
MOST_PROFILES, MOST_S = 40, 90.0
MUCH_THE_SAME = 1.2
FIRST = -20
MANY_SMALL_LAYERS = """
model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(20)], nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters())
"""


def notebook(setup: str = "") -> dict[str, Any]:
    """A namespace as earlier cells left it: torch, nn, a small MLP, Adam, a criterion, one batch."""
    namespace: dict[str, Any] = {"__name__": "__main__", "torch": torch, "nn": nn}
    torch.manual_seed(0)
    exec(
        "model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))\n"
        "optimizer = torch.optim.Adam(model.parameters())\n"
        "criterion = nn.CrossEntropyLoss()\n"
        "x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))\n" + textwrap.dedent(setup),
        namespace,
    )
    return namespace


def real(cell: str = TRAIN, setup: str = "", *, timed: bool = True) -> Evidence:
    """Run a cell and profile it until two profiles took about as long, or for MOST_S; the shortest one is the evidence.

    What other work on this machine disturbed is not evidence, in a notebook or in a test. Where what a rule reads is not a
    matter of time (`timed=False`), one profile is. No worker is started.
    """
    if not timed:
        return _profiled(cell, setup)
    found: list[Evidence] = []
    started = time.monotonic()
    for _ in range(MOST_PROFILES):
        if found and time.monotonic() - started > MOST_S:
            break
        with before_others():
            profiled = _profiled(cell, setup)
        if not profiled.is_disturbed:
            found.append(profiled)
        found.sort(key=_took_ms)
        if len(found) > 1 and _took_ms(found[1]) <= MUCH_THE_SAME * _took_ms(found[0]):
            break
    assert found, f"other work disturbed all {MOST_PROFILES} profiles"
    return found[0]


@contextmanager
def before_others() -> Iterator[None]:
    """Let the threads of this process run before those of others, where this user may; elsewhere nothing changes."""
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        _set_priority(FIRST)
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        _set_priority(usual)


def _set_priority(priority: int) -> None:
    """Of all threads that there are: one that starts later has that of the thread that starts it."""
    for thread in map(int, os.listdir("/proc/self/task")):
        with suppress(ProcessLookupError):  # it has just ended
            os.setpriority(os.PRIO_PROCESS, thread, priority)


def _profiled(cell: str, setup: str) -> Evidence:
    workbench = Workbench(notebook(setup), spare_workers=0)
    try:
        profile = workbench.profile(textwrap.dedent(cell))
        assert workbench.workload is not None
        return Evidence(profile, workbench.workload, workbench.machine)
    finally:
        workbench.close()


def _took_ms(evidence: Evidence) -> float:
    """What rules read times of: the operations of the profiled steps, and the phases of the others."""
    profile = evidence.profile
    return sum(row.self_ms for row in profile.rows) + sum(phase.ms for phase in profile.phases)


def by_hand(
    phases: dict[str, float],
    rows: tuple[OpRow, ...] = (),
    *,
    step_ms: float = 10.0,
    source: str = TRAIN,
    namespace: dict[str, Any] | None = None,
    roles: tuple[Role, ...] = (),
    machine: Machine | None = None,
    samples_per_step: int | None = 8,
    **more: Any,
) -> Evidence:
    """A profile with these shares by phase and these rows; `more` are other fields of Profile (devices, loaders …)."""
    shares = tuple(PhaseShare(name, share, share * step_ms) for name, share in phases.items())
    profile = Profile(
        timing=StepTiming((step_ms,) * 9, shares, 2, 5, 0, "step", False, False, 20 * step_ms),
        rows=rows, profiled_steps=5, accumulation=1, notes=(), machine_line="", versions=(), **more,
    )  # fmt: skip
    namespace = notebook() if namespace is None else namespace
    reads = tuple(name for name in namespace if name in source)
    workload = Workload(
        cell=source, source=source, filename="<cell>", namespace=namespace, reads=reads, writes=(), roles=roles,
        boundary="optimizer", accumulation=1, steps=9, step_ms=step_ms, samples_per_step=samples_per_step,
    )  # fmt: skip
    return Evidence(profile, workload, machine or read_machine())


def row(
    op: str, phase: str, share: float, *, calls: float = 1.0, module: str = "", step_ms: float = 10.0
) -> OpRow:
    """One row of the table of operations."""
    return OpRow(op, phase, module, share * step_ms, share, calls)
