"""A trial's relaunch of a few steps: as `%accel try` does it, with too few steps for a verdict."""

from __future__ import annotations

import threading
import time

from accel.plans.plan import Plan
from accel.workbench import Workbench
from accel.workbench.trial_start import load_for, packed
from accel.workers.relaunch import Relaunch
from accel.workers.samples import Effort, Samples
from accel.workers.variant_worker import Variant

FEW_STEPS = Effort(warm_up=2, least_rounds=2, most_rounds=2, seconds=5.0)


def try_quickly(workbench: Workbench, plan: str) -> dict[str, Samples]:
    """What the workers of baseline and plan reported; raises what went wrong with either."""
    workload = workbench.workload
    assert workload is not None
    workbench.checked(plan, workload)
    parcel, changed_by_packing = packed(workbench, workload)
    assert not changed_by_packing
    variants = [
        Variant(Plan(), "as the notebook"),
        Variant(Plan.parse(plan), "as the notebook"),
    ]
    load = load_for(parcel, workload)
    with Relaunch(workbench.pool, parcel, variants, load=load, timeout_s=150.0) as relaunch:
        samples = relaunch.measure(FEW_STEPS, stop=threading.Event(), deadline=time.monotonic() + 150.0)
    parcel.close()
    for each in samples.values():
        if each.error is not None:
            raise each.error
    return samples
