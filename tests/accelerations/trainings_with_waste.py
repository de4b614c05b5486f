"""The tiny training with something in it that nobody needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
from small_training import Training, training


@dataclass
class InAnomalyMode(Training):
    """Somebody looked for a NaN, and left the search on."""

    def workload(
        self, source="with torch.autograd.detect_anomaly():\n    train(model, loader, criterion, optimizer)"
    ):
        return super().workload(source)

    def epochs(self, count: int = 1) -> list[float]:
        with torch.autograd.set_detect_anomaly(True):
            return super().epochs(count)


def in_anomaly_mode(optimizer=torch.optim.Adam, steps_before: int = 0) -> InAnomalyMode:
    made = training(optimizer, steps_before)
    return InAnomalyMode(**made.namespace, built_by=partial(in_anomaly_mode, optimizer))


@dataclass
class UnderAutocast(Training):
    """Somebody wrote the loop for hardware with bfloat16."""

    def workload(
        self,
        source="with torch.autocast('cpu', dtype=torch.bfloat16):\n    train(model, loader, criterion, optimizer)",
    ):
        return super().workload(source)

    def epochs(self, count: int = 1) -> list[float]:
        torch.manual_seed(7)
        losses = []
        for _ in range(count):
            for images, targets in self.batches():
                self.optimizer.zero_grad()
                with torch.autocast(self.device.type, dtype=torch.bfloat16):
                    loss = self.criterion(self.model(images), targets)
                loss.backward()
                self.optimizer.step()
                losses.append(loss.item())
        return losses


def under_autocast(optimizer=torch.optim.Adam, steps_before: int = 0) -> UnderAutocast:
    made = UnderAutocast(**training(optimizer).namespace, built_by=partial(under_autocast, optimizer))
    if steps_before:
        made.epochs(steps_before)
    return made


@dataclass
class Validating(Training):
    """After each epoch the loss on the same data in eval mode, with gradients on; it is among the losses."""

    def epochs(self, count: int = 1) -> list[float]:
        losses = []
        for _ in range(count):
            losses += super().epochs()
            self.model.eval()
            losses += [
                self.criterion(self.model(images), targets).item() for images, targets in self.batches()
            ]
            self.model.train()
        return losses


def validating(optimizer=torch.optim.Adam, steps_before: int = 0) -> Validating:
    made = training(optimizer, steps_before)
    return Validating(**made.namespace, built_by=partial(validating, optimizer))


@dataclass
class ClearingToZeros(Training):
    """The loop as it was written before torch 2.0: gradients are filled with zeros."""

    def workload(self, source="train(model, loader, criterion, optimizer)"):
        return replace(super().workload(source), clears_to_zeros=True)

    def epochs(self, count: int = 1) -> list[float]:
        torch.manual_seed(7)
        losses = []
        for _ in range(count):
            for images, targets in self.batches():
                self.optimizer.zero_grad(set_to_none=False)
                loss = self.criterion(self.model(images), targets)
                loss.backward()
                self.optimizer.step()
                losses.append(loss.item())
        return losses


def clearing_to_zeros(optimizer=torch.optim.Adam, steps_before: int = 0) -> ClearingToZeros:
    made = ClearingToZeros(**training(optimizer).namespace, built_by=partial(clearing_to_zeros, optimizer))
    if steps_before:
        made.epochs(steps_before)
    return made
