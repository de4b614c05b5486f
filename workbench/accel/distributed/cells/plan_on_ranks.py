"""A plan for a cell that trains on ranks: read, and refused where a part of it cannot work there, whatever the cell is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accel.accelerations.started import Started
from accel.errors import AccelError, NotApplicable, Reason

if TYPE_CHECKING:
    from accel.distributed.cells.run_options import RunOptions
    from accel.plans.plan import Plan

# Asked of an entry of the plan; None where it can work.
WhyNot = Callable[[Any, "Plan", "RunOptions"], Reason | None]


def _threads(entry: Any, plan: Plan, options: RunOptions) -> Reason | None:
    return Reason(
        "--threads says how many threads a rank has, and gives it CPUs of its own",
        "Leave this out of the plan.",
    )


def _ranks(entry: Any, plan: Plan, options: RunOptions) -> Reason | None:
    return Reason("The cell is on ranks already, as many as -n says", "Leave it out of the plan.")


def _pruning(entry: Any, plan: Plan, options: RunOptions) -> Reason | None:
    if entry.criterion == "taylor":  # summed as each gradient comes, which is before ranks exchange them
        return Reason(
            'criterion="taylor" weighs each rank\'s own gradients, so that each would take out other filters',
            'Use criterion="l1".',
        )
    if entry.last_call:  # DDP has packed the gradients of the whole model into its buckets by then
        return Reason(
            "Ranks exchange the gradients of a model whose width stays as it is from the first step on",
            "Use stages=1 and warm_up_steps=0.",
        )
    if options.checkpoint:
        return Reason(
            "A checkpoint holds the narrowed weights, and the cell begins again with the whole model",
            "Leave out --checkpoint, or prune beforehand.",
        )
    return None


def _biases(entry: Any, plan: Plan, options: RunOptions) -> Reason | None:
    if options.checkpoint:  # CellVariables comes to parameters by the models that have them
        return Reason(
            "A checkpoint holds what models hold, and the biases that are off belong to none, though their optimizer has them",
            "Leave out --checkpoint or bias_off, or build the layers with bias=False.",
        )
    return None


def _sharding(entry: Any, plan: Plan, options: RunOptions) -> Reason | None:
    if options.communication:
        return Reason(
            "--communication watches the buckets of DDP, and fully_shard sends parameters and gradients in its own way",
            "Leave out --communication, or fully_shard.",
        )
    of_ddp = {
        "--bucket-mb": options.bucket_mb, "--static-graph": options.static_graph, "--compress": options.compress != "none"
    }  # fmt: skip
    if any(getattr(each, "dtype", "") == "fp16" for each in plan.entries):
        return Reason(
            "float16 scales each gradient and divides it again after the backward pass, when fully_shard has taken it away "
            "already",
            'Write autocast(dtype="bf16"), or leave out fully_shard.',
        )
    if options.checkpoint:
        return Reason(
            "A checkpoint is written from one rank's weights, and each rank holds a part of them only",
            "Leave out --checkpoint, or fully_shard.",
        )
    if given := [name for name, value in of_ddp.items() if value]:
        return Reason(
            "It sends parameters and gradients in its own way, and DDP is not there to heed the options of its buckets",
            f"Leave out {', '.join(given)}, or fully_shard.",
        )
    return None


def _started(entry: Started) -> Reason:
    do = (
        "Leave it out here: only a trial can try it."
        if entry.needs_code
        else f"Start the kernel with it (%accel keep {entry.name} --as-kernel NAME), and leave it out here."
    )
    return Reason("Ranks are started as the notebook was, before there is a plan", do)


# Asked of every plan, whatever the cell is; what only a cell can tell, its profile is asked for.
WHY_NOT_ON_RANKS: dict[str, WhyNot] = {
    "fully_shard": _sharding,
    "bias_off": _biases,
    "intraop_threads": _threads,
    "ddp": _ranks,
    "prune": _pruning,
}


def check_on_ranks(plan: Plan, options: RunOptions) -> None:
    """Raises NotApplicable where a part of the plan cannot work on ranks, or not with these options.

    >>> check_on_ranks(Plan.parse("channels_last+autocast"), RunOptions())
    """
    started = {entry.name: _started(entry) for entry in plan.started}
    for name, reason in {**_refused(plan, options), **started}.items():
        raise NotApplicable(f"--plan {name}", [reason])


def refused_with_own_ranks(plan: Plan) -> dict[str, Reason]:
    """For a plan that brings its ranks itself: what of it cannot work there, and why; empty for any other.

    >>> refused_with_own_ranks(Plan.parse('ddp+prune(stages=2)'))
    {'prune': Reason('Ranks exchange the gradients of …', 'Use stages=1 and warm_up_steps=0.')}
    """
    from accel.distributed.cells.run_options import RunOptions

    group = plan.group
    return {} if group is None else _refused(plan.without(group.name), RunOptions(batch=group.batch))


def _refused(plan: Plan, options: RunOptions) -> dict[str, Reason]:
    return {
        entry.name: reason
        for entry in plan.entries
        if (ask := WHY_NOT_ON_RANKS.get(entry.name)) and (reason := ask(entry, plan, options))
    }


def notes_on(plan: Plan) -> list[str]:
    """What to know of the objects that come home after a plan was undone in the ranks."""
    if "prune" not in plan.names:
        return []
    return [
        "prune was undone before the model came home: it is whole again, with what training made of the filters that were left."
    ]


def accumulates(plan: Plan | None) -> bool:
    """Whether something keeps the gradients of several passes for one step, so that they can be exchanged once.

    Not in float16: a pass that overflowed on one rank has to be one that did on all.

    >>> accumulates(Plan.parse("gradient_accumulation(micro_batches=4)"))
    True
    """
    entries = {entry.name: entry for entry in plan.entries} if plan is not None else {}
    return "gradient_accumulation" in entries and getattr(entries.get("autocast"), "dtype", "") != "fp16"


def check_without_profile(plan: Plan) -> None:
    """Refuse what only a profile of the cell can answer: which object belongs to which, and which lines read numbers back."""
    if plan.on:
        name, objects = plan.on[0]
        raise AccelError(
            f'--plan {name}(on="{",".join(objects)}")',
            because="accel has not seen what this cell trains, and so which optimizer belongs to which model",
            do="Run the cell once under %%accel profile, or leave out on=.",
        )
    if "async_metrics" in plan.names:
        raise AccelError(
            "--plan async_metrics",
            because="accel has not seen which lines of this cell read a number back",
            do="Run the cell once under %%accel profile, or leave it out.",
        )
