"""Memory that goes back to the system with every freed tensor, and comes back page by page in the next step."""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING

from accel.diagnosis.predicting import GONE, Part, amdahl
from accel.profiling.findings import Finding
from accel.units import percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence

FEW_FAULTS = 256.0  # a step; one MiB of memory
PROBE_BYTES = 8 << 20
PROBES = 9  # other work may spoil some
# Three pairs of processes with the course CNN on one thread, as it is and with memory kept: 4,800, 5,100 and 8,800 faults
# a step became none, and what that saved was 1.4, 0.9 and 1.1 times the faults' number times their measured cost.
LEAST_SAVED, MOST_SAVED = 0.5, 1.5


def allocator_page_faults(evidence: Evidence) -> Finding | None:
    """Many minor page faults in each step under glibc's default thresholds, on the CPU."""
    faults = evidence.profile.whole_run.page_faults_per_step
    if faults is None or faults < FEW_FAULTS or evidence.on_gpu or "steady_allocator" in evidence.live:
        return None
    allocator, fault_us = evidence.machine.allocator or "", page_fault_us()
    if not os.path.basename(allocator).startswith("libc") or fault_us is None:
        return None
    step_us = evidence.profile.step_ms * 1e3
    share = min(0.9, faults * fault_us / step_us)
    return Finding(
        kind="allocator_page_faults",
        title=f"Page faults: {percent(share)} of each step",
        what=f"Each step takes {faults:,.0f} page faults: glibc gives the memory of large tensors back to the system when "
        "they are freed, and the system clears every page anew.",
        share=share,
        evidence=(f"{faults:,.0f} minor page faults a step (median)", f"one takes {fault_us:.2g} µs here (measured now)"),
        prediction=amdahl(
            f"the faults, {percent(share)} of the step, go; that saves {LEAST_SAVED:g} to {MOST_SAVED:g} times their own time",
            Part(share, 1 / (1 - LEAST_SAVED), GONE, GONE),
            Part(min(share * (MOST_SAVED - 1), max(0.85 - share, 0.0)), 1.0, 1.0, GONE),
        ),
        suggests=("steady_allocator",),
        remedy="",
        wrong_when="the faults come from elsewhere: a data set that is read through mmap, or memory that grows from step "
        "to step. The process then keeps its peak of memory until it ends.",
        details={"page_faults_per_step": faults, "page_fault_us": fault_us},
    )  # fmt: skip


@cache
def page_fault_us() -> float | None:
    """What one fault of a 4 KiB page costs here: filling fresh memory, less filling it again; None where nothing tells.

    >>> page_fault_us()
    0.31
    """
    times = [_fill_twice() for _ in range(PROBES)]
    return min((each for each in times if each is not None), default=None)


def _fill_twice() -> float | None:
    from accel.workload.page_faults import page_faults

    with mmap.mmap(-1, PROBE_BYTES) as memory:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        address = ctypes.addressof(held := ctypes.c_char.from_buffer(memory))
        took, faults = [], []
        for _ in range(2):
            before, begun = page_faults(), perf_counter()
            ctypes.memset(address, 1, PROBE_BYTES)
            took.append(perf_counter() - begun)
            faults.append(page_faults() - before)
        del held
    new = faults[0] - faults[1]
    return (took[0] - took[1]) * 1e6 / new if new > 0 and took[0] > took[1] else None
