"""Training waits for the next batch: the data pipeline is slower than the step, or runs in the same process."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from accel.diagnosis.evidence import LEAST_SHARE
from accel.diagnosis.predicting import GONE, Part, amdahl
from accel.measuring.disturbance import CORES_WORTH_SAYING
from accel.profiling.findings import Finding, Prediction
from accel.units import counted, milliseconds, percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence

# What a batch from another process costs the training process: CPU time of `next(iterator)` with two workers and the batch ready,
# on an AMD EPYC core, torch 2.14: 0.4 ms for 16 kB, 0.6 ms for 0.8 MB, 2.2 ms for 6 MB.
RECEIVE_MS = (0.3, 0.5, 1.0)

# A TensorDataset's loader takes samples one by one and stacks them; indexing the tensors by batch is one operation.
# 64 samples: about 64 × 2 index operations and a stack against one or two.
BY_BATCH = (3.0, 15.0, GONE)

# Ratio: time to make a batch in the training process over time in a worker; 0.35 for tensors in memory, 1.3 is assumed.
AS_QUICK = (0.3, 1.3)
LEAST_WITHOUT = 1.1  # assumed: a smaller gain may be an error of the estimate
# Speed-up of the rest of the step once the batch is no longer made between two steps: 1.1 to 1.22, on three MLPs on a CPU.
IN_CACHES = (1.0, 1.1, 1.3)
LEAST_IN_THE_LOOP = 0.2  # assumed share of the step; logging or an LR scheduler alone may take less


def input_bound(evidence: Evidence) -> Finding | None:
    """The share of each step that is spent waiting for data, or making it in the loop itself."""
    share = evidence.share("data")
    gaps = evidence.gaps_before_forward
    made = 0.0 if evidence.is_of_trace else _share_without_work(evidence, *gaps)
    if made >= LEAST_IN_THE_LOOP and made >= share:
        return _made_in_the_loop(evidence, _share_without_work(evidence, "data", *gaps))
    if evidence.sure_share("data") < LEAST_SHARE:
        return None
    loader = evidence.step_loader[1] if evidence.step_loader else None
    advice = _advice(evidence, loader)
    return Finding(
        kind="input_bound",
        title=f"Waiting for data: {percent(share)} of each step",
        what=advice[0],
        share=share,
        evidence=(f"waiting for data: {milliseconds(evidence.ms('data'))} a step", *_pipeline(evidence, loader)),
        prediction=advice[1],
        suggests=advice[2],
        remedy=advice[3],
        wrong_when="the advice is to use workers, and either an epoch has so few steps that starting them costs more than they "
        "save, or the data set holds something that other processes cannot use, such as an open connection.",
    )  # fmt: skip


def _share_without_work(evidence: Evidence, *phases: str) -> float:
    """Share of the step that these phases take; with a GPU, only while it is idle: else the CPU may be waiting for it."""
    if evidence.objects.device_type == "cpu":
        return evidence.share(*phases)
    idle = evidence.device.idle_phases if evidence.device is not None else ()
    return sum(share for name, share in idle if name in phases)


def _made_elsewhere(evidence: Evidence, share: float, basis: str) -> Prediction:
    """What to expect if batches are made before the loop, or by workers, and no longer between two steps."""
    if not evidence.on_gpu:
        basis += f"; the rest becomes up to {IN_CACHES[-1]:g} times as fast: more of its data stays in the CPU's caches"
    return amdahl(
        basis, Part(share, 1.0, 2.0, GONE), Part(0.0 if evidence.on_gpu else 1.0 - share, *IN_CACHES)
    )


def _made_in_the_loop(evidence: Evidence, share: float) -> Finding:
    """The finding that the model waits for the loop's own code between fetching and forward."""
    ms = share * evidence.profile.step_ms
    by_workers = (
        "move it into the dataset or collate_fn"
        if evidence.step_loader
        else "let workers of a torch.utils.data.DataLoader make the batches, or make them once before the loop"
    )
    return Finding(
        kind="input_bound",
        title=f"Data fetching and other loop code before forward: {percent(share)} of each step",
        what="The model waits while the loop makes its own batches or runs other code before forward.",
        share=share,
        evidence=(f"data fetching and other loop code before forward: {milliseconds(ms)} a step",),
        prediction=_made_elsewhere(
            evidence, share,
            f"data fetching and loop code before forward, {percent(share)} of the step, stay the same, halve or disappear",
        ),
        suggests=(),
        remedy=f"If this code makes the batch, {by_workers}; otherwise run it less often.",
        wrong_when="the code needs results of the previous step.",
    )  # fmt: skip


Advice = tuple[str, "Prediction | None", tuple[str, ...], str]


def _advice(evidence: Evidence, loader: Any) -> Advice:
    """What is wrong, what to expect, what to try, what to edit."""
    share = evidence.share("data")
    waiting = f"waiting, {percent(share)} of the step, stays the same, halves or disappears"
    shorter = amdahl(waiting, Part(share, 1.0, 2.0, GONE))
    if evidence.is_of_trace:
        return _advice_of_trace(evidence)
    is_elsewhere = evidence.profile.whole_run.step_loader == ""  # else unknown, or of a function that is over
    if loader is None and not is_elsewhere:
        return ("The model waits for its next batch.", shorter, (),
                "Let the DataLoader's workers (num_workers) make the batches, or make them once before the loop.")  # fmt: skip
    if loader is None:
        return ("The loop makes its batches itself, and the model waits for them.", _made_elsewhere(evidence, share, waiting), (),
                "Let workers of a torch.utils.data.DataLoader make the batches, or make them once before the loop.")  # fmt: skip
    if type(loader.dataset).__name__ == "TensorDataset" and not loader.num_workers:
        low, factor, high = BY_BATCH
        basis = f"fetching, {percent(share)} of the step, needs one indexing operation per batch instead of one per sample"
        return ("The data lies in memory as tensors, and the loader takes it sample by sample and stacks it again.",
                amdahl(basis, Part(share, low, factor, high)), (),
                "Take whole batches: for i in torch.randperm(len(X)).split(64): x, y = X[i], Y[i]. "
                "Workers would not help: sending a batch costs more than making it.")  # fmt: skip
    if alone := _without_workers(evidence, loader):
        return alone
    if loader.num_workers and not evidence.made_ms:
        return ("accel could not time these workers. They may be too slow, or sending a batch may take longer than making it.",
                shorter, (),
                "Compare with num_workers=0. To let accel time the workers, build the DataLoader inside the cell.")  # fmt: skip
    n = _workers(evidence, loader)
    prediction = _with_workers(evidence, loader.num_workers, n)
    more = (
        ""
        if prediction.ratio >= 1.03
        else f"Make the pipeline itself cheaper: workers gain little here{_next_to(evidence)}."
    )
    few = "1 worker does not" if loader.num_workers == 1 else f"{loader.num_workers} workers do not"
    where = (f"{few} keep up" if loader.num_workers
             else "The training process makes each batch itself, between two steps")  # fmt: skip
    suggests = () if more or n <= loader.num_workers else (f"loader_workers(n={n})",)
    if not suggests:
        more = (
            more
            or "More workers are not expected to help: make the pipeline cheaper, its slowest stage first."
        )
        prediction = shorter
    return (f"{where}.{_slowest(evidence)}", prediction, suggests, more)


def _without_workers(evidence: Evidence, loader: Any) -> Advice | None:
    """Advice where the step waits longer for a batch than a worker would take to make it on a core of its own."""
    made_ms, waits_ms, step_ms = evidence.made_ms, evidence.ms("data"), evidence.profile.step_ms
    # Workers on every core make everything take this many times as long, at the most.
    crowded = max(1.0, (loader.num_workers + 1) / evidence.machine.usable_cores)
    if not loader.num_workers or not 0 < made_ms / crowded < waits_ms:
        return None
    rest_ms = max(step_ms - waits_ms, 0.0)  # a median less a mean may be negative
    quickest, longest = AS_QUICK

    def ratio(slowed: float, quick: float) -> float:
        return step_ms / (rest_ms / (1.0 if evidence.on_gpu else slowed) + quick * made_ms / slowed)

    alone = (
        f"; without workers on every core, the step becomes up to {crowded:g} times as fast"
        if crowded > 1
        else ""
    )
    prediction = Prediction(
        ratio(crowded, 1.0),
        ratio(1.0, longest),
        ratio(crowded, quickest),
        f"a worker makes a step's data in {milliseconds(made_ms)}, but the step waits {milliseconds(waits_ms)} for it; "
        f"making it in the training process may take {quickest:g} to {longest:g} times as long as in the worker{alone}",
    )
    if prediction.ratio < LEAST_WITHOUT:
        return None
    is_ours = "loader_workers" in evidence.live
    return ("Waiting for a batch from a worker takes longer than making one in the training process would.", prediction,
            () if is_ours else ("loader_workers(n=0)",),
            "Undo the plan that added the workers: %accel undo loader_workers." if is_ours else "")  # fmt: skip


def _advice_of_trace(evidence: Evidence) -> Advice:
    """torch names the loader's iterator, and so tells whether there are workers; how many cores there are is not known."""
    share = evidence.sure_share("data")
    fetches = evidence.rows(lambda row: row.op.startswith("enumerate(DataLoader)#"))
    basis = f"waiting, at least {percent(share)} of the step without the profiler's cost, stays the same, halves or disappears"
    prediction = amdahl(basis, Part(share, 1.0, 2.0, GONE))
    if any("MultiProcessing" in row.op for row in fetches):
        return ("Workers make the batches and do not keep up.", prediction, (),
                "Use more workers if cores are free, or make the pipeline cheaper, its slowest stage first.")  # fmt: skip
    if fetches:
        return (
            "The training process makes each batch itself, between two steps.",
            prediction,
            ("loader_workers",),
            "",
        )
    return ("The model waits for its next batch.", prediction, (),
            "Make batches in the workers of a torch.utils.data.DataLoader, or all of them once, before the loop.")  # fmt: skip


def _workers(evidence: Evidence, loader: Any) -> int:
    """As many as keep up with the rest of the step, and as there are cores."""
    data_ms = evidence.ms("data")
    rest_ms = max(evidence.profile.step_ms - data_ms, 1e-3)
    made_ms = max(
        evidence.made_ms, data_ms if not loader.num_workers else (data_ms + rest_ms) * loader.num_workers
    )
    cores = evidence.machine.usable_cores
    return max(
        1, min(math.ceil(1.2 * made_ms / rest_ms), cores if evidence.on_gpu or cores <= 2 else cores - 1)
    )


def _with_workers(evidence: Evidence, had: int, n: int) -> Prediction:
    """What loader workers give if there are `n` in place of `had`: they make batches while the step trains, if cores are free.

    At best a step takes the longer of both times; where training keeps all cores busy, the workers take some of the cores.
    """
    data_ms, step_ms = evidence.ms("data"), evidence.profile.step_ms
    rest_ms, cores = step_ms - data_ms, evidence.machine.usable_cores
    busy = 1 if evidence.on_gpu else min(evidence.machine.torch_threads or cores, cores)
    shared_ms = (data_ms + rest_ms * busy) / cores
    crowded = _crowded(evidence, had, n)
    best = max(rest_ms, data_ms / n) + RECEIVE_MS[0]
    middle = crowded * max(rest_ms, data_ms / n, (best + shared_ms) / 2) + RECEIVE_MS[1]
    worst = crowded**2 * max(rest_ms, data_ms / n, shared_ms) + 0.2 * data_ms + RECEIVE_MS[2]
    basis = (f"{counted(n, 'worker')} make{'' if n > 1 else 's'} the data; now a step waits {milliseconds(data_ms)} for it "
             f"and the rest of the step takes {milliseconds(rest_ms)}, on {cores} cores{_next_to(evidence)}")  # fmt: skip
    return Prediction(step_ms / middle, step_ms / worst, step_ms / best, basis)


def _next_to(evidence: Evidence) -> str:
    others = evidence.others
    return f" while other programs keep {others:.1f} CPUs busy" if others >= CORES_WORTH_SAYING else ""


def _crowded(evidence: Evidence, had: int, n: int) -> float:
    """How many times as long each process takes if `n` workers, in place of `had`, share the cores with other programs."""
    cores, others = evidence.machine.usable_cores, evidence.others
    slower = max(1.0, (1 + n + others) / cores) / max(1.0, (1 + had + others) / cores)
    return 1.0 + (slower - 1.0) * min(1.0, others)


def _slowest(evidence: Evidence) -> str:
    time = evidence.step_loader_time
    slowest = max(time.stages, key=lambda stage: stage.share, default=None) if time else None
    return (
        f" The slowest stage of the data pipeline is {slowest.name}: {percent(slowest.share)} of its time."
        if slowest
        else ""
    )


def _pipeline(evidence: Evidence, loader: Any) -> tuple[str, ...]:
    """The stages where they were timed, and the loader's own settings."""
    stages = evidence.step_loader_time.stages[:3] if evidence.step_loader_time else ()
    said = [f"{stage.name}: {milliseconds(stage.ms_per_sample)} a sample" for stage in stages]
    if loader is not None:
        said.append(f"num_workers={loader.num_workers}, batch_size={loader.batch_size}")
    return tuple(said)
