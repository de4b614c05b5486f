"""What watching the machine costs: CPU time of the sampling thread as a share of one core, and time of a training step.

`ours_2hz` is `accel.monitor()` at two samples a second, its usual rate: the CPU time of its thread, by the thread's own clock,
over the wall time, in percent of one core. `ours_2hz_children` is the same with four child processes that are watched as well.
`psutil_…` is the same sampler with the same samples, read by psutil instead of from files of /proc that stay open (where there is
no /proc, both are psutil). `panel_2hz` makes what a panel shows of each sample as well; sending it to a page is not in it. Each
figure is the median over rounds, in which all variants take turns in random order; `rounds` has them all.

`step_ratio` is the time of a training step with sampling at 2 Hz over that without, in blocks of steps by turns, with a 95 %
bootstrap interval; `step_ratio_same` is the same of two blocks without sampling: the noise of this machine.
`step_cpu_ratio` and `step_cpu_ratio_same` compare CPU time of the whole process, the sampling thread's included, instead of wall
time: other work on the machine disturbs it less.
"""

from __future__ import annotations

import argparse
import math
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from accel.accelerations.steady_allocator import use_steady_thresholds
from accel.machine.telemetry import Monitor, Sampler
from accel.machine.telemetry.counters import HostReader
from accel.machine.telemetry.proc_reader import ProcReader
from accel.machine.telemetry.psutil_reader import PsutilReader
from benchmarks.machine_line import report
from benchmarks.overhead import CELL, cnn_notebook, with_interval

RATES_HZ = (1, 2, 5)
CHILDREN = 4
SETTLE_S = 0.3
FEWEST_ROUNDS = 4


@contextmanager
def children(count: int) -> Iterator[None]:
    """Child processes that wait."""
    waiting = [
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(count)
    ]
    try:
        yield
    finally:
        for child in waiting:
            child.communicate(b"\n")


def percent_of_a_core(host: HostReader, rate_hz: float, seconds: float) -> float:
    """The cost of sampling for so long."""
    sampler = Sampler(every_s=1 / rate_hz, host=host)
    sampler.start()
    time.sleep(seconds)
    sampler.close()
    return 100 * sampler.cost


def percent_with_panel(rate_hz: float, seconds: float) -> float:
    """The cost with a panel that is sent each sample."""
    from accel_widgets.telemetry_panel import TelemetryPanel

    panel = TelemetryPanel(Monitor(every_s=1 / rate_hz))
    time.sleep(seconds)
    panel.close()
    assert panel.monitor is not None
    return 100 * panel.monitor.sampler.cost


def costs(*, rounds: int, seconds: float) -> dict[str, list[float]]:
    """Percent of one core of each variant, round by round."""
    readers: dict[str, Callable[[], HostReader]] = {"psutil": PsutilReader}
    readers["ours"] = ProcReader if Path("/proc/stat").exists() else PsutilReader
    variants: dict[str, tuple[int, Callable[[], float]]] = {
        "panel_2hz": (0, lambda: percent_with_panel(2, seconds))
    }
    for name, reader in readers.items():
        for rate in RATES_HZ:
            for count in (0, CHILDREN):
                label = f"{name}_{rate}hz{'_children' if count else ''}"
                variants[label] = (
                    count,
                    lambda reader=reader, rate=rate: percent_of_a_core(reader(), rate, seconds),
                )
    order, found = random.Random(0), {label: [] for label in sorted(variants)}  # type: dict[str, list[float]]
    for _ in range(rounds):
        for label in order.sample(sorted(variants), len(variants)):
            count, measure = variants[label]
            with children(count):
                time.sleep(SETTLE_S)
                found[label].append(measure())
    return found


def step_log_ratios(*, budget_s: float, blocks_s: float) -> dict[str, list[float]]:
    """Log of wall and of CPU seconds a step: with sampling over without, and without over without; in random order."""
    namespace = cnn_notebook()
    namespace["batches"] = list(namespace["batches"])[:20]
    code, order = compile(CELL, "<cell>", "exec"), random.Random(1)
    exec(code, namespace)

    def seconds_a_cell() -> tuple[float, float]:
        cells, begin, cpu_begin = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - begin < blocks_s:
            exec(code, namespace)
            cells += 1
        return (time.perf_counter() - begin) / cells, (time.process_time() - cpu_begin) / cells

    ratios: dict[str, list[float]] = {}
    until = time.monotonic() + budget_s
    while time.monotonic() < until or len(ratios.get("step_ratio", ())) < FEWEST_ROUNDS:
        seconds = {}
        for block in order.sample(["watched", "plain", "again"], 3):
            if block == "watched":
                with Monitor(every_s=0.5):
                    seconds[block] = seconds_a_cell()
            else:
                seconds[block] = seconds_a_cell()
        for name, clock in (("step_ratio", 0), ("step_cpu_ratio", 1)):
            plain_s = seconds["plain"][clock]
            ratios.setdefault(name, []).append(math.log(seconds["watched"][clock] / plain_s))
            ratios.setdefault(f"{name}_same", []).append(math.log(seconds["again"][clock] / plain_s))
    return ratios


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="under a minute, and nothing is written")
    quick = arguments.parse_args().quick
    use_steady_thresholds()
    measured = costs(rounds=1 if quick else 5, seconds=1.5 if quick else 4.0)
    figures = {f"{label}_percent_of_a_core": round(median(found), 4) for label, found in measured.items()}
    ratios = step_log_ratios(budget_s=10 if quick else 120, blocks_s=1.0 if quick else 2.0)
    for name, found in ratios.items():
        figures |= with_interval(name, found)
    spread = {label: [round(each, 4) for each in found] for label, found in measured.items()}
    report(
        "telemetry",
        figures,
        is_full_run=not quick,
        rounds=spread,
        pairs={name: len(found) for name, found in ratios.items()},
    )


if __name__ == "__main__":
    main()
