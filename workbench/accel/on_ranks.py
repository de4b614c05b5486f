"""What trains on ranks as functions: `accel.ddp` and `accel.sweep`, by the options of the commands of those names."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel.accelerations.plan import Plan
    from accel.distributed.oneccl.state import OneCcl
    from accel.distributed.rank_devices import Backend
    from accel.distributed.shares import BatchMeans
    from accel.distributed.watched_run import WatchedRun
    from accel.measuring.sweep import Sweep


def ddp(
    cell: str | Callable[[], Any], *,
    n: int = 2, threads: int | None = None, backend: Backend = "auto", gpus: str = "auto", batch: BatchMeans = "per-rank",
    loaders: str | Iterable[str] = (), plan: str | Plan = "", timeout_s: float = 60.0, all_output: bool = False,
    discard: bool = False, sync_batchnorm: bool = False, checkpoint: str = "", every: int = 100, max_restarts: int = 0,
    bucket_mb: float | None = None, static_graph: bool = False, compress: str = "none", communication: bool = False,
    wait: bool = True,
) -> Any:  # fmt: skip
    """Run training code on `n` ranks of this machine, data-parallel; the trained state comes back to your objects.

    >>> accel.ddp(train, n=2)                    # a function without arguments: gives what it returned in rank 0
    >>> accel.ddp("train(model, loader)", n=2)   # source text: gives the DdpResult, with a lane for each rank

    What the function reaches comes home too: your variables, its closure, its object and arguments bound with
    functools.partial; but not the variables of a module that it was imported from. Options as in `%accel help ddp`: `batch`
    "global" shares each of your batches out, `plan` ("autocast+compile_model") is applied in every rank, `discard` leaves your
    objects as they were and gives back nothing. With `wait=False` it returns a DdpRun at once. In a notebook, put `%%accel ddp`
    over the cell.
    """
    from accel.commands.command import names
    from accel.commands.ticking import ticking
    from accel.current import current_workbench
    from accel.distributed.run_options import RunOptions
    from accel.distributed.run_pages import run_pages
    from accel.workbench.kept_ranks import DdpOptions

    run = RunOptions(
        batch=batch,
        loaders=names(loaders) if isinstance(loaders, str) else tuple(loaders),
        plan=str(plan), timeout_s=timeout_s, discard=discard, sync_batchnorm=sync_batchnorm,
        checkpoint=checkpoint, every=every, max_restarts=max_restarts,
        bucket_mb=bucket_mb, static_graph=static_graph, compress=compress, communication=communication,
    )  # fmt: skip
    options = DdpOptions(n, threads, backend, gpus, all_output, run)
    ranks, pages = current_workbench().ranks, run_pages()
    if not wait:
        return ranks.begin(cell, options, on_over=pages.when_over if pages is not None else None)
    if pages is not None:
        return ranks.run_printing(cell, options, page=pages.page())
    now = ["Ranks: starting."]
    with ticking(lambda: now[0]) as over:
        return ranks.run_printing(cell, options, page=_Beginning(now, over))


class _Beginning:
    """Tells how a run starts, where nobody shows its lanes; from its first step on it prints for itself."""

    def __init__(self, now: list[str], over: threading.Event) -> None:
        self._now, self._over = now, over

    def show(self, run: WatchedRun) -> None:
        self._now[:] = [run.line]
        if any(lane.step for lane in run.lanes):
            self._over.set()


def oneccl(*, build: bool = False) -> OneCcl:
    """Whether ranks can talk by oneCCL (`backend="ccl"`, experimental); `build` makes it so, with Intel's wheels and a compiler.

    >>> print(accel.oneccl(build=True))
    """
    from accel.distributed.oneccl.state import oneccl_here

    return oneccl_here(build=build)


def sweep(
    cell: str | None = None, *,
    processes: int | str | Iterable[int] = (), threads: int | str | Iterable[int] = (), backends: str | Iterable[str] = (),
    gpus: int | str | Iterable[int] = (), rounds: int = 1, steps: int | None = None, budget_s: float | None = None,
    batch: BatchMeans = "per-rank", held_out: Any = None, metric: Any = None, timeout_s: float = 60.0,
) -> Sweep:  # fmt: skip
    """Train the profiled cell (or this source text) with so many processes and threads, one after the other, on copies.

    >>> print(accel.sweep(processes=(1, 2), threads=(1, 2)))
    >>> accel.sweep(gpus="1..8").figure()

    Each number of processes with each of threads, each on CPUs of its own; what does not fit, or fails, is a row with the reason.
    Gives the table of time, speed-up, efficiency and quality on held-out data, with the knee named. Options as in
    `%accel help sweep`. Ctrl-C gives what was measured until then.
    """
    from accel.commands.ticking import ticking
    from accel.current import current_workbench
    from accel.workbench.rank_sweep import sweep_of

    now, began = ["Sweep: starting"], time.monotonic()
    with ticking(lambda: f"{now[0]}; {time.monotonic() - began:.0f} s. Interrupt keeps what was measured."):
        return sweep_of(
            current_workbench(), cell, processes=processes, threads=threads, backends=backends, gpus=gpus, rounds=rounds,
            steps=steps, budget_s=budget_s, batch=batch, held_out=held_out, metric=metric, timeout_s=timeout_s,
            show=lambda _sweep, told: now.__setitem__(0, told),
        )  # fmt: skip
