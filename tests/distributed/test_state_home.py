"""What ranks made of the notebook's objects is in the notebook's own, which stay the objects that they were."""

from __future__ import annotations

from typing import Any

from accel.distributed.cells.brought_home import Travellers, bring_home
from accel.distributed.cells.home_objects import Home, walk
from accel.distributed.cells.run_cell import CellRun
from accel.distributed.cells.run_options import RunOptions
from accel.distributed.ranks.rank_pool import RankPool
from accel.workload.memory_file import MemoryFile
from accel.workload.separate_parts import unpack_parts
from accel.workload.shipping import dump, load
from tests.distributed.cells import TRAIN, alone, difference, notebook, on_ranks


def _there_and_back(
    cell: str, more: str = "", writes: tuple[str, ...] = ()
) -> tuple[dict[str, Any], list[list[str]], int]:
    """Ship a notebook's variables, run a cell on the copies, and bring home; gives also how many bytes came."""
    home = notebook(more)
    names = [name for name in home if not name.startswith("__")]
    memory = MemoryFile()
    copies = load(dump({name: home[name] for name in names}, memory), memory)
    travellers = Travellers(copies, names)
    exec(cell, copies)
    blob, back, left_behind = travellers.packed(copies, writes)
    found = Home(walk(home, names))
    missed = bring_home(*unpack_parts(blob, back, found), found, home)
    left_behind += [[*each] for each in missed]
    return home, left_behind, len(blob)


def test_a_name_is_found_again_where_a_copy_leaves_the_other_way_to_it_out() -> None:
    more = """
class Owner:
    def __init__(self): self.loader, self.kept, self.seen = loader, {'deep': x}, 0
    def __getstate__(self): return {'seen': self.seen, 'other': self.kept}
owner = Owner()
"""
    home, left_behind, _ = _there_and_back(
        "found = [loader, owner]", "owner = None" + more, writes=("found",)
    )
    assert left_behind == []
    assert home["found"][0] is home["loader"]
    assert home["found"][1] is home["owner"]


def test_a_copy_is_walked_by_equal_paths() -> None:
    home = notebook("shared = [model, {'weights': model[0].weight}, (x, y)]")
    names = ["shared", "model", "optimizer", "loader"]
    memory = MemoryFile()
    copies = load(dump({name: home[name] for name in names}, memory), memory)
    assert [path for path, _ in walk(home, names)] == [path for path, _ in walk(copies, names)]


def test_optimizer_scheduler_and_scaler_continue(pool: RankPool) -> None:
    more = (
        "optimizer = torch.optim.Adam(model.parameters(), lr=0.01)\n"
        "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)\n"
        "scaler = torch.amp.GradScaler('cpu', init_scale=8.0, growth_interval=3)\n"
    )
    cell = TRAIN.replace("loss.backward()", "scaler.scale(loss).backward()").replace(
        "optimizer.step()", "scaler.step(optimizer)\n        scaler.update()\n        scheduler.step()"
    )
    one, (ranks, _) = alone(cell, more), on_ranks(pool, cell, more)
    assert ranks["scheduler"].state_dict() == one["scheduler"].state_dict()
    assert ranks["scaler"].state_dict() == one["scaler"].state_dict()
    for mine, theirs in zip(ranks["optimizer"].state.values(), one["optimizer"].state.values(), strict=True):
        assert all(difference(mine[name], theirs[name]) < 1e-12 for name in theirs)
    assert list(ranks["optimizer"].state) == list(
        ranks["model"].parameters()
    )  # by identity: theirs, not copies
    exec(TRAIN, one)
    exec(TRAIN, ranks)


def test_what_a_fused_update_did_comes_home_though_it_leaves_no_mark(pool: RankPool) -> None:
    more = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)\n"
    once = "torch.manual_seed(3)\n" + TRAIN
    one = alone(once, more)
    exec(once, one)
    ranks, _ = on_ranks(pool, once, more)
    CellRun(pool, once, ranks, RunOptions(batch="global"), filename="<cell>").go()
    assert difference(one["model"], ranks["model"]) < 1e-12
    momenta = [
        [state["momentum_buffer"] for state in each["optimizer"].state.values()] for each in (one, ranks)
    ]
    assert difference(*momenta) < 1e-12


def test_objects_stay_the_same_and_aliases_stay_aliases(pool: RankPool) -> None:
    before = notebook("history, also = [], {'model': model, 'first': model[0].weight}")
    kept = dict(before)
    CellRun(pool, TRAIN + "history.append(epoch)\nalso['done'] = True\n", before, filename="<cell>").go()
    for name in ("model", "optimizer", "history", "also", "loader"):
        assert before[name] is kept[name]
    assert before["also"]["first"] is before["model"][0].weight
    assert before["also"]["model"] is before["model"]
    assert (before["history"], before["also"]["done"], before["epoch"]) == ([1], True, 1)


def test_running_statistics_are_those_that_every_rank_evaluated_with(pool: RankPool) -> None:
    more = (
        "model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).double()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    )
    cell = TRAIN + "model.eval()\nwith torch.no_grad():\n    out = model(x)\n"
    ranks, result = on_ranks(pool, cell, more)
    assert int(ranks["model"][1].num_batches_tracked) == 8
    assert not ranks["model"].training
    import torch

    with torch.no_grad():
        assert difference(ranks["model"](ranks["x"]), ranks["out"]) < 1e-12
    assert result.first_step is not None
    assert "BatchNorm" in result.first_step.line


def test_what_did_not_change_does_not_travel() -> None:
    more = "big = torch.randn(300, 300)\nadam = torch.optim.Adam([nn.Parameter(torch.zeros(4))])"
    _, left_behind, size = _there_and_back("history = 3", more)
    assert left_behind == []
    assert size < 2000


def test_plain_attributes_and_new_objects_of_the_notebooks_classes_come_home() -> None:
    more = """
class Meter:
    def __init__(self):
        self.best, self.name, self.gone = 0.0, "m", 1
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(2, 2), 0
meter, net = Meter(), Net()
"""
    cell = "meter.best = 0.5; meter.weights = x.clone(); del meter.gone; net.calls = 7; net.layer = net.layer.double()"
    home, _, _ = _there_and_back(cell, more)
    assert (home["meter"].best, home["net"].calls) == (0.5, 7)
    assert difference(home["meter"].weights, home["x"]) == 0
    assert not hasattr(home["meter"], "gone")


def test_an_exchanged_layer_comes_home() -> None:
    kept = notebook()["model"]
    home, _, _ = _there_and_back("first = model[0]\nmodel[2] = type(first)(8, 5)\n")
    assert home["model"][2].out_features == 5
    assert len(home["model"]) == len(kept)


def test_what_cannot_travel_is_named() -> None:
    home, left_behind, _ = _there_and_back("odd = (_ for _ in ())\nnumber = 3", writes=("odd", "number"))
    assert home["number"] == 3
    assert [name for name, _ in left_behind] == ["odd"]
    assert "generator" in left_behind[0][1]


def test_features_made_in_inference_mode_travel_and_a_deep_chain_of_objects_is_left_behind(
    pool: RankPool,
) -> None:
    more = "with torch.inference_mode():\n    features = torch.ones(3)\nclass Node:\n    next = None\n"
    deep = (
        "chain = node = Node()\nfor _ in range(20_000):\n    node.next = Node(); node = node.next\ndel node\n"
    )
    found, result = on_ranks(pool, f"{TRAIN}total = float(features.sum())\n{deep}", more)
    assert found["total"] == 3.0
    assert difference(found["model"], alone(TRAIN)["model"]) < 1e-12
    assert "chain" in dict(result.left_behind)
