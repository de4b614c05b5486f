"""Chains of elementwise operations: each reads and writes whole tensors again, where one compiled kernel would do it once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.diagnosis.predicting import Part, amdahl
from accel.diagnosis.products import is_convolution
from accel.profiling.attribution import COMPILED
from accel.profiling.findings import Finding
from accel.profiling.op_families import FREE, POINTWISE
from accel.units import percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence
    from accel.profiling.kineto_columns import Ints
    from accel.profiling.profiled_events import ProfiledEvents

SHORTEST = 3  # operations in a row
LARGE_US = 20.0  # a shorter operation costs its call, not the memory it moves
PHASES = ("forward", "loss", "closure", "backward", "recompute")
# Compiled, on one core of an EPYC, whole step: chains of products and sums, 5.5 operations on average and 0.44 and 0.41 of the
# step, 1.63 [1.56, 1.69] and 2.05 [1.91, 2.15], which is more than the chains alone; with tanh and sigmoid, 0.38 and 0.69 of
# the step, 1.14 [1.11, 1.19] and 1.44 [1.33, 1.58]: the chains themselves 1.5 and 1.8 times as fast.
WITH_FUNCTIONS = 1.7
FUNCTIONS = ("tanh", "sigmoid", "exp", "log", "erf", "gelu", "silu", "mish", "softplus", "pow", "sin", "cos")
# What it does to the rest. With convolutions: the course CNN ran at 0.62 [0.62, 0.63] of its speed on one thread and 0.71
# [0.64, 0.87] on two, DenseNet121 at 1.08 [0.87, 1.18]. Without, what stands between chains is fused with them.
REST_WITH_CONVOLUTIONS, REST_ON_CPU, REST_ON_GPU = (0.6, 0.9, 1.2), (0.9, 1.0, 1.5), (0.95, 1.0, 1.2)


@dataclass(frozen=True)
class Chains:
    """Per step: the time in chains, the operations in them, how many chains there are; and what they are made of."""

    ms: float
    operations: float
    count: float
    names: frozenset[str] = frozenset()

    @property
    def length(self) -> float:
        """Operations of an average chain."""
        return self.operations / self.count if self.count else 0.0


def memory_bound_elementwise(evidence: Evidence) -> Finding | None:
    """Three and more large elementwise operations in a row, in forward, loss or backward, in a model that is not compiled."""
    chains = read_chains(evidence.profile.events)
    if chains is None or not chains.count or "compile_model" in evidence.live:
        return None
    if evidence.rows(lambda row: row.op == COMPILED):
        return None
    share = min(0.95, chains.ms / evidence.traced_step_ms)
    length, rest = chains.length, _rest(evidence)
    expected = min(WITH_FUNCTIONS, length) if _has_functions(chains) else 1 + 0.5 * (length - 1)
    return Finding(
        kind="memory_bound_elementwise",
        title=f"Elementwise operations in a row: {percent(share)} of each step",
        what=f"{chains.operations:.0f} operations a step stand in {chains.count:.0f} chains. Each of them reads and writes its "
        "whole tensors; compiled into one kernel, a chain does so once.",
        share=share,
        evidence=(f"chains of {length:.2g} operations on average, {chains.ms:.3g} ms a step", *_bandwidth(evidence)),
        prediction=amdahl(
            f"chains, {percent(share)} of the step, become 1 to {length:.2g} times as fast; the rest, compiled too, was seen to "
            f"run at {rest[0]:g} to {rest[2]:g} times its speed",
            Part(share, 1.0, expected, length), Part(1 - share, *rest),
        ),
        suggests=("compile_model",),
        remedy="",
        wrong_when="convolutions dominate the rest and training runs on a CPU: TorchInductor's code for small CNNs is slower "
        "than the library's (0.6 to 0.75 of the speed was measured). Compiling takes seconds to minutes first, and again for "
        "each new shape.",
        details={"chain_length": length, "chains": chains.count},
    )  # fmt: skip


def read_chains(events: ProfiledEvents | None) -> Chains | None:
    """Find the chains among the outermost operations, thread by thread in order of time; None without a trace.

    What computes nothing and moves nothing (a view) does not break a chain; another phase does.
    """
    import numpy as np

    if events is None:
        return None
    plain = [_plain(name) for name in events.columns.names]
    rows, lasts_ns = _outermost(events)
    name, phases = events.columns.name, events.found.phases
    rows = rows[~np.array([each in FREE for each in plain], dtype=np.bool_)[name[rows]]]
    if not len(rows):
        return Chains(0.0, 0.0, 0.0)
    of_phase = np.array([each in PHASES for each in phases.names], dtype=np.bool_)
    phase = phases.number[rows]
    is_link = np.array([each in POINTWISE for each in plain], dtype=np.bool_)[name[rows]] & of_phase[phase]
    first = np.flatnonzero(np.append(True, (is_link[1:] != is_link[:-1]) | (phase[1:] != phase[:-1])))
    count, ns = np.diff(first, append=len(rows)), np.add.reduceat(lasts_ns[rows], first)
    is_chain = is_link[first] & (count >= SHORTEST) & (ns >= LARGE_US * 1e3 * count)
    linked = np.unique(name[rows[np.repeat(is_chain, count)]]).tolist()
    steps = events.kept.steps
    return Chains(
        ms=float(ns[is_chain].sum()) / 1e6 / steps,
        operations=float(count[is_chain].sum()) / steps,
        count=float(is_chain.sum()) / steps,
        names=frozenset(plain[each] for each in linked),
    )


def _outermost(events: ProfiledEvents) -> tuple[Ints, Ints]:
    """Rows of the operations that no other operation called, and how long each event of the trace lasts, in ns.

    On a GPU an operation lasts as long as the kernels that it, or one that it called, launched.
    """
    import numpy as np

    columns = events.columns
    is_op = np.array([name.startswith("aten::") for name in columns.names], dtype=np.bool_)[columns.name]
    inner = is_op & (events.parent >= 0) & is_op[events.parent]
    lasts = events.duration_ns
    if (columns.device >= 0).any():
        root = np.arange(len(columns))
        while (below := inner[root]).any():
            root[below] = events.parent[root[below]]
        launched = (columns.device >= 0) & (columns.launcher >= 0)
        kernels = np.bincount(
            root[columns.launcher[launched]], weights=events.duration_ns[launched], minlength=len(columns)
        )
        lasts = kernels.astype(np.int64)
    wanted = is_op & ~inner & events.begins_inside
    return columns.order[wanted[columns.order]], lasts


def _rest(evidence: Evidence) -> tuple[float, float, float]:
    if evidence.on_gpu:
        return REST_ON_GPU
    return REST_WITH_CONVOLUTIONS if evidence.rows(is_convolution) else REST_ON_CPU


def _has_functions(chains: Chains) -> bool:
    """Whether computing weighs in: an exponential costs more than the memory it reads."""
    return any(name.startswith(FUNCTIONS) for name in chains.names)


def _bandwidth(evidence: Evidence) -> tuple[str, ...]:
    """Bytes a second of the elementwise operations, where shapes were recorded; beside the memory's peak, where known."""
    costs = [
        cost for cost in evidence.profile.costs if _plain(cost.op) in POINTWISE and cost.bytes and cost.ms > 0
    ]
    if not costs:
        return ()
    rate = sum(cost.bytes or 0.0 for cost in costs) / sum(cost.ms for cost in costs) * 1e3
    device = evidence.profile.peaks.of(costs[0].device) if evidence.profile.peaks is not None else None
    of_peak = f", {percent(rate / device.bytes_per_s)} of the memory's peak" if device is not None else ""
    return (f"elementwise operations moved {rate / 1e9:.3g} GB/s{of_peak}",)


def _plain(op: str) -> str:
    return op.removeprefix("aten::").removesuffix("_")
