"""Take a slow PyTorch training cell to a fast one, with evidence: profile, try, keep, export.

In a notebook: `%load_ext accel`, then `%%accel profile` over the training cell and `%accel help`. Every command is also
a function here, for scripts and tests:

    accel.profile(cell)            where the time of each training step goes
    accel.findings()               what costs time in that profile, and what to do about it
    accel.try_("channels_last")    measure plans against the baseline, on copies
    accel.fastest_batch()          the batch that trains the most samples a second
    accel.ddp(train, n=2)          run a cell or a function data-parallel on ranks of this machine
    accel.sweep()                  processes × threads, or GPUs: time, speed-up, efficiency, quality
    accel.keep() · accel.undo()    make a plan live, take it back
    accel.export()                 the same as plain PyTorch
    accel.open_trace("t.json.gz")  a trace of torch.profiler, or a folder of ranks, as the same report
    accel.peaks()                  the most this machine can do, which a profile with shapes is held against
    accel.graph(model, images)     the model as operations with their cost; what one more layer would add
    accel.history()                what was measured on this machine; with predictions=True, what had been predicted
    accel.topology()               how GPUs and network cards are joined, and which GPUs to use together
    accel.affinity()               the cores, which threads, workers and ranks are on them, and what is amiss
    accel.monitor()                the load of CPUs, memory and GPUs, live and as means
    and status, accelerations, compile_backends, number_formats, machine, loader_affinity, oneccl, panel, doctor, help

They work on the notebook's variables while the extension is loaded, otherwise on those of the script that runs.
Other namespaces have a `Workbench` of their own.

Below it, from what a user calls down to what measures: `notebook` (magics, completion), `commands` (every command and its
options, once), `workbench` (one notebook's state), then exporting, distributed, workers, accelerations, profiling, measuring,
workload, machine. docs/architecture.md tells how they meet. Importing `accel` loads none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    import torch
    from torch.utils.data import DataLoader

    from accel.accelerations.compile_backends import CompileBackends
    from accel.accelerations.plan import Plan
    from accel.commands.acceleration_list import AccelerationList
    from accel.commands.help import Help
    from accel.distributed.rank_pool import RankPool as RankPool
    from accel.exporting.export import Export
    from accel.history import PastPredictions, PastTrials
    from accel.machine.affinity import Affinity
    from accel.machine.installation import Installation
    from accel.machine.number_formats import NumberFormats
    from accel.machine.peaks import Peaks
    from accel.machine.telemetry import Monitor
    from accel.machine.topology import Topology
    from accel.measuring.fastest_batch import FastestBatch
    from accel.measuring.ladder import Ladder
    from accel.measuring.time_to_quality import TimeToQuality
    from accel.on_ranks import ddp as ddp
    from accel.on_ranks import oneccl as oneccl
    from accel.on_ranks import sweep as sweep
    from accel.opgraph.op_graph import OpGraph
    from accel.opgraph.what_if import WhatIf
    from accel.profiling.findings import Findings
    from accel.profiling.profile import Profile
    from accel.traces.ranks_report import RanksReport
    from accel.traces.trace_profile import TraceProfile
    from accel.workbench import Workbench as Workbench
    from accel.workbench.quality_request import Better
    from accel.workbench.status import Applicabilities, Status
    from accel.workers.quality_trial import QualityTrial
    from accel.workers.trial import Trial
    from accel.workload.new_weights import Start

__version__ = "0.1.0"
__all__ = [
    "RankPool", "Workbench", "accelerations", "affinity", "compile_backends", "ddp", "doctor", "export", "fastest_batch",
    "findings", "graph", "help", "history", "keep", "loader_affinity", "machine", "monitor",
    "number_formats", "oneccl", "open_trace", "panel", "peaks", "profile", "status", "sweep", "topology",
    "try_", "undo",
]  # fmt: skip


def profile(
    cell: str | Callable[[], object], *,
    steps: int = 5, shapes: bool = False, stacks: bool = False, memory: bool = False,
) -> Profile:  # fmt: skip
    """Run training code, say where the time of each step goes, and remember it as the workload.

    >>> accel.profile("train(model, loader, criterion, optimizer)")

    `steps` are looked into with torch.profiler; all are timed. `shapes` adds the input shapes of each operation with its
    FLOPs and bytes, `stacks` your own line that led to it, `memory` the bytes allocated over the step. In a
    notebook, put `%%accel profile` over the cell.
    """
    return _workbench().profile(cell, steps=steps, shapes=shapes, stacks=stacks, memory=memory)


def try_(
    *plans: str | Plan, on: str | None = None, wait: bool = True,
    budget_s: float | None = None, timeout_s: float = 60.0, until: str | None = None, train_s: float | None = None,
    seeds: int | None = None, held_out: DataLoader[Any] | str | None = None, metric: Callable[..., Any] | str | None = None,
    better: Better | None = None, start: Start | None = None,
) -> Trial | Ladder | QualityTrial | TimeToQuality:  # fmt: skip
    """Measure plans against the baseline on copies of the workload; nothing of yours changes.

    >>> accel.try_("channels_last", 'autocast(dtype="bf16")+fused_optimizer')

    `on` names the objects of your cell that the plans act on, such as "generator" (None: all).
    Returns the ladder, or with `wait=False` the running trial. `budget_s` bounds the trial (None: 240 s), `timeout_s` one step.

    >>> accel.try_("batch_size", until="accuracy>=0.95", seeds=3)     # seconds of training until it is as good
    >>> accel.try_("autocast", train_s=30)                            # how good it is after 30 seconds of training

    Then each plan is trained from `seeds` seeds (None: 3) and judged on `held_out`, a loader or its name (None: the one
    whose name says so), by `metric`, a function of (model, loader) or (model) (None: the one of the target's name, or
    "accuracy" or "loss", which are built in). `budget_s` None is 600 s then, or what `train_s` takes. `better` says which values
    of a metric are (None: known by its name, or by the sign in `until`). All seeds start from new weights (`start` "new"), or
    from yours as they are now ("same"; None: new where torch's own initialisation can draw them).
    """
    from accel.bounds import check_seconds
    from accel.commands.ticking import wait_ticking

    check_seconds(f"try_(budget_s={budget_s})", budget_s)
    check_seconds(f"try_(timeout_s={timeout_s})", timeout_s)
    trial: Any = _workbench().try_(
        *plans, on=on, wait=False, budget_s=budget_s, timeout_s=timeout_s,
        until=until, train_s=train_s, seeds=seeds, held_out=held_out, metric=metric, better=better, start=start,
    )  # fmt: skip
    result: Trial | Ladder | QualityTrial | TimeToQuality = wait_ticking(trial) if wait else trial
    return result


def fastest_batch(*, largest: int | None = None, budget_s: float | None = None) -> FastestBatch:
    """The batch that trains the most samples a second, found by measuring larger and smaller ones on copies.

    >>> print(accel.fastest_batch(largest=512))

    The fastest, not the largest that fits; sizes that cannot be told apart count as equal, and the smallest is taken.
    A larger batch changes training: compare the time to equal quality before keeping it.
    """
    from accel.commands.ticking import wait_ticking

    return _workbench().fastest_batch(largest=largest, budget_s=budget_s, watch=wait_ticking)


def keep(plan: str | Plan | None = None, *, on: str | None = None) -> Status:
    """Make a plan live: the fastest plan of the last trial whose loss follows, or the one named.

    >>> accel.keep("channels_last", on="generator")

    `on` names the objects of your cell that it acts on (None: all).
    """
    return _workbench().keep(plan, on=on)


def undo(name: str | None = None) -> Status:
    """Take back what is kept, all or one acceleration, bit for bit.

    >>> accel.undo("channels_last")
    """
    return _workbench().undo(name)


def findings() -> Findings:
    """What costs time in the last profile, and what to do about it.

    >>> print(accel.findings())
    """
    return _workbench().findings()


def _history(predictions: bool) -> PastTrials | PastPredictions:
    """What calling `accel.history` gives."""
    return _workbench().history(predictions)


def graph(
    model: torch.nn.Module | str | None = None,
    inputs: Any = None,
    *,
    add: str | None = None,
    after: str | None = None,
    onnx: str | None = None,
) -> OpGraph | WhatIf:
    """A model as a graph of operations with parameters, FLOPs and bytes on each.

    >>> print(accel.graph(model, images))                        # or a shape: accel.graph(model, (64, 1, 28, 28))
    >>> accel.graph()                                            # the profiled cell's model, with measured times
    >>> accel.graph(model, images, add="Linear(512→256)", after="linear1")   # what one more layer would cost

    `inputs` is a tensor, a tuple of positional or a dict of keyword arguments, or a shape. `onnx` names a file to write
    the model to. Nothing of the model changes, no random number is used; the graph is of evaluation mode.
    """
    return _workbench().graph(model, inputs, add=add, after=after, onnx=onnx)


def status() -> Status:
    """What the workload is and which accelerations are live.

    >>> print(accel.status())
    """
    return _workbench().status()


def export(to: str = "cell") -> Export:
    """What is kept, written as plain PyTorch that does not need accel.

    >>> print(accel.export())
    """
    return _workbench().export(to)


def _list_accelerations() -> AccelerationList | Applicabilities:
    """What calling `accel.accelerations` gives."""
    from accel.commands.running import accelerations_of

    return accelerations_of(_workbench())


def panel() -> Any:
    """The workbench as a widget: phases, operations, toggles and trials, all live.

    >>> accel.panel()
    """
    import accel_widgets

    return accel_widgets.panel_of(_workbench())


def peaks(*, again: bool = False, links: bool = False) -> Peaks:
    """The most this machine can do: FLOP/s by dtype, bytes/s, copies to and from GPUs; measured once in seconds and stored.

    >>> print(accel.peaks())
    >>> accel.peaks(links=True).all_reduce_s(100e6, ranks=2)

    They belong to this processor, thread count, GPUs and torch. `links=True` measures all-reduce between processes and copies
    between GPUs too, which takes some seconds more. `again=True` measures anew and keeps the higher rates: other
    work on the machine makes them too low.
    """
    from accel.machine.peaks import peaks as find

    return find(again=again, links=links)


def number_formats() -> NumberFormats:
    """The number formats of deep learning: bits, range and precision, and what each device of this machine does with them.

    >>> print(accel.number_formats())
    """
    from accel.machine import read_machine
    from accel.machine.number_formats import formats_of

    return formats_of(read_machine())


def affinity(*, ranks: Mapping[int, int] | None = None, pid: int | None = None) -> Affinity:
    """The cores of this machine with the threads of this process, its loader workers and ranks on them, and what is amiss.

    >>> print(accel.affinity())
    >>> accel.affinity(ranks={0: 4711, 1: 4712})       # ranks started elsewhere, each by its process
    >>> accel.affinity(pid=4711)                       # of another process, as `accel affinity --pid 4711` does
    """
    from accel.machine.affinity import affinity

    return affinity(ranks, pid=pid)


def loader_affinity(cpus: Iterable[int] | None = None) -> AbstractContextManager[tuple[int, ...]]:
    """Loader workers started inside may run on `cpus`; by default on all that this process had when it began.

    >>> with accel.loader_affinity():
    ...     for images, labels in loader: ...

    OMP_PROC_BIND, GOMP_CPU_AFFINITY and KMP_AFFINITY narrow the main thread to one CPU, and loader workers inherit that.
    """
    from accel.workload.loader_affinity import loader_affinity

    return loader_affinity(cpus)


def monitor(seconds: float | None = None, *, every: float = 0.5) -> Monitor:
    """Watch CPUs, memory, this process with its workers, and GPUs, from now on: live in a notebook, and as means and peaks.

    >>> with accel.monitor() as load:
    ...     train(model, loader)
    >>> print(load.summary())            # "Over 12.3 s the CPUs were 91 % busy and GPU 0 was 38 % busy."

    A sample every `every` seconds in one thread that takes less than 1 % of one core, for `seconds` or until it is closed.
    """
    from accel.machine.telemetry import monitor

    return monitor(seconds, every=every)


def topology(from_file: str | None = None, *, text: str | None = None, html: str | None = None) -> Topology:
    """How the GPUs and network cards of this machine are joined; or those of a printed `nvidia-smi topo -m`: a file, or its text.

    >>> accel.topology().best_gpus(2).as_env
    {'CUDA_DEVICE_ORDER': 'PCI_BUS_ID', 'CUDA_VISIBLE_DEVICES': '0,3'}

    `html` is a file to write it to as a page of its own. Raises AccelError for a file that is not there or holds no matrix.
    """
    from accel.machine.topology import topology

    return topology(from_file, text=text, html=html)


def open_trace(*files: str | Path) -> TraceProfile | RanksReport:
    """Traces that torch.profiler wrote, of any version, on CPU or GPU, as the same report as a profile, with findings.

    >>> print(accel.open_trace("trace.json.gz"))
    >>> print(accel.open_trace("traces/"))      # one a rank: stragglers, communication and its overlap
    """
    from accel.workbench.trace_findings import open_with_findings

    return open_with_findings(*files)


def compile_backends() -> CompileBackends:
    """The backends of torch.compile: which of them can be used here, and why the others cannot.

    >>> print(accel.compile_backends())
    """
    from accel.accelerations.compile_backends import compile_backends as look

    return look()


def doctor() -> Installation:
    """What is installed, what is missing, and what each missing part would enable.

    >>> print(accel.doctor())
    """
    from accel.machine.installation import doctor as look

    return look()


def help(command: str | None = None) -> Help:
    """What the commands do, or how one is used.

    >>> print(accel.help("try"))
    """
    from accel.commands.help import Help

    return Help(command)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext accel`: the magics `%accel` and `%%accel`, and their completion."""
    from accel.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext accel`: what is kept is taken back, and nothing of accel stays in the shell."""
    from accel.notebook.extension import unload

    unload(shell)


def _workbench() -> Workbench:
    from accel.current import current_workbench

    return current_workbench()


def __getattr__(name: str) -> Any:
    if name == "Workbench":
        from accel.workbench import Workbench

        return Workbench
    if name == "RankPool":
        from accel.distributed.rank_pool import RankPool

        return RankPool
    if name in ("ddp", "oneccl", "sweep"):
        from accel import on_ranks

        return getattr(on_ranks, name)
    if name in ("machine", "accelerations", "history"):  # callable: accel.machine() and accel.machine.Machine
        import importlib

        return importlib.import_module(f"accel.{name}")
    raise AttributeError(f"module 'accel' has no attribute {name!r}")
