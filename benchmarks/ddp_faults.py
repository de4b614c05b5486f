"""Two hundred runs on ranks, each with a fault drawn at random: which rank is named, how soon, and what is left behind.

`right_rank` of `faults` named the rank that caused it. `seconds_p50` and `seconds_p95` are from the fault to the notebook's error
(a hang: from its timeout on). `left_…` count what there is more at the end than after the first run: processes, sockets, shared
memory of processes that are gone, temporary files, descriptors and threads of this process.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import tempfile
import threading
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import psutil
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from accel.distributed.cells.run_cell import CellRun
from accel.distributed.cells.run_options import RunOptions
from accel.distributed.ranks.rank_pool import RankPool
from accel.errors import AccelError
from benchmarks.machine_line import report

TIMEOUT_S = 2.0
CELL = """
for epoch in range(2):
    for step, (images, labels) in enumerate(loader):
        if (epoch, step) == when and torch.distributed.get_rank() == who:
            with open(when_file, "w") as file:
                file.write(repr(time.monotonic()))
            {fault}
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
"""
FAULTS = {
    "raises": "raise ValueError('the cause')",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "segmentation fault": "os.kill(os.getpid(), signal.SIGSEGV)",
    "out of memory": "bytearray(1 << 60)",
    "exits": "exit()",
    "ends": "os._exit(3)",
    "hangs": "time.sleep(600)",
    "no fault": "pass",
}


def notebook(draw: random.Random, when_file: str) -> dict[str, Any]:
    """What the cell reads, with the place and the rank of the fault."""
    import signal

    data = TensorDataset(torch.randn(96, 8), torch.randint(0, 4, (96,)))
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    return {
        "__name__": "__main__", "torch": torch, "os": os, "time": time, "signal": signal, "model": model, "when_file": when_file,
        "criterion": nn.CrossEntropyLoss(), "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "loader": DataLoader(data, batch_size=8), "when": (draw.randint(0, 1), draw.randint(0, 5)), "who": draw.randint(0, 1),
    }  # fmt: skip


def one_run(pool: RankPool, draw: random.Random, kind: str, folder: str) -> dict[str, Any]:
    """A run with this fault: whether the right rank was named, and the seconds until then."""
    when_file = Path(folder, "when")
    when_file.unlink(missing_ok=True)
    namespace = notebook(draw, str(when_file))
    named, said = None, ""
    try:
        CellRun(
            pool,
            CELL.format(fault=FAULTS[kind]),
            namespace,
            RunOptions(timeout_s=TIMEOUT_S),
            filename="<cell>",
        ).go()
    except AccelError as error:
        named, said = getattr(error, "rank", None), str(error)
    now = time.monotonic()
    seconds = now - float(when_file.read_text()) - (TIMEOUT_S if kind == "hangs" else 0.0)
    is_right = named is None if kind == "no fault" else named == namespace["who"]
    return {"kind": kind, "is_right": is_right, "seconds": seconds, "said": "" if is_right else said[-300:]}


def counted(folder: str) -> dict[str, int]:
    """What there is now of everything that a run could leave behind; ranks that are up are no leftovers."""
    gc.collect()
    own = psutil.Process()
    below = [each for each in own.children(recursive=True) if each.status() != psutil.STATUS_ZOMBIE]
    shared = Path("/dev/shm")
    names = [each.name.split("_") for each in shared.iterdir()] if shared.is_dir() else []
    numbers = [int(part) for parts in names for part in parts if part.isdigit()]
    return {
        "processes": len(below),
        "zombies": len(own.children()) - sum(each.ppid() == own.pid for each in below),
        "sockets": sum(len(each.net_connections("inet")) for each in (own, *below)),
        "shared_memory": sum(not psutil.pid_exists(number) for number in numbers),
        "files": len(os.listdir(folder)),
        "descriptors": own.num_fds(),
        "threads": threading.active_count(),
    }


def settled(pool: RankPool, folder: str) -> dict[str, int]:
    """The least that is counted over some warm runs: torch's own threads close their sockets a little later."""
    seen = []
    for _ in range(5):
        pool.run(gc.collect)
        seen.append(counted(folder))
    return {kind: min(each[kind] for each in seen) for kind in seen[0]}


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="eight runs, and nothing is written")
    quick = arguments.parse_args().quick
    draw, pool, runs = random.Random(6), RankPool(2, threads=1), []
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        tempfile.tempdir = folder
        try:
            one_run(pool, draw, "no fault", folder)
            before = settled(pool, folder)
            for number in range(8 if quick else 200):
                kinds = list(FAULTS)
                kind = kinds[number] if number < len(kinds) else draw.choice(kinds)
                runs.append(one_run(pool, draw, kind, folder))
            after = settled(pool, folder)
        finally:
            pool.close()
            tempfile.tempdir = None
    faults = [run for run in runs if run["kind"] != "no fault"]
    seconds = [run["seconds"] for run in faults]
    figures = {
        "runs": len(runs),
        "faults": len(faults),
        "right_rank": sum(run["is_right"] for run in faults),
        "well": sum(run["is_right"] for run in runs) - sum(run["is_right"] for run in faults),
        "seconds_p50": round(median(seconds), 3),
        "seconds_p95": round(quantiles(seconds, n=20)[-1], 3),
        **{f"left_{kind}": max(0, after[kind] - before[kind]) for kind in before},
    }
    by_kind = {
        kind: {"runs": len(own), "right": sum(run["is_right"] for run in own),
               "seconds_p50": round(median(run["seconds"] for run in own), 3)}
        for kind in FAULTS if (own := [run for run in runs if run["kind"] == kind])
    }  # fmt: skip
    wrong = [run for run in runs if not run["is_right"]]
    report("ddp_faults", figures, is_full_run=not quick, by_kind=by_kind, wrong=wrong)
    if wrong or any(after[kind] > before[kind] for kind in before):
        raise SystemExit("a wrong rank was named, or something was left behind")


if __name__ == "__main__":
    main()
