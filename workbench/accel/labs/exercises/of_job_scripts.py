"""Checks of jobs: what a batch script really starts, who each rank is, and how long gradients are on the wire."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

from accel.labs.exercises.rehearsal import Process, rehearse
from accel.labs.exercises.seen import Seen, function_of, is_near, is_same, outcome, wrong_work
from accel.units import counted

WHO = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    "mpirun": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "srun": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
}


def starts_all_ranks(script: object, *, nodes: int, tasks: int) -> Seen:
    """Whether a batch script starts `tasks` ranks on each of `nodes` nodes, each with PyTorch's five variables.

    >>> starts_all_ranks("#SBATCH --nodes=2\\npython train.py", nodes=2, tasks=4).passed
    False
    """
    if not isinstance(script, str):
        raise wrong_work("a script", f"this is of type {type(script).__name__}", "Pass its text.")
    world = nodes * tasks
    asked = f"{world} processes, {tasks} on each of {counted(nodes, 'node')}, each with the variables that PyTorch reads."
    rehearsed = rehearse(script)
    processes = rehearsed.processes
    figures = {"processes": float(len(processes))}
    saw = f"{counted(len(processes), 'process')} of python, on {counted(len({each['node'] for each in processes}), 'node')}."
    if Counter(each["node"] for each in processes) != {f"n{node}": tasks for node in range(1, nodes + 1)}:
        if rehearsed.said and not processes:
            saw = f"{saw} The last line that it printed: {rehearsed.said}"
        hint = "The script runs once, on the first node: srun starts what it is given in every task."
        return Seen(
            False,
            saw,
            asked,
            figures,
            hint if len(processes) < world else "Mind --nodes and --ntasks-per-node.",
        )
    problem = _of_variables(processes, world)
    if problem:
        return Seen(False, f"{saw} {problem[0]}", asked, figures, problem[1])
    return Seen(True, f"{saw} Each knows its rank, its device and where to meet.", asked, figures)


def _of_variables(processes: Sequence[Process], world: int) -> tuple[str, str] | None:
    """What is wrong with the variables of the processes, and a hint."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        if any(not each.get(name) for each in processes):
            return (
                f"{name} is not set in every one.",
                "Variables that are set before srun are passed on; SLURM's own differ by task.",
            )
    ranks = sorted(each["RANK"] for each in processes)
    if ranks != sorted(str(rank) for rank in range(world)):
        return (
            f"They have the ranks {', '.join(sorted(set(ranks)))}.",
            "A rank differs from task to task: read SLURM_PROCID in each.",
        )
    if {each["WORLD_SIZE"] for each in processes} != {str(world)}:
        return f"WORLD_SIZE is not {world}.", "The world size counts the ranks of all nodes."
    locals_of: dict[str, list[str]] = {}
    for each in processes:
        locals_of.setdefault(each["node"], []).append(each["LOCAL_RANK"])
    if any(sorted(found) != [str(number) for number in range(len(found))] for found in locals_of.values()):
        return "LOCAL_RANK does not count the processes of a node.", "Read SLURM_LOCALID in each task."
    if {each["MASTER_ADDR"] for each in processes} != {"n1"}:
        places = ", ".join(sorted({each["MASTER_ADDR"] for each in processes}))
        return f"They would meet at {places}.", "All meet on the first node: find its name once, before srun."
    if len({each["MASTER_PORT"] for each in processes}) > 1:
        return "They have different ports.", "The port is the same for all."
    return None


def knows_itself(function: object) -> Seen:
    """Whether function(variables) gives rank, world size and local rank by torchrun, mpirun and srun; (0, 1, 0) without them.

    >>> knows_itself(lambda variables: (0, 1, 0)).passed
    False
    """
    work = function_of(function)
    asked = "Rank, world size and local rank, whoever started the process; (0, 1, 0) where nobody did."
    draw = random.Random(0)
    cases: list[tuple[str, Mapping[str, str], tuple[int, int, int]]] = [
        ("nobody", {"LANG": "C.UTF-8"}, (0, 1, 0))
    ]
    for _ in range(8):
        for launcher, names in WHO.items():
            world = draw.randint(2, 32)
            right = (draw.randrange(world), world, draw.randrange(min(8, world)))
            cases.append(
                (launcher, {name: str(value) for name, value in zip(names, right, strict=True)}, right)
            )
    for launcher, variables, right in cases:
        given = outcome(work, dict(variables))
        if not is_same(given, right) and not is_same(given, list(right)):
            hint = "Without a launcher there is one process."
            if launcher in WHO:
                hint = f"Look for {', '.join(WHO[launcher])}."
            return Seen(False, f"Started by {launcher}, it gives {given!r} and not {right}.", asked, {}, hint)
    return Seen(
        True, "Right for torchrun, mpirun, srun and a process alone.", asked, {"cases": float(len(cases))}
    )


def time_on_the_wire(function: object) -> Seen:
    """Whether function(parameters, bytes_each, gbit, messages, latency_us) gives the ms that gradients take over a link.

    >>> time_on_the_wire(lambda parameters, bytes_each, gbit, messages, latency_us: 64.0).passed
    False
    """
    work = function_of(function)
    asked = "The time in ms, from the bits that travel and the latency of each message."
    draw = random.Random(0)
    cases = [(50e6, 4, 25.0, 1, 0.0), (50e6, 2, 100.0, 8, 20.0), (1e6, 4, 1.0, 200, 100.0)]
    cases += [
        (
            draw.uniform(1e5, 1e8),
            draw.choice((2, 4)),
            draw.choice((1.0, 10.0, 25.0, 100.0)),
            draw.randint(1, 300),
            draw.uniform(1, 90),
        )
        for _ in range(20)
    ]
    for parameters, bytes_each, gbit, messages, latency_us in cases:
        bits_ms = parameters * bytes_each * 8 / (gbit * 1e6)
        right = bits_ms + messages * latency_us / 1000
        given = outcome(work, parameters, bytes_each, gbit, messages, latency_us)
        if not is_near(given, right):
            link = f"{gbit:g} Gbit/s and {counted(messages, 'message')} of {latency_us:.3g} µs"
            saw = f"For {parameters / 1e6:.3g} million parameters of {bytes_each} bytes, {link} it gives {given}."
            return Seen(False, saw, asked, {}, _hint_for(given, bits_ms, right))
    return Seen(True, f"Right for {len(cases)} links.", asked, {"links": float(len(cases))})


def _hint_for(given: object, bits_ms: float, right: float) -> str:
    """The hint for the mistake that this number shows."""
    latency_ms = right - bits_ms
    if is_near(given, bits_ms / 8) or is_near(given, bits_ms / 8 + latency_ms):
        return "Networks are rated in bits, and a byte has eight."
    if is_near(given, bits_ms):
        return "Every message costs the latency once."
    return "That is in seconds." if is_near(given, right / 1000) else ""
