"""What keep and undo say: live before anything ran, in effect after it, and what came back."""

from __future__ import annotations

import torch
from torch import nn

from accel.workbench.workbench import Workbench

CELL = """
for _ in range(4):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""


def small_training():
    """Names of a notebook in which CELL trains."""
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 4))
    return {
        "nn": nn, "model": model, "optimizer": torch.optim.Adam(model.parameters()),
        "x": torch.randn(8, 1, 8, 8), "y": torch.arange(8) % 4,
    }  # fmt: skip


def test_training_before_another_command_is_remembered_by_undo():
    names = small_training()
    bench = Workbench(names, spare_workers=0)
    try:
        bench.profile(CELL)
        bench.keep("bias_off")
        exec(CELL, names)
        bench.export()  # as if nothing were kept, and then kept again
        assert "no effect" not in str(bench.keep("fused_optimizer"))
        undone = bench.undo().to_dict()["Undone"]
        assert "fused_optimizer: everything is as it was, bit for bit" in undone
        assert "the biases are back" in undone
    finally:
        bench.close()


def test_a_model_of_complex_numbers_is_kept_as_any_other():
    names = small_training()
    names["model"].register_parameter("spectrum", nn.Parameter(torch.full((3,), 1 + 2j)))
    bench = Workbench(names, spare_workers=0)
    try:
        bench.profile(CELL)
        assert "live" in str(bench.keep("fused_optimizer"))
    finally:
        bench.close()


def test_keep_blames_nothing_before_a_step_and_undo_says_what_came_back():
    names = small_training()
    bench = Workbench(names, spare_workers=0)
    try:
        bench.profile(CELL)
        kept = str(bench.keep("fused_optimizer+bias_off"))
        assert "live; confirmed by your next cell" in kept
        assert "no effect" not in kept
        assert "bias_off, fused_optimizer: everything is as it was, bit for bit" in str(bench.undo())
        bench.keep("fused_optimizer+bias_off")
        exec(CELL, names)
        assert "in effect: 4 of 4 updates" in str(bench.status())
        undone = bench.undo().to_dict()["Undone"]
        assert "the biases are back" in undone
        assert "cannot come back" in undone
        assert "fused_optimizer: your objects are set up as before" in undone
    finally:
        bench.close()
