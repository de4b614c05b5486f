"""What taking filters out of the course's CNN costs and gains: the sparsity table of the course's sixth chapter, on digits.

    python -m benchmarks.pruning [--quick]

Digits at 3×32×32, Adam, batches of 64. For each seed one model is trained a warm-up epoch; each sparsity goes on from a
copy of it, pruned by the entry `prune` (L1 norm of the filters). All copies train the epochs that follow in turns, in an
order drawn anew for each, so that a slow moment of the machine meets them all. `seconds_at_<percent>` is the median epoch,
`speedup_at_<percent>` the ratio of unpruned to pruned epochs with its interval over seeds, `accuracy_at_<percent>` the mean
over seeds on the 197 digits held out, after the last epoch, and the lowest and highest of them. Choosing the filters is
not in the seconds; it comes once, and takes `choosing_seconds`. The process runs under a steady allocator, as after
`%accel keep steady_allocator`.
"""

from __future__ import annotations

import argparse
import copy
import random
import statistics
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from accel.accelerations.prune import Prune
from accel.accelerations.steady_allocator import use_steady_thresholds
from accel.measuring.interval import STEADY_NOISE, interval, paired_log_ratios
from accel.workload import Replica
from benchmarks.machine_line import report

if TYPE_CHECKING:
    import torch

PERCENTS = (0, 10, 20, 30, 40, 50, 60, 70, 80)
REFERENCE = {  # seconds and accuracy of ten epochs on CIFAR-10, by the course's author on a machine of his own
    0: (122, 0.4710), 10: (118, 0.4726), 20: (113, 0.4584), 30: (107, 0.4466), 40: (100, 0.4518),
    50: (89, 0.4271), 60: (84, 0.4190), 70: (81, 0.4084), 80: (76, 0.3887),
}  # fmt: skip
BATCH, LEARNING_RATE = 64, 1e-4


@dataclass
class Pruned:
    """One sparsity and what was measured of it, by seed."""

    percent: int
    parameters: int = 0
    choosing_s: list[float] = field(default_factory=list)
    epochs_s: list[list[float]] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)


class Training:
    """A model with its optimizer, over standardised digits that lie ready."""

    def __init__(self, model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor) -> None:
        import torch

        self.model, self.images, self.labels = model, images, labels
        self.optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)

    def copy(self) -> Training:
        """The same point of the training, to go on from in another way."""
        other = Training(copy.deepcopy(self.model), self.images, self.labels)
        other.optimizer.load_state_dict(copy.deepcopy(self.optimizer.state_dict()))
        return other

    def epoch(self, order: torch.Tensor) -> float:
        """Train one epoch in that order of the images; returns its seconds."""
        import torch

        began = time.perf_counter()
        for batch in order.split(BATCH):
            self.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.model(self.images[batch]), self.labels[batch])
            loss.backward()
            self.optimizer.step()
        return time.perf_counter() - began


def digits(train: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The digits as floats at 3×32×32, standardised."""
    from accel.labs.datasets import load_dataset

    found = load_dataset("digits", train=train, shape=(3, 32, 32))
    return (found.images.float() - found.mean) / found.deviation, found.labels


def run_seed(seed: int, epochs: int, batches: int | None, found: list[Pruned]) -> None:
    """Warm up one model, then train a copy for each sparsity, epoch by epoch in turns."""
    import torch

    from accel.labs.models import CNN

    torch.manual_seed(seed)
    known = None if batches is None else batches * BATCH
    images, labels = (tensor[:known] for tensor in digits(train=True))
    held_out, answers = digits(train=False)
    warm = Training(CNN(channels=3, size=32), images, labels)
    warm.epoch(torch.randperm(len(images)))
    with ExitStack() as stack:
        trainings = {}
        for one in found:
            training = trainings[one.percent] = warm.copy()
            if one.percent:
                entry = Prune(sparsity=one.percent / 100)
                stack.enter_context(entry.apply(Replica(models={"model": training.model})))
                began = time.perf_counter()
                with torch.no_grad():
                    training.model(images[:BATCH])
                one.choosing_s.append(time.perf_counter() - began)
            one.parameters = sum(parameter.numel() for parameter in training.model.parameters())
            one.epochs_s.append([])
        draw = random.Random(seed)
        for _ in range(epochs):
            order = torch.randperm(len(images))
            for one in draw.sample(found, len(found)):
                one.epochs_s[-1].append(trainings[one.percent].epoch(order))
        for one in found:
            with torch.no_grad():
                right = trainings[one.percent].model.eval()(held_out).argmax(1) == answers
            one.accuracies.append(right.double().mean().item())


def figures_of(found: list[Pruned]) -> dict[str, float]:
    """The table as flat figures."""
    figures: dict[str, float] = {}
    whole = found[0]
    for one in found:
        at = f"_at_{one.percent}"
        figures[f"parameters{at}"] = one.parameters
        figures[f"seconds{at}"] = round(statistics.median(s for epochs in one.epochs_s for s in epochs), 4)
        if one.percent:
            pairs = zip(whole.epochs_s, one.epochs_s, strict=True)
            speedup = interval([paired_log_ratios(a, b) for a, b in pairs], STEADY_NOISE)
            for name, value in (("", speedup.ratio), ("_low", speedup.low), ("_high", speedup.high)):
                figures[f"speedup{at}{name}"] = round(value, 3)
        figures[f"accuracy{at}"] = round(statistics.mean(one.accuracies), 4)
        figures[f"accuracy{at}_low"] = round(min(one.accuracies), 4)
        figures[f"accuracy{at}_high"] = round(max(one.accuracies), 4)
        figures[f"reference_seconds{at}"], figures[f"reference_accuracy{at}"] = REFERENCE[one.percent]
    choosing = [seconds for one in found for seconds in one.choosing_s]
    figures["choosing_seconds"] = round(statistics.median(choosing), 3)
    return figures


def as_table(figures: dict[str, float]) -> str:
    """The table as Markdown, with the course's own figures next to ours."""
    lines = [
        "| filters out | parameters | s/epoch | speed-up | accuracy, held out | reference: 10 epochs of CIFAR-10 |",
        "|---|---|---|---|---|---|",
    ]
    for percent in PERCENTS:
        at = f"_at_{percent}"
        speedup = "×1"
        if percent:
            low, high = (figures[f"speedup{at}_{end}"] for end in ("low", "high"))
            speedup = f"×{figures[f'speedup{at}']:.2f} [{low:.2f}, {high:.2f}]"
        accuracy, lowest, highest = (100 * figures[f"accuracy{at}{end}"] for end in ("", "_low", "_high"))
        seconds, reference = REFERENCE[percent]
        lines.append(
            f"| {percent} % | {figures[f'parameters{at}']:,.0f} | {figures[f'seconds{at}']:.2f} | {speedup} "
            f"| {accuracy:.1f} % [{lowest:.1f}, {highest:.1f}] | {seconds} s, {100 * reference:.2f} % |"
        )
    return "\n".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--quick", action="store_true", help="one seed, two epochs of eight batches; nothing is written"
    )
    quick = arguments.parse_args().quick
    seeds, epochs = (1, 2) if quick else (5, 10)
    use_steady_thresholds()
    found = [Pruned(percent) for percent in PERCENTS]
    for seed in range(seeds):
        run_seed(seed, epochs, 8 if quick else None, found)
        sys.stderr.write(f"seed {seed + 1} of {seeds}\n")
    figures = figures_of(found)
    sys.stdout.write(as_table(figures) + "\n")
    details: dict[str, Any] = {
        "seeds": seeds, "epochs": epochs, "batch": BATCH, "learning_rate": LEARNING_RATE,
        "epoch_seconds": {one.percent: [[round(s, 4) for s in seed] for seed in one.epochs_s] for one in found},
        "accuracies": {one.percent: one.accuracies for one in found},
    }  # fmt: skip
    report("pruning", figures, is_full_run=not quick, **details)


if __name__ == "__main__":
    main()
