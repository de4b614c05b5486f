"""What needs no training cell, as functions: the machine, its load and its peaks, what there is, its history, and traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from accel.commands.accelerations import AccelerationList
    from accel.environments.asked import Environments
    from accel.history import PastPredictions, PastTrials
    from accel.machine.affinity import Affinity
    from accel.machine.installation import Installation
    from accel.machine.machine import Machine
    from accel.machine.number_formats import NumberFormats
    from accel.machine.peaks import Peaks
    from accel.machine.telemetry import Monitor
    from accel.machine.topology import Topology
    from accel.measuring.ladder import Ladder
    from accel.measuring.time_to_quality import TimeToQuality
    from accel.techniques.compiling.compile_backends import CompileBackends
    from accel.traces.ranks_report import RanksReport
    from accel.traces.trace_profile import TraceProfile
    from accel.workbench.status import Applicabilities
    from accel.workbench.voila_app import EndedApp


def machine() -> Machine:
    """Describe this machine: cores, caches, memory, instruction sets, GPUs, versions.

    Returns:
        The machine as it is now: prints, shows as a table, `.line`, `.to_dict()`.

    Examples:
        >>> print(accel.machine())
        >>> accel.machine().usable_cores
    """
    from accel.machine.reading import read_machine

    return read_machine(again=True)


def app(file: str | Path, *, port: int | None = None) -> EndedApp:
    """Serve a notebook as an app by Voila: its outputs and panels without its code, on this machine and for you alone.

    It goes on until Ctrl-C, or the interrupt of the cell. The address that is printed has a token; other users of the machine
    do not get in. A page that is opened runs the notebook from its beginning, in a kernel of its own.

    Args:
        file: The notebook.
        port: Listen on this port. None: a free one.

    Returns:
        How long it was served.

    Raises:
        AccelError: The file is no notebook, Voila is not installed, or the port is taken.

    Examples:
        >>> accel.app("training.ipynb")
    """
    from accel.workbench.voila_app import serve

    return serve(file, port=port)


def peaks(*, again: bool = False, links: bool = False) -> Peaks:
    """Measure once what this machine can do at most: FLOP/s by dtype, bytes/s, copies to and from GPUs.

    The figures belong to this processor, number of threads, GPUs and torch, and are stored. Other work on the machine makes them
    too low; the result says so.

    Args:
        again: Measure anew and keep the higher rates.
        links: Also measure all-reduce between processes and copies between GPUs, which takes some seconds more.

    Returns:
        FLOP/s by number format and device, bytes/s of memory, caches, copies and links.

    Examples:
        >>> print(accel.peaks())
        >>> accel.peaks(links=True).all_reduce_s(100e6, ranks=2)

    Method: the best of many runs of matrix products, of sums over large buffers, and of copies.
    """
    from accel.commands.line.ticking import saying
    from accel.machine.peaks import peaks as find

    with saying("accel.peaks()"):
        return find(again=again, links=links)


def number_formats() -> NumberFormats:
    """List the number formats of deep learning: bits, range, precision, and what each device of this machine does with them.

    Returns:
        A table of formats by device.

    Examples:
        >>> print(accel.number_formats())
    """
    from accel.machine import read_machine
    from accel.machine.formats_of_machine import formats_of

    return formats_of(read_machine())


def affinity(*, ranks: Mapping[int, int] | None = None, pid: int | None = None) -> Affinity:
    """Show the cores of this machine with the threads, loader workers and ranks on them, and any problem of their placement.

    Args:
        ranks: Ranks that something else started, as {rank: process id}.
        pid: Show this process instead, with its workers and ranks.

    Returns:
        The map of cores, with a sentence for each problem.

    Raises:
        AccelError: There is no such process, or it belongs to another user.

    Examples:
        >>> print(accel.affinity())
        >>> import os
        >>> accel.affinity(ranks={0: os.getpid()}).notes
    """
    from accel.machine.affinity import affinity

    return affinity(ranks, pid=pid)


def loader_affinity(cpus: Iterable[int] | None = None) -> AbstractContextManager[tuple[int, ...]]:
    """Let loader workers that start inside run on these CPUs.

    OMP_PROC_BIND, GOMP_CPU_AFFINITY and KMP_AFFINITY narrow the main thread to one CPU, and loader workers inherit that.

    Args:
        cpus: Numbers of CPUs. None: all that this process had when it began.

    Returns:
        A context; it gives the CPUs.

    Raises:
        AccelError: A CPU is not there or not allowed, or the system has no masks (macOS, Windows).

    Examples:
        >>> with accel.loader_affinity():
        ...     for images, labels in loader: pass
    """
    from accel.workload.loader_affinity import loader_affinity

    return loader_affinity(cpus)


def monitor(seconds: float | None = None, *, every: float = 0.5) -> Monitor:
    """Watch CPUs, memory, this process with its workers, and GPUs: live in a notebook, and as means and peaks.

    One thread samples, and takes less than 1 % of one core.

    Args:
        seconds: Stop after so many seconds. None: when it is closed.
        every: Seconds between two samples.

    Returns:
        The running Monitor: `.summary()`, `.close()`, a context.

    Raises:
        AccelError: A time makes no sense.

    Examples:
        >>> with accel.monitor() as load:
        ...     train(model, loader, criterion, optimizer)
        >>> print(load.summary())
    """
    from accel.machine.telemetry import monitor

    return monitor(seconds, every=every)


def topology(from_file: str | None = None, *, text: str | None = None, html: str | None = None) -> Topology:
    """Show how GPUs and network cards are joined, and which GPUs to use together.

    Args:
        from_file: A file with what `nvidia-smi topo -m` printed on another machine.
        text: The same as text, a line a device.
        html: Also write it to this file, as a page of its own.

    Returns:
        The matrix with `.best_gpus(n)`, `.figure()`, `.to_dict()`.

    Raises:
        AccelError: The file is not there or holds no matrix.

    Examples:
        >>> print(accel.topology())
        >>> topology = accel.topology(text='''
        ...       GPU0  GPU1  GPU2
        ... GPU0   X    SYS   NV2
        ... GPU1  SYS    X    SYS
        ... GPU2  NV2   SYS    X''')
        >>> topology.best_gpus(2).as_env
        {'CUDA_DEVICE_ORDER': 'PCI_BUS_ID', 'CUDA_VISIBLE_DEVICES': '0,2'}
    """
    from accel.machine.topology import topology

    return topology(from_file, text=text, html=html)


def compile_backends() -> CompileBackends:
    """List the backends of torch.compile: which work here, and why the others do not.

    Returns:
        A row for each backend, with the reason where it does not work.

    Examples:
        >>> print(accel.compile_backends())
    """
    from accel.techniques.compiling.compile_backends import compile_backends as look

    return look()


def environments(
    does: Literal["list", "create", "remove", "show"] = "list",
    name: str | None = None,
    *,
    python: str | None = None,
) -> Environments:
    """List, make and remove environments: other versions of torch, Intel's libraries, NNI.

    Args:
        does: What to do.
        name: "intel", "nni", "openmp", "torch==2.8", or a name of your own with `python`.
        python: The file of an interpreter to take in place of making one.

    Returns:
        What is there now.

    Raises:
        AccelError: One cannot be made; says why, and nothing of it is left. UnknownName: there is none of that name.

    Examples:
        >>> print(accel.environments())
    """
    from accel.commands.env import with_progress
    from accel.commands.line.ticking import saying

    with saying("accel.environments()"):
        return with_progress(does, name, python)


def doctor() -> Installation:
    """Say what is installed, what is missing, and what each missing part would enable.

    Returns:
        A row for each part.

    Examples:
        >>> print(accel.doctor())
    """
    from accel.machine.installation import doctor as look

    return look()


def open_trace(*files: str | Path) -> TraceProfile | RanksReport:
    """Read traces that torch.profiler wrote, of any version, on CPU or GPU, as the same report as a profile.

    Args:
        *files: A .json or .json.gz file, several, or a folder with one a rank.

    Returns:
        A TraceProfile; for several ranks a RanksReport with stragglers, communication and its overlap.

    Raises:
        AccelError: A file is not there, is no trace, or does not fit into memory.

    Examples:
        >>> accel.profile("train(model, loader, criterion, optimizer)").to_chrome_trace("trace.json.gz")
        >>> print(accel.open_trace("trace.json.gz"))
    """
    from accel.workbench.trace_findings import open_with_findings

    return open_with_findings(*files)


def history(
    predictions: bool = False, *, again: int | None = None, csv: bool = False
) -> PastTrials | PastPredictions | Ladder | TimeToQuality:
    """List the trials of this machine, across notebooks; or what had been predicted, next to what was measured.

    Args:
        predictions: Show predictions, and how good they have been.
        again: Measure the plan of this number anew, on the same cell; the list shows the numbers.
        csv: Print as a table for a spreadsheet.

    Returns:
        The trials, newest first, or the predictions; `.to_dataframe()`, `.to_dict()`. With `again` the new trial's result.

    Raises:
        AccelError: There is no such number, or it is of another cell than the one profiled last.

    Examples:
        >>> print(accel.history())
        >>> accel.history(predictions=True).to_dataframe()
    """
    from dataclasses import replace

    from accel.commands.line.ticking import wait_ticking
    from accel.current import current_workbench
    from accel.history import PastTrials

    if again is not None:
        from accel.workbench.measured_again import measured_again

        return measured_again(current_workbench(), again, watch=wait_ticking)
    past = current_workbench().history(predictions)
    return replace(past, as_csv=csv) if isinstance(past, PastTrials) else past


def accelerations() -> AccelerationList | Applicabilities:
    """List the accelerations; once a cell was profiled, which work on it, and why the others do not.

    Returns:
        A row for each acceleration, by the layer that it changes.

    Examples:
        >>> print(accel.accelerations())
    """
    from accel.commands.accelerations import accelerations_of
    from accel.current import current_workbench

    return accelerations_of(current_workbench())
