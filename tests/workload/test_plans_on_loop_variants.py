"""Every acceleration on training loops as people write them: it says why not, or it takes effect and can be undone."""

from __future__ import annotations

import ast
import dataclasses
import re
import textwrap

import pytest
import torch
from capturing import capture, notebook
from test_loop_variants import VARIANTS, Variant

from accel.accelerations import CATALOGUE
from accel.accelerations.started import Started
from accel.errors import AccelError
from accel.machine import read_machine
from accel.plans import Plan
from accel.plans.live_plan import LivePlan
from accel.workload.replica import merged
from accel.workload.training_code import as_changed

# The same as the default where that takes long, or does nothing on two cores.
INSTEAD = {
    "compile_model": 'compile_model(backend="aot_eager")',
    "compile_optimizer": 'compile_optimizer(backend="aot_eager")',
    "intraop_threads": "intraop_threads(n=2)",
    "loader_workers": "loader_workers(n=1)",
}
# What a process is started with leaves the cell alone: tests/accelerations/test_started.py
PLANS = [Plan.parse(INSTEAD.get(kind.name, kind.name)) for kind in CATALOGUE if not issubclass(kind, Started)]


def run(variant, namespace):
    exec(compile(as_changed(ast.parse(textwrap.dedent(variant.cell))), "<cell>", "exec"), namespace)


def weights(namespace):
    modules = [value for value in namespace.values() if isinstance(value, torch.nn.Module)]
    return [parameter.detach().clone() for module in modules for parameter in module.parameters()]


def started(variant: Variant):
    """A notebook in which the cell was profiled once."""
    torch._dynamo.reset()
    torch.manual_seed(1)
    workload, _ = capture(variant.cell, notebook(variant.setup))
    torch.manual_seed(2)
    return workload


# What only a run can tell: the proof then says that there was no effect, and what was seen instead.
NO_EFFECT = {
    ("model.forward called directly", "prune"): "nothing was taken out yet",
    ("torch.func gradients of a functional call", "compile_model"): "functions fell back to eager",
    ("exception in forward, caught by the cell", "compile_model"): "function fell back to eager",
}
# The cell has the size of its batch written into it: `torch.ones(4, 1)`.
WRITTEN_FOR_ITS_BATCH = ("GAN: two models, two optimizers", "batch_size")


def square():
    """Each plan on each loop; a third of the pairs, with every plan and every loop among them, in `make test`."""
    for row, plan in enumerate(PLANS):
        for column, variant in enumerate(VARIANTS):
            marks = [pytest.mark.whole] if (row + column) % 3 else []
            yield pytest.param(variant, plan, id=f"{variant.name}-{plan}", marks=marks)


@pytest.mark.parametrize(("variant", "plan"), square())
def test_an_acceleration_says_why_not_or_works_and_is_undone(variant: Variant, plan: Plan) -> None:
    machine = dataclasses.replace(read_machine(), isa=("avx512_bf16",), usable_cores=8, physical_cores=8)
    workload = started(variant)
    name = plan.names[0]
    reasons = plan.why_not(workload, machine)
    for reason in reasons.get(name, ()):
        assert re.fullmatch(r"[A-Z].+\.", reason.do), reason
    if reasons:
        return
    live = LivePlan(workload)
    if plan.group is not None:  # trials of it: tests/workers/test_trial_of_ranks.py
        with pytest.raises(AccelError, match="Put %%accel ddp -n 2 over the cell"):
            live.keep(plan)
        return
    live.keep(plan)
    try:
        if (variant.name, name) == WRITTEN_FOR_ITS_BATCH:
            with pytest.raises(ValueError, match="Target size"):
                run(variant, workload.namespace)
            return
        run(variant, workload.namespace)
        ((_, proof),) = plan.proofs(merged(live.presented()))
    finally:
        live.undo()
    told = NO_EFFECT.get((variant.name, name), "")
    assert proof.took_effect is not bool(told), proof.evidence
    assert told in proof.evidence
    run(variant, workload.namespace)
    if plan.effect == "exact":
        twin = started(variant)
        run(variant, twin.namespace)
        run(variant, twin.namespace)
        assert all(map(torch.equal, weights(workload.namespace), weights(twin.namespace)))
