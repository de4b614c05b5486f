"""How fast, and in how much memory, is a trace of a million events read?

    python -m benchmarks.trace_reading [--quick] [--peers FOLDER]

One run of the course's CNN is recorded until a million events are there; torch exports it (some 250 MB). In the recording
process, `events()` + `key_averages()` are timed next to accel's raw path (columns, phases, table of operations) on that same
run. Then each reader of the file has a fresh process, in turns and random order: accel to the finished report as text and
HTML, `json.load`, `orjson.loads`, and HolisticTraceAnalysis' `TraceAnalysis`. json and orjson only load: no report yet.

Seconds are of the CPU, children included, so that other work on the machine counts little. Memory is the process's own
high-water mark (VmHWM, where the system has it, else ru_maxrss, which counts the process that started it too) less what it
held after imports.

HolisticTraceAnalysis and orjson are no dependencies. Install them apart and name the folder, else they are left out:

    pip install --target FOLDER HolisticTraceAnalysis orjson

Figures: `times_faster_than_hta`, `times_faster_than_key_averages`, `peak_rss_over_file` (accel's memory over the file's
size), and `times_faster_than_json` and `…_orjson`: medians over three rounds, but `key_averages`, which torch computes once a
run; `rounds` in the result holds all of them.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine_line import report

EVENTS, QUICK_EVENTS = 1_000_000, 60_000
ROUNDS, QUICK_ROUNDS = 3, 1
READERS = ("accel", "json", "orjson", "hta")
MODULES = {"orjson": "orjson", "hta": "hta"}
PACKAGES = {"orjson": "orjson", "hta": "HolisticTraceAnalysis"}


def main() -> None:
    arguments = _arguments()
    if arguments.child:
        sys.stdout.write(json.dumps(_child(arguments.child, arguments)) + "\n")
        return
    events, rounds = (QUICK_EVENTS, QUICK_ROUNDS) if arguments.quick else (EVENTS, ROUNDS)
    with tempfile.TemporaryDirectory() as folder:
        arguments.trace = str(Path(folder) / "trace.json")
        arguments.events = events
        recorded = _start("record", arguments)
        left_out = {name: why for name in READERS if (why := _why_not(name, arguments.peers))}
        turns = [
            {name: _start(name, arguments) for name in random.sample(present, len(present))}
            for present in [[name for name in READERS if name not in left_out]] * rounds
        ]
        size = Path(arguments.trace).stat().st_size
    report(
        "trace_reading",
        _figures(recorded, turns, size),
        is_full_run=not arguments.quick,
        events=recorded["events"],
        file_bytes=size,
        rounds={"in_process": recorded, "readers": turns},
        left_out=left_out,
        peers={name: _version(name, arguments.peers) for name in PACKAGES if name not in left_out},
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="60,000 events, one round; nothing is written")
    parser.add_argument("--peers", help="a folder with HolisticTraceAnalysis and orjson in it")
    for name in ("--child", "--trace", "--events"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    return parser.parse_args()


def _start(child: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run one side in a fresh process; peers see their own packages, accel its own."""
    options = ["--child", child, "--trace", arguments.trace, "--events", str(arguments.events)]
    environment = dict(os.environ)
    if child in PACKAGES:
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [arguments.peers, environment.get("PYTHONPATH")])
        )
    command = [sys.executable, "-m", "benchmarks.trace_reading", *options]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if ran.returncode:
        raise SystemExit(f"{child} failed:\n{ran.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    sys.stderr.write(f"{child}: {result}\n")
    return result


def _why_not(name: str, peers: str | None) -> str:
    if (
        name not in MODULES
        or importlib.util.find_spec(MODULES[name])
        or (peers and (Path(peers) / MODULES[name]).is_dir())
    ):
        return ""
    return f"{PACKAGES[name]} is not installed; see --help"


def _version(name: str, peers: str | None) -> str:
    if peers:
        sys.path.insert(0, peers)
    try:
        return version(PACKAGES[name])
    except PackageNotFoundError:
        return "unknown"


def _child(side: str, arguments: argparse.Namespace) -> dict[str, Any]:
    if side == "record":
        return _record(Path(arguments.trace), int(arguments.events))
    read = {"accel": _accel, "json": _json, "orjson": _orjson, "hta": _hta}[side]()
    before_bytes = _resident_bytes()
    seconds, wall_s = _timed(lambda: read(arguments.trace))
    return {"cpu_s": seconds, "wall_s": wall_s, "peak_bytes": _peak_bytes() - before_bytes}


def _accel() -> Callable[[str], Any]:
    import numpy  # noqa: F401 -- imports are not what is measured

    import accel
    import accel.traces.reading_ranks
    import accel.views.profile.report

    def read(path: str) -> Any:
        found = accel.open_trace(path)
        return found, found._repr_mimebundle_()

    return read


def _json() -> Callable[[str], Any]:
    def read(path: str) -> Any:
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    return read


def _orjson() -> Callable[[str], Any]:
    import orjson

    return lambda path: orjson.loads(Path(path).read_bytes())


def _hta() -> Callable[[str], Any]:
    from hta.trace_analysis import TraceAnalysis

    return lambda path: TraceAnalysis(trace_files={0: path}, trace_dir=str(Path(path).parent))


def _record(path: Path, events: int) -> dict[str, Any]:
    """One run: recorded, exported, read by torch and by accel."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from accel.profiling.kineto_columns import read_columns
    from accel.profiling.op_table import read_op_table
    from accel.profiling.profiled_events import read_events

    step = _training_step()
    step()  # the first makes the optimizer's state, which takes operations of its own
    with profile(activities=[ProfilerActivity.CPU]) as short:
        for _ in range(3):
            step()
    per_step = len(short.profiler.kineto_results.events()) / 3
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(int(events / per_step) + 1):
            step()
    profiler.export_chrome_trace(str(path))
    results = profiler.profiler.kineto_results
    ours = lambda: read_op_table(read_events(read_columns(results.events())))
    raw_s = [_timed(ours)[0] for _ in range(3)]
    torch_s, _ = _timed(lambda: profiler.key_averages())  # builds events() first
    return {
        "events": len(results.events()),
        "raw_cpu_s": raw_s,
        "key_averages_cpu_s": torch_s,
        "torch": torch.__version__,
    }


def _training_step() -> Callable[[], None]:
    import torch
    from torch import nn

    from accel.labs.models import CNN

    torch.set_num_threads(1)
    model, criterion = CNN(), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    images, labels = torch.randn(2, 1, 28, 28), torch.randint(0, 10, (2,))

    def step() -> None:
        optimizer.zero_grad()
        criterion(model(images), labels).backward()
        optimizer.step()

    return step


def _timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of CPU and of the clock."""
    cpu, wall = _cpu_s(), time.perf_counter()
    kept = work()  # freeing the result is not part of reading
    seconds = _cpu_s() - cpu, time.perf_counter() - wall
    del kept
    return seconds


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _peak_bytes() -> int:
    return _status_bytes("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _resident_bytes() -> int:
    return _status_bytes("VmRSS") or _peak_bytes()


def _status_bytes(key: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:")), 0)


def _figures(recorded: dict[str, Any], turns: list[dict[str, Any]], size: int) -> dict[str, float]:
    figures = {
        "times_faster_than_key_averages": recorded["key_averages_cpu_s"] / median(recorded["raw_cpu_s"]),
        "peak_rss_over_file": median(turn["accel"]["peak_bytes"] for turn in turns) / size,
        "accel_cpu_s": median(turn["accel"]["cpu_s"] for turn in turns),
    }
    for name in ("hta", "json", "orjson"):
        if name in turns[0]:
            ratios = [turn[name]["cpu_s"] / turn["accel"]["cpu_s"] for turn in turns]
            figures[f"times_faster_than_{name}"] = median(ratios)
            figures[f"peak_rss_over_file_{name}"] = median(turn[name]["peak_bytes"] for turn in turns) / size
    return {name: round(value, 3) for name, value in figures.items()}


if __name__ == "__main__":
    main()
