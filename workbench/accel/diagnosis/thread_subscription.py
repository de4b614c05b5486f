"""More threads than cores, which wait for each other, or so few that cores stay idle."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from accel.diagnosis.predicting import Part, amdahl
from accel.profiling.findings import Finding
from accel.units import counted, percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence
    from accel.profiling.findings import Prediction

LONG_MS = 0.1  # an operation that long is split over threads with profit; below some 10 µs it gets slower
LEAST = 0.1  # of a step: if long operations take less of it, more threads give no measurable gain
FEW = 0.5  # of the free cores: with more threads than this part of them, few are idle
SLOWER = 0.9  # threads that wait for each other; where other work has some of the cores, they wait for that as well


class _Fault(NamedTuple):
    title: str
    what: str
    share: float
    evidence: tuple[str, ...]
    prediction: Prediction
    plan: str
    wrong_when: str


def thread_subscription(evidence: Evidence) -> Finding | None:
    """Compare torch's threads, and the loaders' processes, with the cores that this process may use."""
    conditions = evidence.profile.whole_run.conditions
    if conditions is None:
        return None
    fault = (
        _too_many(evidence, conditions.threads)
        or _too_many_processes(evidence, conditions.threads)
        or _too_few(evidence, conditions.threads)
    )
    if fault is None:
        return None
    said = f"OMP_NUM_THREADS={conditions.omp_num_threads}" if conditions.omp_num_threads else ""
    return Finding(
        kind="thread_subscription", title=fault.title, what=fault.what, share=fault.share,
        evidence=tuple(filter(None, (*fault.evidence, said))), prediction=fault.prediction,
        suggests=(fault.plan,), remedy="", wrong_when=fault.wrong_when,
        line=evidence.line_where(lambda node: getattr(node, "attr", "") == "set_num_threads"),
        details={"threads": float(conditions.threads), "usable_cores": float(evidence.machine.usable_cores)},
    )  # fmt: skip


def _too_many(evidence: Evidence, threads: int) -> _Fault | None:
    cores = _cores(evidence)
    if threads <= evidence.machine.usable_cores or evidence.on_gpu:
        return None
    share = _computing(evidence)
    return _Fault(
        title=f"More threads than cores: {threads} on {evidence.machine.usable_cores}",
        what=f"Each operation is split over {threads} threads, which take turns on "
        f"{evidence.machine.usable_cores} cores, and is as slow as the last of them.",
        share=share,
        evidence=_facts(evidence, threads),
        prediction=amdahl(
            f"computing, {percent(share)} of the step, becomes 1 to {threads / cores:.2g} times as fast: "
            "threads that wait for a core cost between nothing and all they add",
            Part(share, 1.0, 1.1, max(1.1, threads / cores)),
        ),
        plan=f"intraop_threads(n={cores})",
        wrong_when="the cores that this process may use are counted wrong: a container without a visible quota, or an "
        "affinity mask that an import narrowed.",
    )  # fmt: skip


def _too_many_processes(evidence: Evidence, threads: int) -> _Fault | None:
    usable = evidence.machine.usable_cores
    workers = {name: loader.num_workers for name, loader in evidence.objects.loaders.items()}
    name, count = max(workers.items(), key=lambda each: each[1], default=("", 0))
    if count <= usable or "loader_workers" in evidence.live:
        return None
    waiting, fewer = evidence.share("data"), max(1, usable - 1)
    return _Fault(
        title=f"More loader processes than cores: {count} next to {threads} threads on {usable}",
        what=f"The {count} worker processes of {name} take the cores from training and from each other.",
        share=1 - waiting if not evidence.on_gpu else waiting,
        evidence=(*_facts(evidence, threads), f"{name}: num_workers={count}", f"waiting for data: {percent(waiting)}"),
        prediction=amdahl(
            f"all but waiting for data, {percent(1 - waiting)} of the step, becomes 1 to 1.5 times as fast when it "
            "need not share its cores; waiting for data can become longer by as much",
            Part(1 - waiting, 1.0, 1.1, 1.5), Part(waiting, 0.67, 1.0, 1.0),
        ),
        plan=f"loader_workers(n={fewer})",
        wrong_when="the workers mostly wait, for a disk or a network, and use no core while they wait.",
    )  # fmt: skip


def _too_few(evidence: Evidence, threads: int) -> _Fault | None:
    cores = _cores(evidence)
    free = round(cores - evidence.others - _busy_workers(evidence))
    if evidence.on_gpu or threads > free * FEW or "intraop_threads" in evidence.live:
        return None
    long = evidence.rows(lambda row: row.calls > 0 and row.self_ms / row.calls >= LONG_MS)
    share = sum(row.share for row in long if row.op.startswith(("aten::", "mkldnn", "Compiled")))
    if share < LEAST:
        return None
    least, most = SLOWER * free / cores, free / threads
    return _Fault(
        title=f"Idle cores: {counted(threads, 'thread')} on {free}",
        what=f"{percent(share)} of the step is in operations of {LONG_MS:g} ms and more, which more threads could share.",
        share=share * (1 - threads / free),
        evidence=(*_facts(evidence, threads), f"operations of {LONG_MS:g} ms and more: {percent(share)}"),
        prediction=amdahl(
            f"operations of {LONG_MS:g} ms and more, {percent(share)} of the step, become {least:.2g} to {most:.2g} times as "
            f"fast on {free} threads",
            Part(share, least, 1 + 0.6 * (most - 1), most),
        ),
        plan=f"intraop_threads(n={free})",
        wrong_when="the cores are meant for others: more processes of this training, loader workers, other users.",
    )  # fmt: skip


def _cores(evidence: Evidence) -> int:
    """Physical cores that may be used: two hardware threads of one core share its arithmetic units."""
    machine = evidence.machine
    return max(1, min(machine.usable_cores, machine.physical_cores or machine.usable_cores))


def _busy_workers(evidence: Evidence) -> float:
    """How many loader workers compute at once, on average; all of them where making a batch was not timed."""
    conditions = evidence.profile.whole_run.conditions
    workers = float(conditions.loader_workers) if conditions is not None else 0.0
    return min(workers, evidence.made_ms / evidence.profile.step_ms) if evidence.made_ms else workers


def _computing(evidence: Evidence) -> float:
    return evidence.share_of_ops(lambda row: row.op.startswith(("aten::", "mkldnn", "Compiled")))


def _facts(evidence: Evidence, threads: int) -> tuple[str, ...]:
    machine = evidence.machine
    cores = f"usable cores: {machine.usable_cores}, physical: {machine.physical_cores or 'unknown'}"
    return f"torch.get_num_threads() was {threads} in the cell", cores
