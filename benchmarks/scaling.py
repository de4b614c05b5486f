"""How a training scales, predicted and then measured: on the test beds, and beside the course's figures.

On each bed a rank trains alone; ranks measure all-reduces of four sizes between them, and a small training under DDP.
From these alone the speed-up of two ranks is predicted; then it is measured, in turns with one rank. All beds are on one machine:
hosts and nodes have a core each, and share its caches and memory. The model has not seen what it is held against. Two of the
beds are slowed down to 200 and to 50 Mbit a second, where the exchange is most of a step. `error` is the prediction by the
measurement, less 1. Of the course, the law is fitted to 1, 2 and 4 GPUs; 8 GPUs, and two machines, are predicted. The course
does not tell what joins its machines: 25 Gb Ethernet is assumed, and `200gb` says what a faster network would have given.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from typing import Any

import msgspec
from tests.clusters.trainings import opened

from accel.distributed.jobs.cluster import Cluster
from accel.distributed.jobs.job_ranks import JobRanks
from accel.distributed.ranks.rank_pool import run_function
from accel.distributed.scaling.calibration import ScalingLaw
from accel.distributed.scaling.forecast import Assumed, forecast
from accel.distributed.scaling.steps import StepWork
from accel.distributed.scaling.yardstick import yardstick_s
from accel.workbench.cluster_probe import probe_cluster
from accel.workbench.ddp_options import DdpOptions
from benchmarks.cluster_beds import Beds, cluster_beds
from benchmarks.machine_line import report

TURNS, BATCH, STEPS = 3, 32, 24
SETUP = f"""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
images, digits = torch.randn({BATCH * STEPS}, 1, 28, 28), torch.randint(0, 10, ({BATCH * STEPS},))
loader = DataLoader(TensorDataset(images, digits), batch_size={BATCH}, shuffle=True)
model = nn.Sequential(
    nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
CELL = """
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
"""
PARAMETERS = 1_630_090.0
BACKWARD_SHARE = 0.66  # of this network's step on one thread, by its profile
# Seconds of EfficientNet on CIFAR-10, 25 epochs, by A100 (the course's chapter 10), and on two machines of eight (chapter 11).
COURSE = {1: 707, 2: 393, 3: 276, 4: 208, 5: 172, 6: 142, 7: 122, 8: 109}
COURSE_TWO_MACHINES_S, STEPS_OF_COURSE = 64, 25 * 782
GRADIENTS_OF_COURSE_BYTES = 4 * 5.3e6  # EfficientNet-B0


def rate(cluster: Cluster) -> float:
    """Samples a second that all ranks train, their first step left out."""
    with opened(SETUP) as bench:
        result = bench.ranks.run(CELL, DdpOptions(n=cluster.ranks, threads=1, cluster=cluster))
        return result.samples_per_s


def one_rank(cluster: Cluster) -> Cluster:
    """The same launcher, one rank."""
    return msgspec.structs.replace(cluster, hosts=cluster.hosts[:1], nodes=1, ranks_per_node=1)


def predicted_and_measured(name: str, cluster: Cluster, turns: int) -> dict[str, Any]:
    """Of two ranks."""
    alone = [rate(one_rank(cluster))]
    work = StepWork(BATCH / alone[0], 4 * PARAMETERS, backward_share=BACKWARD_SHARE)
    (own_s,) = run_function(JobRanks(one_rank(cluster), threads=1, is_kept=False), yardstick_s)
    view = replace(probe_cluster(None, cluster, cluster.ranks), work=work, own_yardstick_s=own_s)
    middle, low, high = view.speed_up(2)
    both = [rate(cluster)]
    for _ in range(turns - 1):
        alone.append(rate(one_rank(cluster)))
        both.append(rate(cluster))
    measured = median(two / one for one, two in zip(alone, both, strict=True))
    return row(name, middle, (low, high), measured)


def row(name: str, predicted: float, interval: tuple[float, float], measured: float) -> dict[str, Any]:
    """One line of the table."""
    found = {
        "what": name, "predicted": round(predicted, 2), "low": round(min(interval), 2), "high": round(max(interval), 2),
        "measured": round(measured, 2), "error": round(predicted / measured - 1, 3),
    }  # fmt: skip
    print(json.dumps(found), file=sys.stderr, flush=True)
    return found


def of_course() -> Iterator[dict[str, Any]]:
    """Chapters 10 and 11."""
    law = ScalingLaw.fitted({ranks: COURSE[ranks] for ranks in (1, 2, 4)})
    for ranks in (3, 5, 6, 7, 8):
        speed_up = law.speed_up(ranks)
        yield row(f"chapter 10, {ranks} GPUs", speed_up, (speed_up, speed_up), COURSE[1] / COURSE[ranks])
    work = StepWork(COURSE[1] / STEPS_OF_COURSE, GRADIENTS_OF_COURSE_BYTES, spread=0.03)
    for network in ("25gb", "200gb"):
        two = forecast(work, (2,), Assumed(8, "nvlink", network, law=law)).rows[0]
        one = law.speed_up(8)
        yield row(
            f"chapter 11, two machines by one, {network}", two.speed_up / one, (two.low / one, two.high / one),
            COURSE[8] / COURSE_TWO_MACHINES_S,
        )  # fmt: skip


def of_beds(beds: Beds, turns: int, *, is_quick: bool) -> Iterator[dict[str, Any]]:
    """Each launcher, then the two hosts with a slower network between them."""
    for name, cluster in beds.clusters().items():
        yield predicted_and_measured(name, cluster, turns)
        if is_quick:
            return
    if "mpirun" in beds.clusters() and beds.hosts is not None:
        for mbit in (200, 50):
            beds.hosts.slow_down(mbit)
            yield predicted_and_measured(f"mpirun, {mbit} Mbit/s", beds.clusters()["mpirun"], turns)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="torchrun, one turn, and nothing is written")
    quick = arguments.parse_args().quick
    with cluster_beds() as beds:
        on_beds = list(of_beds(beds, 1 if quick else TURNS, is_quick=quick))
    chapters = list(of_course())
    held_out = [abs(each["error"]) for each in on_beds]
    figures = {
        "beds": len(on_beds), "largest_error_share": max(held_out), "median_error_share": median(held_out),
        "chapter_10_error_share": max(abs(each["error"]) for each in chapters[:5]),
        "two_machines_error_share": abs(chapters[5]["error"]), "measured_in_interval": sum(
            each["low"] <= each["measured"] <= each["high"] for each in on_beds
        ),
    }  # fmt: skip
    report("scaling", figures, is_full_run=not quick, rows=[*on_beds, *chapters], turns=1 if quick else TURNS)


if __name__ == "__main__":
    main()
