"""Buckets, static graphs and compressed gradients: what they change, and what they must not."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel.distributed.cells.run_options import RunOptions
from accel.distributed.data_parallel.gradient_compression import Compression, compression_of
from accel.distributed.ranks.rank_pool import RankPool
from accel.errors import AccelError, RankError
from tests.distributed.cells import TRAIN, alone, difference, notebook, on_ranks

LONGER = TRAIN.replace("range(2)", "range(6)")  # 24 steps: PowerSGD begins after 12
ACCUMULATED = """
for epoch in range(6):
    for number, (inputs, labels) in enumerate(loader):
        criterion(model(inputs), labels).backward()
        if number % 2:
            optimizer.step()
            optimizer.zero_grad()
"""
WIDE = """
model = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3)).double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
"""
ALIKE = """
import torch.distributed as dist
mine = torch.cat([p.detach().flatten() for p in model.parameters()])
theirs = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
dist.all_gather(theirs, mine)
are_alike = all(bool((each == mine).all()) for each in theirs)
"""


@pytest.mark.parametrize("cell", [LONGER, ACCUMULATED], ids=["each step", "accumulated"])
@pytest.mark.parametrize(
    "options", [{"bucket_mb": 0.005}, {"bucket_mb": 0.005, "static_graph": True}], ids=["small buckets", "static"]
)  # fmt: skip
def test_buckets_and_static_graphs_change_no_parameter(pool: RankPool, cell: str, options: dict) -> None:
    names, result = on_ranks(pool, cell, WIDE, **options)
    assert [rank.output for rank in result.ranks] == [
        "",
        "",
    ]  # torch's warnings of what we do are not the user's
    assert difference(names["model"], alone(cell, WIDE)["model"]) < 1e-12


APART = {"fp16": 0.01, "bf16": 0.05, "powersgd:2": 0.9}  # at most so much of what the training changed


@pytest.mark.parametrize("how", APART)
def test_compressed_gradients_train_nearly_alike_and_all_ranks_exactly_so(pool: RankPool, how: str) -> None:
    begun, plain = notebook(WIDE), alone(LONGER, WIDE)
    names, result = on_ranks(pool, LONGER + ALIKE, WIDE, compress=how, bucket_mb=0.01, communication=True)
    assert names["are_alike"]
    changed = difference(begun["model"], plain["model"])
    assert 0 < difference(names["model"], plain["model"]) < APART[how] * changed
    before, whole, compressed = (
        float(each["criterion"](each["model"](each["x"]), each["y"])) for each in (begun, plain, names)
    )
    assert before - compressed > 0.7 * (before - whole)
    report = result.communication
    assert report is not None
    assert sum(b.sent_bytes for b in report.buckets) < 0.6 * sum(b.gradient_bytes for b in report.buckets)
    (note,) = [each for each in result.notes if each.startswith(f"--compress {how}")]
    acted = 12 if how == "powersgd:2" else 22  # the first two passes show whether all parameters take part
    assert f"{acted} of 24 exchanges" in note


def test_models_that_go_whole_beside_another_in_the_same_pass_are_named(pool: RankPool) -> None:
    two = WIDE + "model, head = model[:4], nn.Linear(64, 3).double()\n"
    two += "optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)\n"
    cell = TRAIN.replace("model(inputs)", "head(model(inputs))")
    notes = on_ranks(pool, cell, two, compress="bf16")[1].notes
    assert any(note.startswith("--compress bf16: nothing of this was for Linear.") for note in notes)
    assert not any("nothing of this" in note for note in on_ranks(pool, TRAIN, compress="bf16")[1].notes)


def test_waiting_for_others_stays_a_part_of_the_step_where_each_bucket_is_waited_for(pool: RankPool) -> None:
    result = on_ranks(pool, LONGER, WIDE, compress="powersgd:2", bucket_mb=0.01, communication=True)[1]
    assert all(0 < rank.lane.communication_share < 1 for rank in result.ranks)
    report = result.communication
    assert report is not None
    assert len(report.buckets) > 1
    for step in (step for rank in report.ranks for step in rank.steps):
        for before, bucket in zip(step.passes[0].buckets, step.passes[0].buckets[1:], strict=False):
            assert before.ended_s <= bucket.began_s  # over gloo PowerSGD sends one after the other
    assert report.overlap < 0.1


def test_powersgd_goes_on_from_a_checkpoint_and_says_that_it_begins_anew(
    pool: RankPool, tmp_path: Path
) -> None:
    cell = (
        LONGER.replace(
            "optimizer.step()", "optimizer.step()\n        losses.append(loss.item())\n        at_step()"
        )
        + ALIKE
    )
    falls = (
        WIDE
        + "losses = []\ndef at_step():\n    if len(losses) == 15:\n        raise ValueError('on purpose')\n"
    )
    options = {"compress": "powersgd:2", "checkpoint": str(tmp_path), "every": 7}
    with pytest.raises(RankError, match="on purpose"):
        on_ranks(pool, cell, falls, **options)
    names, result = on_ranks(pool, cell, WIDE + "losses = []\ndef at_step():\n    pass\n", **options)
    assert len(names["losses"]) == 24
    assert names["are_alike"]
    assert any("went on after step 14" in note for note in result.notes)
    assert any("begins compressing anew" in note for note in result.notes)


CHANGING = (
    WIDE
    + """
class Shortened(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.calls = nn.ModuleList([nn.Linear(6, 6).double(), nn.Linear(6, 3).double()]), 0
        self.other = nn.Linear(6, 3).double()
    def forward(self, x):
        self.calls += 1
        return self.layers[1](self.layers[0](x)) + (self.other(x) if self.calls < 7 else 0)
model = Shortened()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
)


def test_a_graph_that_changes_is_refused_where_it_was_promised_that_it_does_not(pool: RankPool) -> None:
    with pytest.raises(AccelError, match="the training graph has changed") as raised:
        on_ranks(pool, LONGER, CHANGING, static_graph=True)
    assert "Leave --static-graph out" in str(raised.value)
    names, _ = on_ranks(pool, LONGER, CHANGING)
    assert difference(names["model"], alone(LONGER, CHANGING)["model"]) < 1e-12


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"compress": "fp8"}, "gradients can be sent as"),
        ({"compress": "fp16:2"}, "gradients can be sent as"),
        ({"compress": "powersgd:0"}, "rank of PowerSGD's matrices"),
        ({"compress": "powersgd:"}, "rank of PowerSGD's matrices"),
        ({"bucket_mb": 0.0}, "above 0"),
        ({"bucket_mb": float("nan")}, "above 0"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_starts(options: dict, why: str) -> None:
    with pytest.raises(AccelError, match=why) as raised:
        RunOptions(**options)
    assert "Use for example" in str(raised.value)


def test_what_is_asked_for_is_read_back_as_it_was_said() -> None:
    assert compression_of("powersgd") == Compression("powersgd", 1)
    for asked in ("none", "fp16", "bf16", "powersgd:7"):
        assert str(compression_of(asked)) == asked
