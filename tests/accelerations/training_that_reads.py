"""The tiny training in a function of an earlier cell, which adds up its losses and collects them as it goes."""

from __future__ import annotations

import linecache
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from small_training import Training, training

from accel.workload import Replica
from accel.workload.read_backs import ReadBack
from accel.workload.training_code import training_codes

FILENAME = "<accel cell that reads>"
SOURCE = """\
def run_epoch(model, optimizer, loader, criterion):
    total, right, losses = 0.0, 0, []
    for images, targets in loader:
        optimizer.zero_grad()
        output, targets = model(images.to(device)), targets.to(device)
        loss = criterion(output, targets)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(images)
        right += (output.argmax(1) == targets).sum().item()
        losses.append(loss.item())
    return [*losses, total, right]
"""
# As a profile on a GPU would have them; that the tensors lie on the CPU here changes nothing of what is done to the lines.
READS = (
    ReadBack(FILENAME, 9, "float", "cuda:0"),
    ReadBack(FILENAME, 10, "int", "cuda:0"),
    ReadBack(FILENAME, 11, "float", "cuda:0"),
)


@dataclass
class ReadingTraining(Training):
    """Its notebook is one dictionary, in which code may define the function anew."""

    names: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        linecache.cache[FILENAME] = (len(SOURCE), None, SOURCE.splitlines(True), FILENAME)
        own = {name: vars(self)[name] for name in ("model", "optimizer", "loader", "criterion")}
        self.names |= own | {"__name__": "__main__", "device": "cpu"}
        exec(compile(SOURCE, FILENAME, "exec"), self.names)

    def on(self, device: str) -> Training:
        self.names["device"] = device
        return super().on(device)

    @property
    def namespace(self):
        return self.names

    def replica(self) -> Replica:
        return replace(
            super().replica(), codes=training_codes(self.names, ["run_epoch"], "<cell>", "", READS)
        )

    def workload(self, source="run_epoch(model, optimizer, loader, criterion)"):
        found = super().workload(source)
        return replace(found, namespace=self.names, reads=("run_epoch",), reads_back=READS)

    def epochs(self, count: int = 1) -> list[float]:
        """Of each epoch the losses, their sum over samples, and how many answers were right."""
        torch.manual_seed(7)
        found: list[float] = []
        for _ in range(count):
            found += self.names["run_epoch"](self.model, self.optimizer, self.loader, self.criterion)
        return found


def training_that_reads(optimizer=torch.optim.Adam, steps_before: int = 0) -> ReadingTraining:
    plain = training(optimizer)
    made = ReadingTraining(
        plain.model,
        plain.optimizer,
        plain.loader,
        plain.criterion,
        built_by=partial(training_that_reads, optimizer),
    )
    if steps_before:
        made.epochs(steps_before)
    return made


def with_its_own_code(made: ReadingTraining) -> None:
    """The function as its user wrote it."""
    code = compile(SOURCE, FILENAME, "exec").co_consts[0]
    made.names["run_epoch"].__code__ = code
