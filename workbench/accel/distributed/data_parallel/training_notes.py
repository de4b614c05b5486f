"""What a user should know of a data-parallel run that went well: where it is not what one process would have done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel.distributed.cells.run_options import RunOptions
    from accel.distributed.data_parallel.bucket_exchange import BucketExchange
    from accel.distributed.data_parallel.gradient_exchange import GradientExchange
    from accel.distributed.data_parallel.shared_loops import SharedLoops


def notes_of_unwrapped(namespace: Mapping[str, Any], writes: Iterable[str]) -> list[str]:
    """Of variables that come home as the model inside (`shipping.make_pickler`).

    >>> notes_of_unwrapped({"net": DistributedDataParallel(model)}, ["net"])
    """
    from torch.nn.parallel import DistributedDataParallel

    names = [name for name in writes if isinstance(namespace.get(name), DistributedDataParallel)]
    if not names:
        return []
    return [
        f"{', '.join(names)}: brought back as the model inside DistributedDataParallel, which only ranks have."
    ]


def notes_of(
    exchange: GradientExchange, namespace: Mapping[str, Any], options: RunOptions, *, is_compared: bool
) -> list[str]:
    """One sentence for each. `is_compared`: the first step was compared with one process's.

    >>> notes_of(exchange, namespace, RunOptions(batch="global"), is_compared=False)
    """
    from torch.nn.modules.batchnorm import _BatchNorm

    notes = []
    if exchange.after_pass:
        names = ", ".join(sorted(exchange.after_pass))
        notes.append(
            f"{names}: some parameters took no part in a step; from then on gradients were exchanged after the backward pass, "
            "not during it."
        )
    kinds = {type(module) for each in exchange.models for module in each.model.modules()}
    is_apart = options.batch == "global" and not options.sync_batchnorm and not is_compared
    if is_apart and any(issubclass(k, _BatchNorm) and k.__name__ != "SyncBatchNorm" for k in kinds):
        notes.append(
            "BatchNorm normalised each rank's part of a batch by itself, so results differ a little from one process's; "
            "--sync-batchnorm normalises the whole batch. The running statistics are rank 0's."
        )
    if options.batch == "per-rank":
        notes += _notes_of_schedules(namespace)
    return notes


def _notes_of_schedules(namespace: Mapping[str, Any]) -> list[str]:
    """Of those that were made for the steps of one process, and were left half way."""
    import torch.distributed as dist
    from torch.optim.lr_scheduler import LRScheduler

    notes = []
    for name, value in namespace.items():
        if not isinstance(value, LRScheduler) or name.startswith("_"):
            continue
        lengths = (getattr(value, each, None) for each in ("total_steps", "T_max", "total_iters"))
        length = next((each for each in lengths if isinstance(each, int)), 0)
        if 1 < value.last_epoch < length <= value.last_epoch * dist.get_world_size():
            notes.append(
                f"{name} was made for {length} steps but took only {value.last_epoch}, so the learning rate did not reach "
                f"its final value: each rank takes whole batches, so an epoch has fewer steps than in one process. Make "
                f"{name} in the cell, where len(loader) is the number of steps of a rank, or use --batch global."
            )
    return notes


def notes_of_loops(loops: SharedLoops) -> list[str]:
    """Where every rank trained on all of a loader.

    >>> notes_of_loops(loops)
    """
    if not loops.trained_whole:
        return []
    return [
        f"All models were in eval mode when a loop over {', '.join(sorted(loops.trained_whole))} began, and steps were taken in "
        "it: every rank took the same ones, on all of its batches. Call model.train() before it, or name the loaders that "
        "train with --loaders, and it is shared out."
    ]


def notes_of_own_distribution(loops: SharedLoops) -> list[str]:
    """Of a cell that distributes its training itself.

    >>> notes_of_own_distribution(loops)
    """
    sentence = "The cell distributes its training itself, as a script for torchrun: accel shared out and averaged nothing."
    if not loops.unsplit:
        return [sentence]
    names = ", ".join(sorted(loops.unsplit))
    return [
        sentence,
        f"No DistributedSampler shares {names} out: each rank went through all of it, as under torchrun.",
    ]


def notes_of_buckets(exchange: GradientExchange, buckets: BucketExchange) -> list[str]:
    """What `--compress` and the size of buckets acted on, and what not.

    >>> notes_of_buckets(exchange, buckets)
    """
    how, options = buckets.compression, buckets.options
    notes = []
    whole = [
        type(each.model).__name__ for each in exchange.models if each.is_trained and not each.was_wrapped
    ]
    given = {
        f"--compress {how}": how.kind != "none", "--bucket-mb": options.bucket_mb is not None,
        "--static-graph": options.static_graph, "--communication": options.communication,
    }  # fmt: skip
    if buckets.passes and whole and any(given.values()):
        notes.append(
            f"{', '.join(name for name, is_given in given.items() if is_given)}: nothing of this was for {', '.join(whole)}. Of "
            "several models in one pass, the first to be called has buckets, and the gradients of the others are exchanged "
            "whole after the backward pass. One nn.Module that holds them all is exchanged in buckets as a whole."
        )
    if how.kind != "none":
        notes.append(
            f"--compress {how}: {how.effect}. It acted on {buckets.compressed} of {exchange.exchanges} exchanges; in the first "
            "passes, and where a parameter took no part, gradients are exchanged whole."
        )
        if options.checkpoint:
            what = "what PowerSGD had left out" if how.kind == "powersgd" else "which passes were compressed"
            notes.append(
                f"Checkpoints do not hold {what}: a run that goes on from one begins compressing anew, so its losses differ a "
                "little from those of a run that was not interrupted."
            )
    elif (options.bucket_mb is not None or options.static_graph) and not buckets.passes:
        notes.append(
            "--bucket-mb and --static-graph had nothing to act on: gradients were exchanged after the backward pass, not in "
            "buckets during it."
        )
    return notes
