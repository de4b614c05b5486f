"""How fast ranks exchange data on CPUs: oneCCL against gloo, on 2 warm ranks with 1 thread each, in one run.

Both take turns in random order, round by round, and a ratio is that of a round's two medians: `times_faster_...` is gloo's time
over oneCCL's, the median over rounds, with the lowest and the highest (`..._low`, `..._high`); above 1 oneCCL is faster.
`all_reduce_N_mib` is one all-reduce of so many MiB of float32. `step_cnn` is a training step of the course's CNN under
`%%accel ddp` with 32 images a rank, `step_mlp` that of a net of 4.2 million parameters, which has much to exchange and little
to compute. `..._gloo_ms` and `..._ccl_ms` are medians over all rounds.

That both give the same sums is asserted in each round, and that both train the same parameters. Where oneCCL is not built
(`%accel oneccl --build`), `not_measured` says why, and there are no figures.
"""

from __future__ import annotations

import argparse
import random
from statistics import median
from typing import Any

from accel.distributed.cells.run_cell import CellRun
from accel.distributed.cells.run_options import RunOptions
from accel.distributed.oneccl.state import oneccl_here
from accel.distributed.ranks.rank_pool import RankPool, run_function
from benchmarks.machine_line import report

RANKS = 2
BACKENDS = ("gloo", "ccl")
SIZES_MIB = (1, 16, 64)
MAKE = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
images, labels = torch.randn({steps} * 64, 1, 28, 28), torch.randint(10, ({steps} * 64,))
model = {model}
criterion, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(images, labels), batch_size=64)
"""
MODELS = {
    "cnn": "__import__('accel.labs.models', fromlist=['CNN']).CNN()",
    "mlp": "nn.Sequential(nn.Flatten(), nn.Linear(784, 1536), nn.ReLU(), nn.Linear(1536, 1920), nn.ReLU(), nn.Linear(1920, 10))",
}
CELL = """
import time
times, began = [], time.perf_counter()
for batch, target in loader:
    optimizer.zero_grad()
    criterion(model(batch), target).backward()
    optimizer.step()
    now = time.perf_counter()
    times.append(now - began)
    began = now
"""
SETTLE = 3  # steps: DDP builds its buckets anew after the first


def all_reduce_ms(mebibytes: int, repeats: int) -> list[float]:
    """In a rank: milliseconds of each all-reduce; what it gives is checked each time."""
    import time

    import torch
    import torch.distributed as dist

    size, rank, times = mebibytes << 18, dist.get_rank(), []
    for repeat in range(repeats + 2):
        numbers = torch.full((size,), float(rank + repeat))
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(numbers)
        times.append(1e3 * (time.perf_counter() - began))
        assert bool(numbers.eq(sum(range(dist.get_world_size())) + dist.get_world_size() * repeat).all())
    return times[2:]


def step_ms(pool: RankPool, name: str, backend: str, steps: int) -> tuple[float, list[Any]]:
    """The median step of a cell, and the parameters that it trained."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(MAKE.format(steps=steps + SETTLE, model=MODELS[name]), namespace)
    options = RunOptions(batch="global", timeout_s=60.0)
    result = CellRun(pool, CELL, namespace, options, filename="<cell>", backend=backend).go()
    if result.backend != backend:
        raise SystemExit(f"not over {backend}: {' '.join(result.notes)}")
    return 1e3 * median(namespace["times"][SETTLE:]), list(namespace["model"].parameters())


def measured(pool: RankPool, *, rounds: int, repeats: int, steps: int) -> dict[str, dict[str, list[float]]]:
    """{what: {backend: one median a round}}."""
    import torch

    taken: dict[str, dict[str, list[float]]] = {}
    order = random.Random(0)
    for _ in range(rounds):
        for mebibytes in SIZES_MIB:
            for backend in order.sample(BACKENDS, 2):
                each = run_function(pool, all_reduce_ms, mebibytes, repeats, backend=backend)
                slowest = [max(times) for times in zip(*each, strict=True)]
                taken.setdefault(f"all_reduce_{mebibytes}_mib", {}).setdefault(backend, []).append(
                    median(slowest)
                )
        for name in MODELS:
            trained = {}
            for backend in order.sample(BACKENDS, 2):
                ms, trained[backend] = step_ms(pool, name, backend, steps)
                taken.setdefault(f"step_{name}", {}).setdefault(backend, []).append(ms)
            for one, other in zip(trained["gloo"], trained["ccl"], strict=True):
                torch.testing.assert_close(one, other)
    return taken


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="one short round, and nothing is written")
    quick = arguments.parse_args().quick
    state = oneccl_here()
    if not state.is_usable:
        report("oneccl", {}, is_full_run=False, not_measured=state.line)
        return
    pool = RankPool(RANKS, threads=1)
    try:
        taken = measured(
            pool, rounds=1 if quick else 9, repeats=5 if quick else 20, steps=10 if quick else 40
        )
    finally:
        pool.close()
    figures: dict[str, float] = {}
    for what, times in taken.items():
        ratios = [gloo / ccl for gloo, ccl in zip(times["gloo"], times["ccl"], strict=True)]
        figures |= {f"{what}_{backend}_ms": median(times[backend]) for backend in BACKENDS}
        name = f"times_faster_{what}"
        figures |= {name: median(ratios), f"{name}_low": min(ratios), f"{name}_high": max(ratios)}
    rounds = {
        what: {each: [round(ms, 4) for ms in times[each]] for each in BACKENDS}
        for what, times in taken.items()
    }
    report(
        "oneccl", {name: float(f"{value:.4g}") for name, value in figures.items()}, is_full_run=not quick, ranks=RANKS,
        threads_a_rank=1, rounds=rounds,
    )  # fmt: skip


if __name__ == "__main__":
    main()
