"""What a cell does by itself of what the ranks do: options that have nothing to act on then, gradients averaged twice."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accel.distributed.cells.launched_cell import called_by_us
from accel.distributed.data_parallel.gathered_pieces import has_pieces
from accel.errors import AccelError
from accel.techniques.sharding.sharded_model import sharding_of

if TYPE_CHECKING:
    from accel.distributed.cells.run_options import RunOptions
    from accel.plans.plan import Plan

COLLECTIVES = (
    "all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_to_all", "all_to_all_single", "barrier",
    "broadcast", "broadcast_object_list", "gather", "gather_object", "monitored_barrier", "reduce", "reduce_scatter",
    "reduce_scatter_tensor", "scatter", "scatter_object_list",
)  # fmt: skip  # what all ranks of a group have to call together


def refuse_without_effect(options: RunOptions, plan: Plan | None) -> None:
    """Raises AccelError where an option is about what the ranks share out and average, and the cell does that by itself.

    >>> refuse_without_effect(RunOptions(batch="global"), None)
    Traceback (most recent call last):
    accel.errors.AccelError: --batch global: the cell distributes its training itself …
    """
    entries = plan.entries if plan is not None else ()
    needing = [entry.name for entry in entries if getattr(entry, "needs_ranks", False)]
    given = {
        "--batch global": options.batch == "global",
        "--sync-batchnorm": options.sync_batchnorm,
        f"--checkpoint {options.checkpoint}": bool(options.checkpoint),
        "--bucket-mb": options.bucket_mb is not None,
        "--static-graph": options.static_graph,
        f"--compress {options.compress}": options.compress != "none",
        "--communication": options.communication,
        f"--plan {'+'.join(needing)}": bool(needing),
    }
    asked = [name for name, is_given in given.items() if is_given]
    if asked:
        raise AccelError(
            ", ".join(asked),
            because="the cell distributes its training itself (init_process_group, DistributedDataParallel)",
            do="Do it in the cell; or take those calls out of the cell, and the ranks share out and average.",
        )


def refuse_own_pieces(model: Any) -> None:
    """Raises AccelError where the cell has spread the model's parameters over the ranks, other than by a plan.

    >>> refuse_own_pieces(nn.Linear(2, 2))
    """
    if sharding_of(model) is None and has_pieces(model):
        raise AccelError(
            f"Training {type(model).__name__}, whose parameters the cell has spread over the ranks",
            because="the ranks would average what each has a piece of",
            do="Leave fully_shard to --plan fully_shard, and the whole model comes home; or begin the cell with "
            "torch.distributed.init_process_group().",
        )


def telling(on_wrap: Callable[[], object]) -> Callable[[Any], Any]:
    """Makes of `DistributedDataParallel.__init__` one that tells when the cell, or a library that it uses, wraps a model.

    >>> DistributedDataParallel.__init__ = telling(print)(DistributedDataParallel.__init__)
    """

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def __init__(ddp: Any, *args: Any, **kwargs: Any) -> None:
            if not called_by_us():
                on_wrap()
            original(ddp, *args, **kwargs)

        return __init__

    return make


def refusing(holds: Callable[[Any], bool]) -> Callable[[Any], Any]:
    """Makes of `torch.distributed.all_reduce` one that refuses what `holds` says the ranks average already.

    >>> dist.all_reduce = refusing(exchange.holds)(dist.all_reduce)
    """

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def all_reduce(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if not _caller().startswith(("accel.", "torch.")) and holds(tensor):
                raise AccelError(
                    "all_reduce of what is trained",
                    because="the ranks average gradients after each backward pass already",
                    do="Leave it out; or begin the cell with torch.distributed.init_process_group(): then it trains as under "
                    "torchrun, and its own exchange is the only one.",
                )
            return original(tensor, *args, **kwargs)

        return all_reduce

    return make


def announcing(name: str, hear: Callable[..., object]) -> Callable[[Any], Any]:
    """Makes of a collective one that is heard before all ranks come together in it, with whether the cell calls it.

    >>> dist.barrier = announcing("barrier", hear)(dist.barrier)
    """

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def collective(*args: Any, **kwargs: Any) -> Any:
            import torch.distributed as dist

            groups = (each for each in (*args, *kwargs.values()) if isinstance(each, dist.ProcessGroup))
            if all(each is dist.group.WORLD for each in groups):
                hear(COLLECTIVES.index(name), is_of_cell=not _caller().startswith(("accel.", "torch.")))
            return original(*args, **kwargs)

        return collective

    return make


def _caller() -> str:
    """The module that called a function which is replaced here."""
    frame: Any = sys._getframe(1)
    while frame.f_globals["__name__"] == __name__:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))
