"""Every command, in the order of `%accel help`. Magics, completion, the command line and help read this list.

An option is a keyword of the Python function of the same name: `--timeout-s 30` is `timeout_s=30`.
"""

from __future__ import annotations

from accel.commands import (
    accelerations,
    affinity,
    app,
    backends,
    batch,
    cluster,
    ddp,
    doctor,
    env,
    export,
    findings,
    formats,
    graph,
    help,
    history,
    jobs,
    keep,
    labs,
    machine,
    monitor,
    oneccl,
    open_traces,
    panel,
    peaks,
    profile,
    progress,
    quiz,
    report,
    status,
    sweep,
    topology,
    try_,
    tune,
    undo,
    what_if,
)
from accel.commands.command import Command, named

COMMANDS: tuple[Command, ...] = (
    profile.COMMAND,
    try_.COMMAND,
    tune.COMMAND,
    ddp.COMMAND,
    jobs.COMMAND,
    cluster.COMMAND,
    what_if.COMMAND,
    sweep.COMMAND,
    batch.COMMAND,
    keep.COMMAND,
    undo.COMMAND,
    findings.COMMAND,
    history.COMMAND,
    graph.COMMAND,
    status.COMMAND,
    export.COMMAND,
    report.COMMAND,
    accelerations.COMMAND,
    backends.COMMAND,
    env.COMMAND,
    oneccl.COMMAND,
    machine.COMMAND,
    peaks.COMMAND,
    formats.COMMAND,
    affinity.COMMAND,
    topology.COMMAND,
    monitor.COMMAND,
    open_traces.COMMAND,
    panel.COMMAND,
    app.COMMAND,
    labs.COMMAND,
    quiz.COMMAND,
    progress.COMMAND,
    doctor.COMMAND,
    help.command_that_explains(lambda: COMMANDS),
)
COMMAND_NAMES = tuple(command.name for command in COMMANDS)


def command_named(name: str) -> Command:
    """The command of that name; raises UnknownName with the nearest right word.

    >>> command_named("try").example
    '%accel try channels_last autocast(dtype="bf16")+fused_optimizer'
    """
    return named(COMMANDS, name)


def help_on(topic: str | None = None, *, program: str = "%accel") -> help.Help:
    """What all commands do, or how one is used.

    >>> print(help_on("try"))
    """
    return help.explained(COMMANDS, topic, program=program)
