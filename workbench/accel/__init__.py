"""Take a slow PyTorch training cell to a fast one, with evidence: profile, try, keep, export.

In a notebook: `%load_ext accel`, then `%%accel profile` over the training cell and `%accel help`. Every command is also
a function here, for scripts and tests:

    accel.profile(cell)            where the time of each training step goes
    accel.findings()               what costs time in that profile, and what to do about it
    accel.try_("channels_last")    measure plans against the baseline, on copies
    accel.tune()                   search for the plan that trains fastest, by measuring many
    accel.fastest_batch()          the batch that trains the most samples a second
    accel.ddp(train, n=2)          run a cell or a function data-parallel on ranks, of this machine or of a cluster
    accel.jobs()                   the jobs of torchrun, mpirun and SLURM: how far, logs, cancel, state brought home
    accel.cluster()                hosts, interfaces and all-reduces between ranks; accel.what_if() for ranks that are not there
    accel.sweep()                  processes × threads, or GPUs: time, speed-up, efficiency, quality
    accel.keep() · accel.undo()    make a plan live, take it back
    accel.export()                 the same as plain PyTorch
    accel.report("report.html")    all of it as one HTML file to pass on
    accel.open_trace("t.json.gz")  a trace of torch.profiler, or a folder of ranks, as the same report
    accel.peaks()                  the most this machine can do, which a profile with shapes is held against
    accel.graph(model, images)     the model as operations with their cost; what one more layer would add
    accel.history()                what was measured on this machine; with predictions=True, what had been predicted
    accel.topology()               how GPUs and network cards are joined, and which GPUs to use together
    accel.affinity()               the cores, which threads, workers and ranks are on them, and any problems
    accel.monitor()                the load of CPUs, memory and GPUs, live and as means
    accel.app("training.ipynb")    a notebook as an app by Voila, on this machine
    accel.labs() · accel.lab(5)    the course: eleven labs with quizzes; accel.progress() says how far you are
    accel.options                  how much is shown: print(accel.options) lists them
    and status, accelerations, compile_backends, number_formats, machine, loader_affinity, environments, oneccl, panel, quiz,
    doctor, help

They work on the notebook's variables while the extension is loaded, otherwise on those of the script that runs.
Other namespaces have a `Workbench` of their own.

Below it, from what a user calls down to what measures: `notebook` (magics, completion), `commands` (every command and its
options, once), `workbench` (one notebook's state), then exporting, distributed, workers, accelerations, profiling, measuring,
workload, machine. docs/architecture.md says how they meet. Importing `accel` loads none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accel.callable_package import FUNCTION_OF as _FUNCTION_OF
from accel.learning import labs as _labs
from accel.on_machine import accelerations as _accelerations
from accel.on_machine import environments as _environments
from accel.on_machine import history as _history
from accel.on_machine import machine as _machine

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch.utils.data import DataLoader

    from accel import options as options
    from accel.commands.help import Help
    from accel.distributed.ranks.rank_pool import RankPool as RankPool
    from accel.exports import export as export
    from accel.exports import report as report
    from accel.learning import lab as lab
    from accel.learning import progress as progress
    from accel.learning import quiz as quiz
    from accel.measuring.ladder import Ladder
    from accel.measuring.time_to_quality import TimeToQuality
    from accel.on_clusters import cluster as cluster
    from accel.on_clusters import jobs as jobs
    from accel.on_clusters import what_if as what_if
    from accel.on_machine import affinity as affinity
    from accel.on_machine import app as app
    from accel.on_machine import compile_backends as compile_backends
    from accel.on_machine import doctor as doctor
    from accel.on_machine import loader_affinity as loader_affinity
    from accel.on_machine import monitor as monitor
    from accel.on_machine import number_formats as number_formats
    from accel.on_machine import open_trace as open_trace
    from accel.on_machine import peaks as peaks
    from accel.on_machine import topology as topology
    from accel.on_ranks import ddp as ddp
    from accel.on_ranks import oneccl as oneccl
    from accel.on_ranks import sweep as sweep
    from accel.opgraph.op_graph import OpGraph, WhatIf
    from accel.plans.plan import Plan
    from accel.profiling.findings import Findings
    from accel.profiling.profile import Profile
    from accel.searches import fastest_batch as fastest_batch
    from accel.searches import tune as tune
    from accel.workbench import Workbench as Workbench
    from accel.workbench.kernelspec import KernelSpec
    from accel.workbench.quality_request import Better
    from accel.workbench.status import Status
    from accel.workers.quality_trial import QualityTrial
    from accel.workers.trial import Trial
    from accel.workload.new_weights import Start

__version__ = "0.1.0"
__all__ = [
    "RankPool", "Workbench", "accelerations", "affinity", "app", "cluster", "compile_backends", "ddp", "doctor", "environments",
    "export", "fastest_batch", "findings", "graph", "help", "history", "jobs", "keep", "lab", "labs", "loader_affinity",
    "machine", "monitor", "number_formats", "oneccl", "open_trace", "options", "panel", "peaks", "profile", "progress", "quiz",
    "report", "status", "sweep", "topology", "try_", "tune", "undo", "what_if",
]  # fmt: skip
_ELSEWHERE = {
    "Workbench": "accel.workbench",
    "RankPool": "accel.distributed.ranks.rank_pool",
    **dict.fromkeys(("lab", "progress", "quiz"), "accel.learning"),
    **dict.fromkeys(("export", "report"), "accel.exports"),
    **dict.fromkeys(("cluster", "jobs", "what_if"), "accel.on_clusters"),
    **dict.fromkeys(("ddp", "oneccl", "sweep"), "accel.on_ranks"),
    **dict.fromkeys(("fastest_batch", "tune"), "accel.searches"),
    **dict.fromkeys((
        "affinity", "app", "compile_backends", "doctor", "loader_affinity", "monitor", "number_formats", "open_trace", "peaks",
        "topology",
    ), "accel.on_machine"),
}  # fmt: skip


def profile(
    cell: str | Callable[[], object], *,
    steps: int = 5, shapes: bool = False, stacks: bool = False, memory: bool = False,
) -> Profile:  # fmt: skip
    """Run training code once and report where the time of each step goes.

    The code becomes the workload: later commands work on it. In a notebook, put `%%accel profile` above the cell.

    Args:
        cell: Source text that trains, or a function without arguments that a variable of the notebook or script holds.
        steps: How many steps to look into with torch.profiler. All steps are timed.
        shapes: Also record input shapes: FLOPs and bytes of each operation, and the roofline.
        stacks: Also record the line of your code that led to each operation.
        memory: Also record allocations: bytes held over the step, and the peak by phase and module.

    Returns:
        The profile: a report in a notebook, `str()` in a terminal, `.to_dataframe()`, `.figure()`, `.diff(other)`.

    Raises:
        AccelError: An option makes no sense, or no variable holds the function. What the code raises is raised as it is.

    Examples:
        >>> profile = accel.profile("train(model, loader, criterion, optimizer)", stacks=True)
        >>> print(profile)
        >>> profile.to_dataframe("phases")

    Method: steps are timed by hooks in the run itself, operations by torch.profiler over a few steps of it (decision 5).
    """
    return _workbench().profile(cell, steps=steps, shapes=shapes, stacks=stacks, memory=memory)


def try_(
    *plans: str | Plan, on: str | None = None, wait: bool = True,
    budget_s: float | None = None, timeout_s: float = 60.0, until: str | None = None, train_s: float | None = None,
    seeds: int | None = None, held_out: DataLoader[Any] | str | None = None, metric: Callable[..., Any] | str | None = None,
    better: Better | None = None, start: Start | None = None,
) -> Trial | Ladder | QualityTrial | TimeToQuality:  # fmt: skip
    """Measure plans against the workload as it is, on copies; nothing of yours changes.

    By default speed is compared, and whether the losses follow. With `until` or `train_s` each plan trains from several
    seeds and is judged by its quality on held-out data.

    Args:
        *plans: Accelerations joined by "+", such as "channels_last+autocast".
        on: Names of objects of your cell that the plans act on, such as "generator". None: all.
        wait: False returns the running trial at once.
        budget_s: Wall time of the whole trial in seconds. None: 240 s, with `until` 600 s, with `train_s` what it takes.
        timeout_s: A worker that is silent for so many seconds is stuck.
        until: Train until held-out data are this good, such as "accuracy>=0.95"; compares seconds of training.
        train_s: Train for so many seconds; compares quality.
        seeds: With `until` or `train_s`: from how many seeds. None: 3, the fewest that give an interval.
        held_out: The loader that quality is measured on, or its name. None: the one whose name says so.
        metric: "accuracy", "loss", or a function of (model, loader) or (model). None: as `until` names it.
        better: Whether "higher" or "lower" values are better. None: known by the metric's name, or by the sign in `until`.
        start: Each seed starts from "new" weights, or from yours, the "same". None: new where torch's own initialisation can
            draw them.

    Returns:
        A Ladder of plans by speed, or a TimeToQuality. With `wait=False` the Trial or QualityTrial that is running.

    Raises:
        AccelError: There is no workload yet, none of the plans can work here, the workload cannot be copied, a worker failed,
            or an option makes no sense; it says what to do.

    Examples:
        >>> accel.try_("channels_last", 'autocast(dtype="bf16")+fused_optimizer', budget_s=30)
        >>> accel.try_("batch_size", until="accuracy>=0.95", seeds=3, budget_s=60)
        >>> accel.try_("channels_last", train_s=5)

    Method: blocks of steps in turns over several relaunches (decision 7); intervals over both levels as in Kalibera and Jones,
    "Rigorous benchmarking in reasonable time", ISMM 2013.
    """
    from accel.commands.line.ticking import wait_ticking

    return _workbench().try_(
        *plans, on=on, wait=wait, budget_s=budget_s, timeout_s=timeout_s, until=until, train_s=train_s, seeds=seeds,
        held_out=held_out, metric=metric, better=better, start=start, watch=wait_ticking,
    )  # fmt: skip


def keep(
    plan: str | Plan | None = None, *, on: str | None = None, as_kernel: str | None = None
) -> Status | KernelSpec:
    """Make a plan live: your own cells run with it from now on.

    Args:
        plan: The plan. None: the fastest of the last trial whose loss follows.
        on: Names of objects of your cell that it acts on, such as "generator". None: all.
        as_kernel: Install a Jupyter kernel of this name that starts with the plan, for what a running one cannot take.

    Returns:
        What is live now; or the kernel.

    Raises:
        AccelError: Nothing was profiled yet, no trial found a plan to keep, or this one cannot be kept here.

    Examples:
        >>> accel.keep("channels_last", on="model")
    """
    return _workbench().keep(plan, on=on, as_kernel=as_kernel)


def undo(name: str | None = None) -> Status:
    """Take back what is kept: your objects are set up as before; what was trained in between stays trained.

    Args:
        name: The acceleration to take back. None: all.

    Returns:
        What is live now, and what of an undone plan cannot come back (weights that were pruned).

    Raises:
        AccelError: Nothing of that name is kept.

    Examples:
        >>> accel.keep("channels_last")
        >>> print(accel.undo("channels_last"))
    """
    return _workbench().undo(name)


def findings() -> Findings:
    """Show again what costs time in the last profile, and what to do about it.

    Returns:
        The findings, each with evidence, expected gain, and the line to type.

    Raises:
        AccelError: Nothing was profiled yet.

    Examples:
        >>> print(accel.findings())

    Method: Amdahl's law over the measured shares, with the range of speed-ups that each rule has a source for.
    """
    return _workbench().findings()


def graph(
    model: torch.nn.Module | str | None = None,
    inputs: Any = None,
    *,
    add: str | None = None,
    after: str | None = None,
    onnx: str | None = None,
) -> OpGraph | WhatIf:
    """Show a model as a graph of operations with parameters, FLOPs and bytes on each.

    Nothing of the model changes, and no random number is used. The graph is of evaluation mode.

    Args:
        model: A model, or the name of a variable that holds one. None: the workload's.
        inputs: One batch: a tensor, a tuple of positional or a dict of keyword arguments, or a shape such as (64, 1, 28, 28),
            samples first. None: as in the profiled cell.
        add: Cost of one more layer, such as "Linear(512→256)", "ReLU" or "Conv2d(64→64, 3, padding=1)".
        after: The module that the added layer comes after.
        onnx: Also write the model to this file, as ONNX.

    Returns:
        The graph, with FLOPs and bytes of one forward; with `add` a WhatIf that compares it with the graph plus that layer.

    Raises:
        AccelError: No model is known, it cannot be traced with these inputs, the layer does not fit, or a name is unknown.

    Examples:
        >>> print(accel.graph(model, images))
        >>> accel.graph(model, images, add="Linear(512→256)", after="linear1")

    Method: torch.export on a copy without weights (decision 8).
    """
    return _workbench().graph(model, inputs, add=add, after=after, onnx=onnx)


def status() -> Status:
    """Say what the workload is, what is live, and which trial is running.

    Returns:
        The workload, what is kept with its effect, and the last trial.

    Examples:
        >>> print(accel.status())
    """
    return _workbench().status()


def panel() -> Any:
    """Open the workbench as a widget: phases, operations, switches and trials, all live.

    Returns:
        The widget; in a notebook, the last line of a cell shows it.

    Examples:
        >>> accel.panel()
    """
    import accel_widgets

    return accel_widgets.panel_of(_workbench())


def help(command: str | None = None) -> Help:
    """Explain all commands, or one.

    Args:
        command: The command to explain. None: all.

    Returns:
        The text.

    Raises:
        UnknownName: There is no such command.

    Examples:
        >>> print(accel.help("try"))
    """
    from accel.commands import help_on

    return help_on(command)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext accel`: the magics `%accel` and `%%accel`, and their completion."""
    from accel.notebook.extension import load
    from accel.notebook.greeting import greet

    load(shell)
    greet()


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext accel`: what is kept is taken back, and nothing of accel stays in the shell."""
    from accel.notebook.extension import unload

    unload(shell)


def _workbench() -> Workbench:
    from accel.current import current_workbench

    return current_workbench()


_FUNCTION_OF.update(
    {
        "accel.accelerations": _accelerations,
        "accel.environments": _environments,
        "accel.history": _history,
        "accel.labs": _labs,
        "accel.machine": _machine,
    }
)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _ELSEWHERE:
        return getattr(import_module(_ELSEWHERE[name]), name)
    if f"accel.{name}" in _FUNCTION_OF or name == "options":
        return import_module(f"accel.{name}")
    raise AttributeError(f"module 'accel' has no attribute {name!r}")
