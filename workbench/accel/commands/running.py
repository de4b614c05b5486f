"""Call the function that a parsed command names. What needs a notebook's screen (the cell, the panel) is not here."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.acceleration_list import AccelerationList
from accel.commands.help import Help
from accel.errors import AccelError
from accel.machine import read_machine
from accel.machine.affinity import affinity
from accel.machine.installation import doctor
from accel.machine.number_formats import formats_of
from accel.machine.peaks import peaks
from accel.machine.telemetry import watch
from accel.machine.topology import topology

if TYPE_CHECKING:
    from accel.workbench import Workbench
    from accel.workbench.status import Applicabilities


def run_without_notebook(options: argparse.Namespace) -> object:
    """The result of a command that needs no workload: help, machine, peaks, topology, accelerations …

    >>> run_without_notebook(parse("machine")).usable_cores
    2
    """
    if options.command == "machine":
        return read_machine(again=True)
    if options.command == "peaks":
        return peaks(again=options.again, links=options.links)
    if options.command == "formats":
        return formats_of(read_machine())
    if options.command == "affinity":
        return affinity(pid=options.pid)
    if options.command == "monitor":
        return watch(options.seconds, every=options.every)
    if options.command == "topology":
        return topology(options.from_file, text=getattr(options, "cell", None), html=options.html)
    if options.command == "backends":
        from accel.techniques.compiling.compile_backends import compile_backends

        return compile_backends()
    if options.command == "oneccl":
        from accel.distributed.oneccl.state import oneccl_here

        return oneccl_here(build=options.build)
    if options.command == "doctor":
        return doctor()
    if options.command == "accelerations":
        return AccelerationList.of_catalogue()
    if options.command == "history":
        return past(options.predictions)
    if options.command == "open":
        from accel.workbench.trace_findings import open_with_findings

        return open_with_findings(*options.files)
    return Help(options.topic)


def past(predictions: bool) -> object:
    """The history, without a notebook."""
    from accel.workbench.history_keeping import HistoryKeeper

    keeper = HistoryKeeper()
    return keeper.past_predictions() if predictions else keeper.past_trials()


def run(options: argparse.Namespace, workbench: Workbench) -> object:
    """The result of a command on this workbench; a trial is returned at once, finished only if its `wait` says so."""
    if options.command == "try":
        return workbench.try_(
            *options.plans,
            on=options.on,
            wait=options.wait,
            budget_s=options.budget_s,
            timeout_s=options.timeout_s,
            until=options.until,
            train_s=options.train_s,
            seeds=options.seeds,
            held_out=options.held_out,
            metric=options.metric,
            better=options.better,
            start=options.start,
        )
    if options.command == "batch":
        return workbench.fastest_batch(largest=options.largest, budget_s=options.budget_s)
    if options.command == "keep":
        return workbench.keep(options.plan, on=options.on)
    if options.command == "undo":
        return workbench.undo(options.name)
    if options.command == "findings":
        return workbench.findings()
    if options.command == "graph":
        return workbench.graph(
            options.model, options.inputs, add=options.add, after=options.after, onnx=options.onnx
        )
    if options.command == "history":
        return workbench.history(options.predictions)
    if options.command == "status":
        return workbench.status()
    if options.command == "export":
        return workbench.export(to=options.to)
    if options.command == "accelerations":
        return accelerations_of(workbench)
    if options.command == "ddp":
        raise AccelError(
            "%accel ddp",
            because="it runs a whole cell",
            do="Write %%accel ddp, with two %, as its first line.",
        )
    return run_without_notebook(options)


def accelerations_of(workbench: Workbench) -> AccelerationList | Applicabilities:
    """With a workload the table says what works on it; without one it cannot."""
    if workbench.workload is None:
        return AccelerationList.of_catalogue()
    from accel.workbench.status import Applicabilities

    return Applicabilities(tuple(workbench.accelerations()), str(workbench.workload))
