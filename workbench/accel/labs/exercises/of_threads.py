"""Checks of threads: where those of a fresh process sit, and which logical CPUs share a core."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from accel.errors import AccelError
from accel.labs.exercises.seen import Figure, Seen, function_of, outcome, wrong_work
from accel.machine.cpu import read_cpu
from accel.machine.cpu_lists import parse_cpu_list
from accel.units import counted

TIMEOUT_S = 60
SAFE = ("OMP_", "GOMP_", "KMP_")  # what an environment of this exercise may set

# Runs a product with all threads, then reads the CPUs that each thread of the process may use.
LOOK = """
import glob, json, os, torch
a = torch.randn(512, 512)
for _ in range(5): a @ a; (a + a).sum()
masks = []
for path in glob.glob("/proc/self/task/*/status"):
    lines = dict(line.split(":", 1) for line in open(path).read().splitlines() if ":" in line)
    masks.append(lines["Cpus_allowed_list"].strip())
print(json.dumps({"threads": torch.get_num_threads(), "masks": masks}))
"""


def bound_threads(variables: object, threads: object) -> Seen:
    """Whether a process with these variables has so many threads, each on a core of its own.

    >>> bound_threads({"OMP_NUM_THREADS": "2", "OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}, 2).passed
    True
    """
    if not isinstance(variables, Mapping) or not isinstance(threads, int):
        raise wrong_work(
            "an environment",
            "it needs a dict and a number",
            "Pass {variable: value} and the number of threads.",
        )
    asked = f"{counted(threads, 'thread')}, each on a core of its own."
    other = [name for name in variables if not str(name).startswith(SAFE)]
    if other:
        return Seen(
            False, f"You set {other[0]}.", asked, {}, "Set variables of OpenMP only: OMP_…, GOMP_… or KMP_…."
        )
    found = _look({str(name): str(value) for name, value in variables.items()})
    if isinstance(found, str):
        return Seen(False, f"A process with these variables ends: {found}", asked)
    if not found["masks"]:
        raise AccelError(
            "This check reads where threads may run", because="there is no /proc here", do="Try it on Linux."
        )
    own = _on_one_core(found["masks"])
    figures: dict[str, Figure] = {"threads": float(found["threads"]), "bound": float(len(own))}
    saw = f"torch uses {counted(found['threads'], 'thread')}; {counted(len(own), 'core')} of its own for a thread."
    if found["threads"] != threads:
        return Seen(False, saw, asked, figures, "How many threads a region has is a variable of its own.")
    hint = "Threads that may run anywhere are moved. Say that they stay, and that a place is a core."
    return Seen(len(own) >= threads, saw, asked, figures, hint)


def _on_one_core(masks: Iterable[str]) -> set[frozenset[int]]:
    """The places among these lists of CPUs: a logical CPU, or all those of one core, as OMP_PLACES=cores says."""
    cores, places = _cores(), set()
    for mask in masks:
        cpus = frozenset(parse_cpu_list(mask))
        if len(cpus) == 1 or any(cpus <= core for core in cores):
            places.add(cpus)
    return places


def _cores() -> tuple[frozenset[int], ...]:
    """The logical CPUs of each core."""
    return tuple(map(frozenset, read_cpu().cores))


def _look(variables: Mapping[str, str]) -> dict[str, Any] | str:
    """What the process reports, or why it ended."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(SAFE)}
    command = [sys.executable, "-c", LOOK]
    try:
        run = subprocess.run(
            command, env=kept | dict(variables), capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except (
        subprocess.TimeoutExpired,
        ValueError,
        OSError,
    ) as error:  # too many threads, or a value that none can be
        return f"{type(error).__name__}: {error}"[:160]
    if run.returncode:
        return (run.stderr.strip().splitlines() or ["it gave no reason"])[-1]
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def one_cpu_a_core(function: object) -> Seen:
    """Whether function(core_of_cpu, threads) → logical CPUs, as many as threads, no two on one core; None if there are too few.

    >>> one_cpu_a_core(lambda core_of_cpu, threads: list(core_of_cpu)[:threads]).passed
    False
    """
    work = function_of(function)
    asked = "As many logical CPUs as threads, no two of them on one physical core; None where there are too few cores."
    draw = random.Random(0)
    for trial in range(20):
        cores = draw.randint(1, 6)
        cpus = [(number, number % cores if trial % 2 else number // 2) for number in range(2 * cores)]
        draw.shuffle(cpus)
        core_of = dict(cpus)
        for threads in (1, cores, cores + 1):
            given = outcome(work, dict(core_of), threads)
            saw = f"For {core_of} and {counted(threads, 'thread')} your function gives {given!r}."
            if threads > cores:
                if given is not None:
                    return Seen(
                        False, saw, asked, {}, "There are fewer physical cores than threads: give None."
                    )
                continue
            if (
                not isinstance(given, (list, tuple, set))
                or any(each not in list(core_of) for each in given)
                or len(set(given)) != threads
            ):
                return Seen(False, saw, asked, {}, "Give the numbers of logical CPUs, one for each thread.")
            if len({core_of[cpu] for cpu in given}) < threads:
                return Seen(
                    False,
                    saw,
                    asked,
                    {},
                    "Two of these share a core. Take a CPU only if its core has none yet.",
                )
    return Seen(True, "Right for machines of 1 to 6 cores, numbered in both ways.", asked, {"machines": 20.0})
