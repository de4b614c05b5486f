"""Loader workers that share one CPU with training, because OpenMP narrowed the mask that they inherit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.diagnosis.predicting import Part, amdahl
from accel.processes.starting_mask import binding_variables
from accel.profiling.findings import Finding
from accel.units import percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence


# With two workers that compute, an epoch that mostly waits was 1.9 to 2.0 times as fast with both of this machine's CPUs (two
# AMD EPYC cores, torch 2.14) when no other program used them, and 1.0 to 1.1 times when other programs did. One worker
# that computes also slowed training itself: with both CPUs, a step of which 39 % was waiting became 1.5 times as fast.
SHARED = (1.0, 1.15, 2.0)


def narrowed_workers(evidence: Evidence) -> Finding | None:
    """Compare the main thread's mask in the cell with the one that the process began with."""
    conditions, loader = evidence.profile.whole_run.conditions, evidence.step_loader
    if conditions is None or conditions.cpus != 1 or conditions.starting_cpus < 2 or loader is None:
        return None
    name, workers = loader[0], loader[1].num_workers
    if not workers or evidence.mentions("loader_affinity", "sched_setaffinity"):
        return None
    waiting = evidence.share("data")
    most = min(workers + 1, conditions.starting_cpus)
    why = ", ".join(f"{variable}={value}" for variable, value in binding_variables())
    those = "the worker" if workers == 1 else f"all {workers} workers"
    where = f"Put the loop over {name} in `with accel.loader_affinity():`"
    if loader[1].persistent_workers:  # those that run already keep their mask
        where += f", from its first epoch on: make {name} anew and start its workers inside"
    return Finding(
        kind="narrowed_workers",
        title=f"Loader workers share one CPU of {conditions.starting_cpus} with training",
        what=f"OpenMP bound the main thread to one CPU, and {those} of {name} inherited this limit, so that this one CPU "
        "runs both training and the data loading.",
        share=waiting,
        evidence=(
            f"the main thread may use 1 CPU; the process began with {conditions.starting_cpus}",
            f"{name}: num_workers={workers}", f"waiting for data: {percent(waiting)}", *([why] if why else []),
        ),
        prediction=amdahl(
            f"waiting for data, {percent(waiting)} of the step, becomes 1 to {most} times as fast"
            f"{'' if evidence.on_gpu else f', the rest of the step up to {SHARED[-1]:g} times'}: workers that compute no longer "
            "share a CPU with training, workers that wait for a disk gain nothing",
            Part(waiting, 1.0, 0.9 * most, most), Part(0.0 if evidence.on_gpu else 1.0 - waiting, *SHARED),
        ),
        suggests=(),
        remedy=f"{where} (after `import accel`), or unset the variable that binds threads.",
        wrong_when="the workers set a mask of their own in a worker_init_fn or in the data set.",
        details={"cpus": 1.0, "starting_cpus": float(conditions.starting_cpus), "workers": float(workers)},
    )  # fmt: skip
