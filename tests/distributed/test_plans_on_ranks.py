"""Any plan on ranks: it works on all of them and the rank's plain state comes home, or it is refused with a reason."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from markupsafe import escape

from accel.accelerations import CATALOGUE
from accel.distributed.cells.plan_on_ranks import WHY_NOT_ON_RANKS
from accel.distributed.cells.run_cell import CellRun
from accel.distributed.cells.run_options import RunOptions
from accel.distributed.ranks.rank_pool import RankPool
from accel.errors import AccelError, NotApplicable, RankError, UnknownName
from accel.machine import read_machine
from accel.plans.plan import Plan
from accel.workbench.plan_for_ranks import for_this_cell
from accel.workbench.workbench import Workbench
from accel.workload.replica import Replica
from tests.distributed.cells import TRAIN, difference, notebook, on_ranks

# In it every entry that works without a GPU has something to do.
PICTURES = """
import numpy
from PIL import Image
from torchvision import transforms

class Pictures(Dataset):
    def __init__(self):
        self.pixels = numpy.random.default_rng(0).integers(0, 256, (24, 12, 12, 3), dtype=numpy.uint8)
        self.transform = transforms.Compose(
            [transforms.Resize(8), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
             transforms.Normalize((0.5,) * 3, (0.5,) * 3)]
        )
    def __len__(self):
        return 24
    def __getitem__(self, index):
        return self.transform(Image.fromarray(self.pixels[index])), index % 5

def farthest_apart(model):
    import torch.distributed
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    own = torch.cat([p.detach().flatten() for p in whole])
    if not torch.distributed.is_initialized():
        return 0.0
    everywhere = [torch.empty_like(own) for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather(everywhere, own)
    return max((own - each).abs().max().item() for each in everywhere)

def block(*sizes):
    return nn.Sequential(nn.Conv2d(*sizes, 3, padding=1), nn.ReLU())

model = nn.Sequential(block(3, 8), block(8, 8), block(8, 8), nn.Flatten(), nn.Linear(512, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
loader = DataLoader(Pictures(), batch_size=4, shuffle=True)
held_out = torch.randn(6, 3, 8, 8)
"""
CELL = """
for epoch in range(2):
    model.train()
    for images, labels in loader:
        optimizer.zero_grad(set_to_none=False)
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
    model.eval()
    judged = model(held_out).mean().item()
apart = farthest_apart(model)
"""
CELLS = {"detect_anomaly_off": "with torch.autograd.detect_anomaly():" + CELL.replace("\n", "\n    ")}
# The same as the default where that takes long, or asks for more than two cores.
INSTEAD = {
    "compile_model": 'compile_model(backend="aot_eager")',
    "compile_optimizer": 'compile_optimizer(backend="aot_eager")',
    "loader_workers": "loader_workers(n=1)",
}
NEED_NO_GPU = {
    "steady_allocator", "detect_anomaly_off", "cache_dataset", "loader_workers", "batched_transforms", "bias_off",
    "activation_checkpointing", "compile_model", "channels_last", "autocast", "no_grad_validation", "prune",
    "fused_optimizer", "compile_optimizer", "set_to_none", "batch_size", "gradient_accumulation",
}  # fmt: skip

NO_CHECKPOINT = {"prune", "bias_off", "fully_shard"}  # are refused with one


@pytest.fixture(scope="module")
def benches() -> Iterator[dict[str, Workbench]]:
    """A notebook for each of the cells, in which it was profiled."""
    made = {}
    for cell in (CELL, *CELLS.values()):
        bench = Workbench(notebook(PICTURES), spare_workers=0)
        bench.machine = dataclasses.replace(  # type: ignore[misc]
            read_machine(), isa=("avx512_bf16",), usable_cores=8, physical_cores=8
        )
        bench.profile(cell, steps=2)
        made[cell] = bench
    yield made
    for bench in made.values():
        bench.close()


@pytest.mark.parametrize("name", [entry.name for entry in CATALOGUE])
def test_an_entry_works_on_all_ranks_or_says_why_not(
    pool: RankPool, benches: dict[str, Workbench], name: str, tmp_path: Path
) -> None:
    cell = CELLS.get(name, CELL)
    folder = "" if name in NO_CHECKPOINT else str(tmp_path / "kept")
    bench, wanted = benches[cell], Plan.parse(INSTEAD.get(name, name))
    options = RunOptions(batch="global", timeout_s=60.0, checkpoint=folder, every=4)
    bench.namespace["apart"] = None
    try:
        plan, reads = for_this_cell(bench, wanted, options, cell, "<cell>")
    except NotApplicable as error:
        refused = error.reasons
    else:
        refused = []
    if refused:
        assert name not in NEED_NO_GPU
        assert all(re.fullmatch(r"[A-Z].+\.", reason.do) for reason in refused)
        return
    run = CellRun(pool, cell, bench.namespace, options, filename="<cell>", reads_back=reads, plan=plan)
    result = run.go()
    (effect,) = result.effects
    assert effect.took_effect, result.warnings
    assert str(effect) in str(result)
    assert escape(str(effect)) in result._repr_mimebundle_()["text/html"]
    assert bench.namespace["apart"] == 0.0
    assert all(p.isfinite().all() for p in bench.namespace["model"].parameters())


def with_plan(plan: str, cell: str, more: str = "") -> dict[str, Any]:
    """What the cell makes of a notebook in this process, under a plan."""
    namespace = notebook(more)
    kinds = {"model": "models", "optimizer": "optimizers", "loader": "loaders", "criterion": "criteria"}
    replica = Replica(**{kind: {name: namespace[name]} for name, kind in kinds.items()})
    with Plan.parse(plan).apply(replica):
        exec(compile(cell, "<cell>", "exec"), namespace)
    return namespace


EXACT = (
    "fused_optimizer",
    "batch_size(lr_rule='linear')+bias_off",
    "gradient_accumulation(micro_batches=3)",
    "batch_size(factor=0.5)+gradient_accumulation+fused_optimizer(kind='foreach')",
    "loader_workers(n=1)+fused_optimizer",
    'compile_model(backend="aot_eager", scope="step")',
)
CLIPPING = TRAIN.replace(
    "loss.backward()", "loss.backward(); nn.utils.clip_grad_norm_(model.parameters(), 0.1)"
)
BUILDING = "model.zero_grad()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n" + TRAIN


@pytest.mark.parametrize(("plan", "cell"), [*((plan, TRAIN) for plan in EXACT), (EXACT[2], CLIPPING)])
def test_ranks_end_with_the_parameters_of_one_process_under_that_plan(
    pool: RankPool, plan: str, cell: str
) -> None:
    ranks, result = on_ranks(pool, cell, plan=plan)
    one = with_plan(plan, cell)
    assert all(effect.took_effect for effect in result.effects), result.effects
    assert len(result.effects) == plan.count("+") + 1
    assert difference(one["model"], ranks["model"]) < 1e-12
    momenta = [[s["momentum_buffer"] for s in each["optimizer"].state.values()] for each in (one, ranks)]
    assert difference(*momenta) < 1e-12


def test_an_optimizer_that_the_cell_builds_has_the_plan_from_its_first_step(pool: RankPool) -> None:
    ranks, result = on_ranks(pool, BUILDING, plan="gradient_accumulation")
    assert result.effects[0].evidence == ("4 updates for 8 batches",) * 2
    assert result.steps == 4
    assert type(ranks["optimizer"].step).__name__ == "method"
    assert "step" not in vars(ranks["optimizer"])
    own = with_plan("gradient_accumulation", TRAIN, "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)")
    assert difference(own["model"], ranks["model"]) < 1e-12


FIT = """
def fit(model, loader):
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)]
    for epoch in range(2):
        for inputs, labels in loader:
            optimizers[0].zero_grad()
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizers[0].step()
fit(model, loader)
"""


def test_an_optimizer_in_a_list_of_a_function_has_the_plan_from_its_first_step(pool: RankPool) -> None:
    ranks, result = on_ranks(pool, FIT, plan="gradient_accumulation")
    assert result.effects[0].evidence == ("4 updates for 8 batches",) * 2
    assert not result.warnings
    assert difference(with_plan("gradient_accumulation", TRAIN)["model"], ranks["model"]) < 1e-12


def test_what_comes_home_is_the_plain_model_and_optimizer(pool: RankPool) -> None:
    before = notebook()
    parts, flags = list(before["model"].parameters()), dict(before["optimizer"].param_groups[0])
    plan = 'bias_off+compile_model(backend="aot_eager")+fused_optimizer'
    CellRun(pool, TRAIN, before, RunOptions(plan=plan), filename="<cell>").go()
    model = before["model"]
    assert all(a is b for a, b in zip(parts, model.parameters(), strict=True))
    assert "_compiled_call_impl" not in vars(model)
    now = before["optimizer"].param_groups[0]
    assert {k: now[k] for k in ("fused", "foreach")} == {k: flags[k] for k in ("fused", "foreach")}
    exec(TRAIN, before)


def test_a_plan_that_cannot_be_applied_in_a_rank_leaves_the_notebook_as_it_was(pool: RankPool) -> None:
    namespace = notebook()
    state = {name: value.clone() for name, value in namespace["model"].state_dict().items()}
    with pytest.raises(AccelError, match="no layer of these types can lose a filter"):
        CellRun(pool, TRAIN, namespace, RunOptions(plan="prune"), filename="<cell>").go()
    assert all(torch.equal(state[name], value) for name, value in namespace["model"].state_dict().items())
    assert not namespace["optimizer"].state
    assert on_ranks(pool, TRAIN, plan="fused_optimizer")[1].effects[0].took_effect


def test_an_entry_without_effect_is_a_warning(pool: RankPool) -> None:
    _, result = on_ranks(pool, TRAIN, plan="channels_last")
    assert any(text.startswith("channels_last took no effect: ") for text in result.warnings)
    assert result.plan_lines == []
    (told,) = result.to_dict()["effects"]
    assert told["took_effect_on"] == ()


def test_a_run_goes_on_from_a_checkpoint_under_its_plan(pool: RankPool, tmp_path: Path) -> None:
    plan, cell = "gradient_accumulation+fused_optimizer", TRAIN.replace("step()", "step(); after(loss)")
    breaks = "def after(loss, left=[5]):\n    left[0] -= 1\n    assert left[0], 'enough'\n"
    whole_one = breaks.replace("[5]", "[50]")
    kept: dict[str, Any] = {"checkpoint": str(tmp_path), "every": 1}
    with pytest.raises(RankError, match="enough"):
        on_ranks(pool, cell, breaks, plan=plan, **kept)
    with pytest.raises(AccelError, match="this cell with --batch global --plan"):
        on_ranks(pool, cell, whole_one, **kept)
    goes_on, result = on_ranks(pool, cell, whole_one, plan=plan, **kept)
    assert any("It went on after step 2" in note for note in result.notes), result.notes
    assert all(effect.took_effect for effect in result.effects), result.effects
    whole, _ = on_ranks(pool, cell, whole_one, plan=plan)
    assert difference(goes_on["model"], whole["model"]) < 1e-12


@pytest.mark.parametrize(
    ("plan", "kind", "says"),
    [
        ("chanels_last", UnknownName, "Did you mean 'channels_last'"),
        ("autocast(dtype='bf17')", UnknownName, "bf16"),
        ("channels_last+channels_last", AccelError, "only once"),
        ("ddp", NotApplicable, "on ranks already"),
        ("intraop_threads", NotApplicable, "--threads says how many threads"),
        ("prune(criterion='taylor')", NotApplicable, "each would take out other filters"),
        ("prune(stages=2)", NotApplicable, "stages=1"),
        ("channels_last(on='model')", AccelError, "%%accel profile"),
        ("async_metrics", AccelError, "%%accel profile"),
    ],
)
def test_a_plan_is_refused_before_a_rank_hears_of_it(plan: str, kind: type[AccelError], says: str) -> None:
    bench = Workbench(notebook(), spare_workers=0)
    with pytest.raises(kind, match=re.escape(says)):
        for_this_cell(bench, Plan.parse(plan), RunOptions(), TRAIN, "<cell>")


def test_reasons_are_of_entries_that_there_are_and_end_in_what_to_do() -> None:
    names = {entry.name: entry for entry in CATALOGUE}
    options = RunOptions(checkpoint="kept")
    assert WHY_NOT_ON_RANKS.keys() >= NO_CHECKPOINT
    for name in WHY_NOT_ON_RANKS.keys() & names.keys():
        reason = WHY_NOT_ON_RANKS[name](names[name](), Plan((names[name](),)), options)
        assert reason is not None
        assert re.fullmatch(r"[A-Z].+\.", reason.do), reason
    assert not WHY_NOT_ON_RANKS.keys() - names.keys()


def test_a_profile_of_this_cell_says_what_belongs_to_what(benches: dict[str, Workbench]) -> None:
    commented = CELL.replace("model.train()", "model.train()  # again")
    wanted = Plan.parse("channels_last(on='model')")
    plan, _ = for_this_cell(benches[CELL], wanted, RunOptions(), commented, "<cell>")
    assert str(plan) == 'channels_last(on="model,optimizer")'


def test_a_profile_of_this_cell_tells_what_cannot_work(benches: dict[str, Workbench]) -> None:
    (group,) = benches[CELL].namespace["optimizer"].param_groups
    group["differentiable"] = True
    try:
        with pytest.raises(NotApplicable, match="no fused update is"):
            for_this_cell(benches[CELL], Plan.parse("fused_optimizer"), RunOptions(), CELL, "<cell>")
    finally:
        group["differentiable"] = False
