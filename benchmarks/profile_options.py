"""What each option of `%%accel profile` costs: the profiled steps of the course's CNN over the same steps run plainly.

One process, one model. In each round every variant has a turn, in random order: the cell as written, and the cell as a
profile runs it with no option, with one, and with all. A turn is two steps that are not timed and five that are, as a
profile itself has two for warm-up and five. Ratios are medians over rounds with a 95 % bootstrap interval.

Times are CPU time of the process, with one thread: what the profiler adds is work of that thread, and wall time on a
machine that others use too would hide it in minutes of noise.

`after_ms_…` is what follows the profiled steps once: stopping the profiler and making the report of seven steps. Only the
profiled steps pay a ratio; later steps of a cell run free of the profiler (see `benchmarks.overhead`).
"""

from __future__ import annotations

import argparse
import ast
import linecache
import math
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median
from typing import Any

from accel.machine import read_machine
from accel.profiling.profile import build_profile
from accel.profiling.profile_options import ProfileOptions
from accel.profiling.profiled_window import ProfiledWindow
from accel.profiling.synchronisations import SynchronisationWatch
from accel.workload import CellCapture
from benchmarks.machine_line import report
from benchmarks.overhead import CELL, cnn_notebook, stepwise, with_interval

STAYS_OPEN = 1000  # steps: the turn ends before the window would close itself
FEWEST_ROUNDS = 8
VARIANTS: dict[str, dict[str, bool]] = {
    "no_option": {},
    "shapes": {"shapes": True},
    "stacks": {"stacks": True},
    "memory": {"memory": True},
    "all": {"shapes": True, "stacks": True, "memory": True},
}


def seconds_a_step(loop: Iterator[None], *, settle: int = 2, timed: int = 5) -> float:
    """Mean CPU time of some steps, after some that are not timed."""
    for _ in range(settle):
        next(loop)
    began = time.process_time()
    for _ in range(timed):
        next(loop)
    return (time.process_time() - began) / timed


def plain_turn(steps: Any) -> float:
    """Seconds a step of the cell as written."""
    loop = steps()
    seconds = seconds_a_step(loop)
    loop.close()
    return seconds


def profiled_turn(steps: Any, namespace: dict[str, Any], options: ProfileOptions) -> tuple[float, float]:
    """Seconds a step under the profiler, and seconds from there to the report."""
    capture = CellCapture(CELL, CELL, namespace)
    window = ProfiledWindow(capture.marks, options)
    with ExitStack() as stack:
        stack.enter_context(capture)
        SynchronisationWatch().install(capture.marks.patches)
        stack.enter_context(window)
        loop = steps()
        seconds = seconds_a_step(loop)
        began = time.process_time()
        window.close()
        loop.close()
    workload, recording = capture.finish()
    str(build_profile(recording, window, workload, read_machine()))
    return seconds, time.process_time() - began


def rounds(
    namespace: dict[str, Any], *, budget_s: float
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Log of profiled over plain step time by variant, round by round; and other times of the same rounds, in ms."""
    plain = stepwise(ast.parse(CELL), namespace)
    watched = stepwise(CellCapture(CELL, CELL, namespace).transform(ast.parse(CELL)), namespace)
    linecache.cache["<cell>"] = (
        len(CELL),
        None,
        CELL.splitlines(keepends=True),
        "<cell>",
    )  # a user's own code
    ratios: dict[str, list[float]] = {name: [] for name in VARIANTS}
    times_ms: dict[str, list[float]] = {name: [] for name in (*VARIANTS, "plain")}
    order, until, count = random.Random(0), time.monotonic() + budget_s, -1
    while time.monotonic() < until or count < FEWEST_ROUNDS:
        seconds: dict[str, float] = {}
        for name in order.sample([*VARIANTS, "plain"], len(VARIANTS) + 1):
            if name == "plain":
                seconds[name] = plain_turn(plain)
                times_ms[name].append(1e3 * seconds[name])
            else:
                options = ProfileOptions(steps=STAYS_OPEN, **VARIANTS[name])
                seconds[name], after_s = profiled_turn(watched, namespace, options)
                times_ms[name].append(1e3 * after_s)
        count += 1
        for name in VARIANTS if count else ():  # the first profile of a process loads the profiler itself
            ratios[name].append(math.log(seconds[name] / seconds["plain"]))
    return ratios, times_ms


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="half a minute, and nothing is written")
    quick = arguments.parse_args().quick
    import torch

    torch.set_num_threads(1)
    ratios, times_ms = rounds(cnn_notebook(), budget_s=10 if quick else 200)
    figures: dict[str, float] = {}
    for name, logs in ratios.items():
        figures |= with_interval(f"ratio_{name}", logs)
        figures[f"after_ms_{name}"] = round(median(times_ms[name]), 1)
    figures["plain_step_ms"] = round(median(times_ms["plain"]), 3)
    report("profile_options", figures, is_full_run=not quick, rounds=len(ratios["all"]))


if __name__ == "__main__":
    main()
