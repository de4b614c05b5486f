"""Checks of ranks: cores of their own, whether they meet, and whether one of them holds the others up."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from accel.distributed.cells.ddp_result import DdpResult
from accel.labs.exercises.seen import Figure, Seen, function_of, outcome, wrong_work
from accel.units import counted

SURE = 0.15  # of the threshold: as far as two runs of the same cell on a shared machine lie apart
LEAST_STEPS = 20
OF_A_RANK = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
ALLOWED = (*OF_A_RANK, "GLOO_SOCKET_IFNAME", "OMP_NUM_THREADS")
WAITS_S, GIVEN_UP_S = 15, 45

# Joins, adds up, and prints the sum, so that each rank shows that it was there.
MEET = f"""
import datetime, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds={WAITS_S}))
mine = torch.tensor([10.0 ** dist.get_rank()])
dist.all_reduce(mine)
print(dist.get_rank(), int(mine.item()))
dist.destroy_process_group()
"""


def cores_on_one_socket(function: object) -> Seen:
    """Whether function(socket_of, ranks, threads) gives each rank cores of its own on one socket; None where that cannot be.

    >>> cores_on_one_socket(lambda socket_of, ranks, threads: None).passed
    False
    """
    work = function_of(function)
    asked = (
        "A list of cores for each rank, none twice, all of one rank on one socket; None where that cannot be."
    )
    draw = random.Random(0)
    for trial in range(30):
        sockets, each = draw.randint(1, 3), draw.randint(1, 8)
        names = list(range(sockets * each))
        socket_of = {core: core % sockets if trial % 2 else core // each for core in names}
        ranks, threads = draw.randint(1, 6), draw.randint(1, 5)
        can_be = sockets * (each // threads) >= ranks
        given = outcome(work, dict(socket_of), ranks, threads)
        problem = _why_wrong(given, socket_of, ranks, threads) if can_be else _why_not_none(given)
        if problem:
            place = "in turn" if trial % 2 else "in a row"
            machine = f"{counted(sockets, 'socket')} of {counted(each, 'core')}, numbered {place}"
            return Seen(
                False,
                f"On {machine}, {counted(ranks, 'rank')} of {counted(threads, 'thread')}: {problem[0]}",
                asked,
                {},
                problem[1],
            )
    return Seen(True, "Right for 30 machines, numbered in both ways.", asked, {"machines": 30.0})


def _why_wrong(given: Any, socket_of: Mapping[int, int], ranks: int, threads: int) -> tuple[str, str] | None:
    """What is wrong with cores for each rank where they can be given, and a hint."""
    if given is None:
        return (
            "your function gives None, and it can be done.",
            "Fill one socket with as many ranks as fit, then the next.",
        )
    try:
        lists = [[int(core) for core in cores] for cores in given]
    except (TypeError, ValueError):
        return f"your function gives {given!r}.", "Give a list of lists: the cores of each rank."
    if len(lists) != ranks or any(len(cores) != threads for cores in lists):
        return (
            f"it gives {', '.join(str(len(cores)) for cores in lists)} cores.",
            "Each rank gets as many cores as threads.",
        )
    every = [core for cores in lists for core in cores]
    if len(set(every)) < len(every) or not set(every) <= set(socket_of):
        return (
            "a core is given twice, or is none of this machine's.",
            "Take a core off the list when you give it away.",
        )
    split = [rank for rank, cores in enumerate(lists) if len({socket_of[core] for core in cores}) > 1]
    if split:
        return (
            f"rank {split[0]} has cores of two sockets.",
            "Numbers are names: ask the dict on which socket a core is.",
        )
    return None


def _why_not_none(given: Any) -> tuple[str, str] | None:
    if given is None:
        return None
    return (
        "it cannot be done, and your function does not say so.",
        "A rank has to fit on a socket: count how many fit, and give None.",
    )


def ranks_meet(function: object, *, ranks: int) -> Seen:
    """Whether processes with the environments function(rank, ranks, port) meet and add up.

    >>> ranks_meet(lambda rank, ranks, port: {}, ranks=3).passed
    False
    """
    work = function_of(function)
    asked = f"{counted(ranks, 'process')} that find each other and add up."
    port = _free_port()
    given = [outcome(work, rank, ranks, port) for rank in range(ranks)]
    for rank, variables in enumerate(given):
        if not isinstance(variables, Mapping):
            return Seen(
                False,
                f"For rank {rank} your function gives {variables!r}.",
                asked,
                {},
                "Give a dict of variables.",
            )
        other = [str(name) for name in variables if name not in ALLOWED]
        if other:
            return Seen(
                False,
                f"You set {other[0]}.",
                asked,
                {},
                f"These are enough: {', '.join(ALLOWED[:2] + ALLOWED[4:6])}.",
            )
    numbers = [str(variables.get("RANK")) for variables in given]
    if len(set(numbers)) < ranks:  # known without waiting for the time-out of those that never meet
        return Seen(
            False,
            f"The processes have the ranks {', '.join(numbers)}.",
            asked,
            {},
            "Two processes with one rank: another rank is missing.",
        )
    said = _start([{str(name): str(value) for name, value in variables.items()} for variables in given])
    total = sum(10**rank for rank in range(ranks))
    there = [words for words in said if words.split()[-1:] == [str(total)]]
    if len(there) < ranks:
        first = next(words for words in said if words not in there)
        return Seen(
            False,
            f"{counted(len(there), 'process')} of {ranks} got the sum; another ended with: {first[:160]}",
            asked,
        )
    return Seen(True, f"All {ranks} got the sum {total}.", asked, {"ranks": float(ranks)})


def _start(environments: list[dict[str, str]]) -> list[str]:
    """Start a process for each environment; the last line that each of them said. None outlives the call."""
    kept = {name: value for name, value in os.environ.items() if name not in OF_A_RANK} | {
        "OMP_NUM_THREADS": "1"
    }
    until = time.monotonic() + GIVEN_UP_S
    said: list[str] = []
    started: list[subprocess.Popen[str]] = []
    try:
        for each in environments:
            words = [sys.executable, "-c", MEET]
            started.append(
                subprocess.Popen(
                    words, env=kept | each, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
            )
        for process in started:
            try:
                out, err = process.communicate(timeout=max(0.1, until - time.monotonic()))
                lines = (out if process.returncode == 0 else err).strip().splitlines()
                said.append(lines[-1] if lines else "nothing")
            except subprocess.TimeoutExpired:
                said.append("waiting for the others")
    except ValueError as error:  # a value that no environment can hold
        return [f"{type(error).__name__}: {error}"] * len(environments)
    finally:
        for process in started:
            process.kill()
            process.communicate()
    return said


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def even_ranks(run: object, *, most: float) -> Seen:
    """Whether in a run on several ranks the slowest has at most so many times the own work of the fastest, and rank 1 reports.

    >>> even_ranks(my_run, most=1.5).passed
    True
    """
    if not isinstance(run, DdpResult):
        raise wrong_work(
            "a run on ranks", f"this is of type {type(run).__name__}", "Pass what %%accel ddp -o NAME gives."
        )
    asked = (
        f"A step's own work of the slowest rank at most {most:g} times that of the fastest; rank 1 reports."
    )
    if len(run.ranks) < 2 or run.steps < LEAST_STEPS:
        saw = f"The run has {counted(len(run.ranks), 'rank')} and {counted(run.steps, 'step')}."
        return Seen(False, saw, asked, {}, f"Train on two ranks, for {LEAST_STEPS} steps at least.")
    own = [rank.own_ms for rank in run.ranks]
    ratio = max(own) / min(own)
    saw = f"Of a step, {', '.join(f'rank {at} works {ms:.0f} ms' for at, ms in enumerate(own))}: {ratio:.2f} times."
    figures: dict[str, Figure] = {"ratio": ratio, "steps": float(run.steps)}
    if not run.ranks[1].output.strip():
        return Seen(
            False,
            f"{saw} Rank 1 printed nothing.",
            asked,
            figures,
            "It still has to report, but not after every step.",
        )
    if abs(ratio - most) <= SURE * most:
        return Seen(
            False,
            saw,
            asked,
            figures,
            "That is too near to call with one run. Report less often, and run it again.",
        )
    return Seen(ratio <= most, saw, asked, figures)
