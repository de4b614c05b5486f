"""Numbers that each rank counted on its own part of the data are named, with their sum and mean; equal ones are not."""

from __future__ import annotations

import pytest

from accel.distributed.cells.values_of_ranks import RankValues, line_of
from accel.distributed.ranks.rank_pool import RankPool
from tests.distributed.cells import TRAIN, alone, on_ranks

EARLIER = """
import time
import numpy as np
class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0
    def update(self, value):
        self.sum += value
        self.count += 1
meter, history, sizes = Meter(), {"loss": [], "lr": []}, []
"""
COUNTED = """
began, running_loss, correct, n, new = time.time(), 0.0, 0, 0, Meter()
for inputs, labels in loader:
    optimizer.zero_grad()
    out = model(inputs)
    loss = criterion(out, labels)
    loss.backward()
    optimizer.step()
    hits = (out.argmax(1) == labels).sum()
    running_loss += loss.item() * len(inputs)
    correct += hits.item()
    n += len(inputs)
    history["loss"].append(loss.item())
    history["lr"].append(0.1)
    sizes.append((n, len(inputs)))
    meter.update(loss.item())
    new.update(loss)
seen = (epoch := 1), np.float64(running_loss)
mixed = ["text", correct]
model.eval()
with torch.no_grad():
    right = sum((model(a).argmax(1) == b).sum().item() for a, b in loader)
"""
SHARED = "loader = DataLoader(TensorDataset(x[:48], y[:48]), batch_size=16)\n"


def test_what_differs_between_ranks_is_named_with_its_sum_and_mean(pool: RankPool) -> None:
    ranks, result = on_ranks(pool, COUNTED, EARLIER + SHARED)
    one = alone(COUNTED, EARLIER + SHARED)
    values = {each.name: each.of_ranks for each in result.values}
    assert {
        "running_loss",
        "correct",
        "seen[1]",
        "new.sum",
        "meter.sum",
        "mean(history['loss'])",
    } <= values.keys()
    assert (
        not {"n", "began", "epoch", "right", "mixed", "inputs", "labels", "new.count", "mean(sizes)"}
        & values.keys()
    )
    assert values["correct"][0] == ranks["correct"]
    assert sum(values["correct"]) == one["correct"]
    assert sum(values["running_loss"]) == pytest.approx(one["running_loss"])
    assert f"correct {ranks['correct']} ({one['correct']}, " in str(result)


def test_what_is_equal_needs_no_note(pool: RankPool) -> None:
    reduced = "import torch.distributed as dist\ndist.all_reduce(whole := loss.detach().clone())\nlast = whole.item()\ndel loss"
    _, result = on_ranks(pool, TRAIN + reduced, SHARED)
    assert (result.values, result.values_line, result.warnings) == ((), "", [])


def test_many_names_fit_into_a_line() -> None:
    line = line_of([RankValues(f"value_{number}", (1.5, 2.5)) for number in range(30)])
    assert "value_0 1.5 (4, 2), " in line
    assert line.endswith("value_8 and 21 more.")
    assert str(RankValues("worst", (None, 2.0))) == "worst nan"
