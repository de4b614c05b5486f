"""Activation checkpointing is found by what the backward pass computes again; without it, or put there by accel, it is not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from accel.diagnosis import Evidence
from accel.diagnosis.recomputed_forward import recomputed_forward
from tests.diagnosis.making import TRAIN, by_hand, real

CHECKPOINTED = "from torch.utils.checkpoint import checkpoint" + TRAIN.replace(
    "model(x)", "checkpoint(model, x, use_reentrant=False)"
)
DEEP = """
layers = [layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.GELU())]
model = nn.Sequential(*layers, nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 64), torch.randint(0, 4, (32,))
"""
IN_THE_MODEL = """
from torch.utils.checkpoint import checkpoint
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(64, 4)
    def forward(self, x):
        return self.head(checkpoint(self.layers, x, use_reentrant=False))
model = Deep()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


@cache
def faulty():
    return real(CHECKPOINTED, DEEP, timed=False)


@cache
def sound():
    return real(TRAIN, DEEP, timed=False)


def test_what_the_cell_computes_again_is_found_with_its_line():
    evidence = faulty()
    finding = recomputed_forward(evidence)
    assert finding.share == evidence.share("recompute") > 0
    lines = evidence.workload.source.splitlines()
    assert lines[finding.line - 1] == "    criterion(checkpoint(model, x, use_reentrant=False), y).backward()"
    assert "larger batch" in finding.wrong_when
    assert "of memory is free" in finding.evidence[0]


def test_checkpointing_inside_a_model_is_found_without_a_line():
    finding = recomputed_forward(real(TRAIN, DEEP + IN_THE_MODEL, timed=False))
    assert (finding.kind, finding.line) == ("recomputed_forward", 0)
    assert finding.suggests == ()


def test_at_least_half_of_the_recomputation_is_expected_to_go():
    finding = recomputed_forward(by_hand({"forward": 0.3, "backward": 0.45, "recompute": 0.25}))
    assert finding.share == 0.25
    assert finding.prediction.ratio == pytest.approx(1 / (0.75 / 1.05))
    assert finding.prediction.low == pytest.approx(1 / (1 - 0.9 * 0.25 / 2))


def test_what_accel_keeps_is_not_held_against_the_cell():
    evidence = by_hand({"forward": 0.3, "backward": 0.45, "recompute": 0.25})
    assert recomputed_forward(replace(evidence, live=("activation_checkpointing",))) is None


def test_a_trace_is_enough_to_tell():
    finding = recomputed_forward(Evidence.of_trace(faulty().profile))
    assert finding.line == 0
    assert "memory" not in finding.evidence[0]


@pytest.mark.parametrize("called", ["checkpoint(model, x)", "torch.utils.checkpoint.checkpoint(model, x)"])
@pytest.mark.parametrize(
    "above",
    ['checkpoint_path = "a.pt"', "path = checkpoint_path or checkpoint.path", "load_checkpoint(path)"],
)
def test_the_line_is_that_of_the_call_and_not_of_a_name_above_it(above, called):
    source = f"{above}\n{TRAIN.replace('model(x)', called)}"
    finding = recomputed_forward(by_hand({"forward": 0.75, "recompute": 0.25}, source=source))
    assert called in source.splitlines()[finding.line - 1]
