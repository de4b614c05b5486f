"""fully_shard on two ranks, alone and under an unmodified cell: one process's weights, with half of them in each rank."""

from __future__ import annotations

import copy
import re
import weakref
from typing import Any

import pytest

from accel.accelerations.fully_shard import FullyShard
from accel.errors import AccelError
from accel.machine import read_machine
from accel.techniques.sharding.sharded_model import sharding_of
from accel.workload import Replica, Workload
from accel.workload.roles import Role
from tests.distributed.cells import TRAIN, alone, difference, on_ranks

ADAM_STEPS = 3


def a_model() -> Any:
    """Two equal blocks, and layers of their own round them; odd sizes, which two ranks cannot halve."""
    import torch
    from torch import nn

    torch.manual_seed(3)
    blocks = [nn.Sequential(nn.Linear(7, 9), nn.Tanh(), nn.Linear(9, 7)) for _ in range(2)]
    return nn.Sequential(nn.Linear(5, 7), *blocks, nn.Linear(7, 3)).double()


def train(model: Any, optimizer: Any, inputs: Any, *, steps: int = ADAM_STEPS) -> None:
    import torch

    for _ in range(steps):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        optimizer.step()


def batch() -> Any:
    import torch

    return torch.randn(8, 5, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


def largest(mine: list[Any], theirs: list[Any]) -> float:
    return max(float((a.detach() - b.detach()).abs().max()) for a, b in zip(mine, theirs, strict=True))


def sharded_beside_whole(**knobs: Any) -> dict[str, Any]:
    """In a rank: an Adam that has state already, three steps sharded, two more afterwards; and the same in one process."""
    import torch
    import torch.distributed as dist

    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = a_model()
    wiring = [(type(m), sorted(vars(m))) for m in model.modules()]
    twin = copy.deepcopy(model)
    optimizer, whole = (torch.optim.Adam(m.parameters(), 0.01) for m in (model, twin))
    parameters, groups = list(model.parameters()), optimizer.param_groups[0]["params"]
    inputs = batch()
    for m, o in ((model, optimizer), (twin, whole)):
        train(m, o, inputs)
    entry = FullyShard(**knobs)
    replica = Replica(models={"model": model}, optimizers={"optimizer": optimizer})
    with entry.apply(replica):
        train(model, optimizer, inputs[rank::ranks])
        proof, sharding = entry.took_effect(replica), sharding_of(model)
        kept = sharding.state_bytes / (4 * sharding.whole_bytes)
        kinds = {type(p.data).__name__ for p in model.parameters()}
        with torch.no_grad():
            output = model(inputs)
        assert entry.took_effect(replica).took_effect  # also where the last layers are still put together
    train(twin, whole, inputs)
    with torch.no_grad():
        expected = twin(inputs)
    during = largest([output], [expected])
    for m, o in ((model, optimizer), (twin, whole)):
        train(m, o, inputs, steps=2)
    states = [[o.state[p][k] for p in m.parameters() for k in ("exp_avg", "exp_avg_sq", "step")]
              for m, o in ((model, optimizer), (twin, whole))]  # fmt: skip
    return {
        "proof": proof, "kept": kept, "kinds": kinds, "during": during,
        "weights": largest(list(model.parameters()), list(twin.parameters())),
        "state": largest(*states),
        "same objects": all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
        and groups is optimizer.param_groups[0]["params"] and all(a is b for a, b in zip(groups, parameters, strict=True)),
        "wiring": [(type(m), sorted(vars(m))) for m in model.modules()] == wiring
        and not any(vars(m)[held] for m in model.modules() for held in vars(m) if held.endswith("_hooks")),
    }  # fmt: skip


@pytest.mark.parametrize("knobs", [{}, {"each_block": False}, {"reshard_after_forward": False}], ids=str)
def test_it_trains_as_one_process_keeps_half_and_leaves_the_users_own_objects(pool, knobs):
    ranks = pool.run(sharded_beside_whole, **knobs)
    assert sum(found["kept"] for found in ranks) == pytest.approx(1)
    for found in ranks:
        assert found["proof"].took_effect, found["proof"].evidence
        assert found["kinds"] == {"DTensor"}
        assert found["kept"] < 0.6
        assert max(found["during"], found["weights"], found["state"]) < 1e-10
        assert found["same objects"]
        assert found["wiring"]


def shard_and_then(what: str) -> Any:
    """In a rank: something that a cell may do to a model that is sharded."""
    import torch
    import torch.distributed as dist

    model = a_model()
    earlier = list(model.parameters())
    if what == "tied":
        model[2][0].weight = model[1][0].weight
    if what == "frozen":
        model[0].weight.requires_grad_(False)
    if what == "scalar":
        model.scale = torch.nn.Parameter(torch.ones((), dtype=torch.float64))
    if what == "mixed":
        model[3].float()
    twin = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    with FullyShard().apply(Replica(models={"model": model})):
        if what == "earlier parameters":
            torch.nn.utils.clip_grad_norm_(earlier, 1.0)
        if what == "one rank raises" and dist.get_rank() == 1:
            raise ZeroDivisionError("on purpose")
        if what == "a part":
            with FullyShard().apply(Replica(models={"part": model[1]})):
                pass
        if what == "an optimizer built here":
            optimizer = torch.optim.AdamW(model.parameters(), 0.01)
        if what == "a state that is loaded":
            whole = torch.optim.AdamW(twin.parameters(), 0.01)
            train(twin, whole, batch())
            twin = copy.deepcopy(a_model())
            other = torch.optim.AdamW(twin.parameters(), 0.01)
            for each in (other, optimizer):
                each.load_state_dict(copy.deepcopy(whole.state_dict()))
            train(twin, other, batch())
        train(model, optimizer, batch()[dist.get_rank() :: dist.get_world_size()])
    if what != "a state that is loaded":
        train(twin, torch.optim.AdamW(twin.parameters(), 0.01), batch())
    are_tied = model[2][0].weight is model[1][0].weight
    held = [p for group in optimizer.param_groups for p in group["params"]]
    assert all(a is b for a, b in zip(held, model.parameters(), strict=True))
    return (
        largest(list(model.parameters()), list(twin.parameters())),
        are_tied,
        not model[0].weight.requires_grad,
    )


@pytest.mark.parametrize("what", ["tied", "frozen", "an optimizer built here", "a state that is loaded"])
def test_tied_and_frozen_weights_and_optimizers_of_all_times_train_as_in_one_process(pool, what):
    for apart, are_tied, is_frozen in pool.run(shard_and_then, what):
        assert apart < 1e-10
        assert are_tied is (what == "tied")
        assert is_frozen is (what == "frozen")


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("earlier parameters", r"clip_grad_norm_\(model\.parameters\(\), 1\.0\)"),
        ("a part", r"parameters that are spread already"),
        ("scalar", r"a parameter that is one number"),
        ("mixed", r"torch\.float32 and torch\.float64"),
        ("one rank raises", r"on rank 1 of 2: it raised ZeroDivisionError"),
    ],
)
def test_what_cannot_be_sharded_is_refused_and_an_error_waits_for_no_other_rank(pool, what, told):
    with pytest.raises(AccelError, match=told):
        pool.run(shard_and_then, what)


def test_in_one_process_it_is_refused_with_the_line_that_has_ranks():
    entry = FullyShard()
    with (
        pytest.raises(AccelError, match=r"%%accel ddp -n 2 --plan fully_shard"),
        entry.apply(Replica(models={"model": a_model()})),
    ):
        pass
    assert not entry.took_effect(Replica(models={"model": a_model()})).took_effect


def workload_of(model: Any, optimizer: Any) -> Workload:
    found = (("models", "model", model), ("optimizers", "optimizer", optimizer))
    return Workload(
        cell="", source="", filename="<cell>", namespace={}, reads=(), writes=(), boundary="optimizer", accumulation=1,
        steps=3, step_ms=1.0, samples_per_step=4,
        roles=tuple(Role(kind, name, False, weakref.ref(thing)) for kind, name, thing in found),
    )  # fmt: skip


def test_reasons_against_it_name_the_object_and_end_with_what_to_do():
    import torch

    compiled, hooked, lazy, half = a_model(), a_model(), torch.nn.LazyLinear(3), a_model()
    compiled.compile()
    hooked[0].weight.register_hook(lambda gradient: None)
    half[0].to(torch.bfloat16)
    wanted = {compiled: "compiled", hooked: "hooks", lazy: "lazy", half: "torch.bfloat16 and torch.float64"}
    machine = read_machine()
    for model, word in wanted.items():
        reasons = FullyShard().why_not(workload_of(model, torch.optim.SGD(a_model().parameters())), machine)
        assert len(reasons) == 1
        assert reasons[0].because.startswith("model ")
        assert word in reasons[0].because
        assert re.fullmatch(r"[A-Z].+\.", reasons[0].do)
    model = a_model()
    refused, taken = torch.optim.LBFGS(model.parameters()), torch.optim.AdamW(model.parameters())
    (reason,) = FullyShard().why_not(workload_of(model, refused), machine)
    assert reason.because.startswith("optimizer is LBFGS")
    assert reason.do.startswith("Use AdamW")
    assert FullyShard().why_not(workload_of(model, taken), machine) == []


def test_the_plain_code_shards_the_blocks_then_the_model_and_hands_the_parts_to_the_optimizer():
    import torch

    model = a_model()
    workload = workload_of(model, torch.optim.SGD(model.parameters()))
    code = FullyShard(reshard_after_forward=False, param_dtype="bf16").as_code(workload)
    calls = re.findall(
        r"^fully_shard\(([^,]+), reshard_after_forward=False, mp_policy=.*\)$", code, re.MULTILINE
    )
    assert calls == ['model.get_submodule("1")', 'model.get_submodule("2")', "model"]
    assert "accel" not in code


def plain_code_in_a_rank(code: str) -> float:
    """In a rank: the exported code, then a training; how far it is from one process's."""
    import torch
    import torch.distributed as dist

    model, twin = a_model(), a_model()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    exec(code, {"model": model, "optimizer": optimizer})
    train(model, optimizer, batch()[dist.get_rank() :: dist.get_world_size()])
    train(twin, torch.optim.Adam(twin.parameters(), 0.01), batch())
    return largest([p.full_tensor() for p in model.parameters()], list(twin.parameters()))


def test_the_plain_code_trains_as_one_process(pool):
    import torch

    model = a_model()
    code = FullyShard().as_code(workload_of(model, torch.optim.Adam(model.parameters())))
    assert max(pool.run(plain_code_in_a_rank, code)) < 1e-10


def lower_precision() -> tuple[str, str, float]:
    """In a rank: what a block computes in, what is kept, and how far the weights are from those of float32."""
    import torch
    import torch.distributed as dist

    model = a_model().float()
    twin, seen, optimizer = copy.deepcopy(model), [], torch.optim.SGD(model.parameters(), 0.1)
    inputs = batch().float()
    model[1].register_forward_hook(lambda module, given, output: seen.append(str(output.dtype)))
    with FullyShard(param_dtype="bf16").apply(Replica(models={"model": model})):
        train(model, optimizer, inputs[dist.get_rank() :: dist.get_world_size()])
        kept = str(next(model.parameters()).dtype)
        assert model(inputs).dtype == torch.float32
    train(twin, torch.optim.SGD(twin.parameters(), 0.1), inputs)
    return seen[0], kept, largest(list(model.parameters()), list(twin.parameters()))


def test_in_bfloat16_blocks_compute_and_float32_is_kept(pool):
    for computed, kept, apart in pool.run(lower_precision):
        assert (computed, kept) == ("torch.bfloat16", "torch.float32")
        assert 0 < apart < 1e-2


EVALUATING = """
accuracy = []
for epoch in range(2):
    model.train()
    for inputs, labels in loader:
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy.append(float((model(x).argmax(1) == y).double().mean()))
"""
ADAM = """
model = nn.Sequential(nn.Linear(6, 8), *[nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(2)], nn.Linear(8, 3)).double()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
parameters = list(model.parameters())
"""
ACCUMULATING = """
for step, (inputs, labels) in enumerate(loader):
    (criterion(model(inputs), labels) / 2).backward()
    if step % 2:
        optimizer.step()
        optimizer.zero_grad()
"""
BUILT_IN_THE_CELL = """
torch.manual_seed(5)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
"""


@pytest.mark.parametrize(
    ("cell", "more"),
    [
        (TRAIN, TRAIN),
        (EVALUATING, ADAM),
        (ACCUMULATING, ADAM),
        (BUILT_IN_THE_CELL + TRAIN, ""),
    ],
    ids=["goes on", "clips and evaluates", "accumulates", "built in the cell"],
)
def test_a_cell_ends_with_one_processs_weights_and_optimizer_state_in_the_notebooks_own_objects(
    pool, cell, more
):
    expected = alone(cell, more)
    found, result = on_ranks(pool, cell, more, plan="fully_shard")
    assert difference(found["model"], expected["model"]) < 1e-10
    states = [[value for of_one in each["optimizer"].state.values() for value in of_one.values() if value is not None]
              for each in (found, expected)]  # fmt: skip
    assert len(states[0]) > 0
    assert difference(*states) < 1e-10
    assert found.get("accuracy") == expected.get("accuracy")
    held = [p for group in found["optimizer"].param_groups for p in group["params"]]
    assert all(a is b for a, b in zip(held, found["model"].parameters(), strict=True))
    (effect,) = result.effects
    assert effect.took_effect, str(effect)
    assert "bytes of the parameters" in str(effect)
    exec(compile(TRAIN, "<cell>", "exec"), found)  # the next cell goes on with them


NORMALISED = """
model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def test_running_statistics_are_those_of_plain_data_parallel_training(pool):
    sharded, _ = on_ranks(pool, TRAIN, NORMALISED, plan="fully_shard")
    plain, _ = on_ranks(pool, TRAIN, NORMALISED)
    assert difference(sharded["model"], plain["model"]) < 1e-10
    assert int(sharded["model"][1].num_batches_tracked) > 0


@pytest.mark.parametrize(
    ("name", "value"), [("checkpoint", "run"), ("compress", "fp16"), ("static_graph", True)]
)
def test_options_that_whole_parameters_need_are_refused_before_the_run(pool, name, value):
    option = "--" + name.replace("_", "-")
    with pytest.raises(AccelError, match=rf"fully_shard.*Leave out .*{option}"):
        on_ranks(pool, TRAIN, plan="fully_shard", **{name: value})


@pytest.mark.parametrize(
    "beside", ["fused_optimizer", "activation_checkpointing", "gradient_accumulation(micro_batches=2)"]
)
def test_beside_other_entries_it_changes_nothing_of_what_they_compute(pool, beside):
    whole, _ = on_ranks(pool, TRAIN, ADAM, plan=beside)
    sharded, result = on_ranks(pool, TRAIN, ADAM, plan=f"fully_shard+{beside}")
    assert difference(sharded["model"], whole["model"]) < 1e-10
    assert all(effect.took_effect for effect in result.effects)


def test_a_cell_that_raises_leaves_the_notebooks_weights_as_they_were(pool):
    with pytest.raises(AccelError, match="ZeroDivisionError"):
        on_ranks(pool, TRAIN + "    if epoch == 1: 1 / 0", plan="fully_shard")


@pytest.mark.parametrize(
    ("plan", "options", "told"),
    [
        ('autocast(dtype="fp16")+fully_shard', {}, r"float16 scales.*Write autocast\(dtype=\"bf16\"\)"),
        ("fully_shard", {"communication": True}, r"Leave out --communication"),
    ],
)
def test_loss_scaling_and_a_watch_on_ddps_buckets_are_refused(pool, plan, options, told):
    with pytest.raises(AccelError, match=told):
        on_ranks(pool, TRAIN, plan=plan, **options)


BY_HAND = """
norms, states = [], []
for inputs, labels in loader:
    optimizer.zero_grad()
    criterion(model(inputs), labels).backward()
    norm = sum(p.grad.data.norm(2).item() ** 2 for p in model.parameters()) ** 0.5
    norms.append((norm, float(sum(p.detach().abs().sum() for p in model.parameters()))))
    for p in model.parameters():
        p.grad.data.mul_(min(1.0, 0.1 / norm))
    optimizer.step()
    if len(norms) == 2:
        best = copy.deepcopy(model.state_dict())
        kept.append((len(norms), list(model.parameters()), optimizer.state_dict()))
        if os.environ.get("RANK") == "0":
            only_here = copy.deepcopy(model.state_dict())
"""


def test_clipping_by_hand_reads_whole_norms_and_a_kept_state_comes_home_whole(pool):
    more = ADAM + "import copy, os\nkept = []\n"
    expected = alone(BY_HAND, more)
    found, result = on_ranks(pool, BY_HAND, more, plan="fully_shard")
    assert difference(found["model"], expected["model"]) < 1e-10
    assert difference(found["norms"], expected["norms"]) < 1e-10
    assert difference(list(found["best"].values()), list(expected["best"].values())) < 1e-10
    assert {type(value).__name__ for value in found["best"].values()} == {"Tensor"}
    ((_, parameters, state),) = found["kept"]
    assert all(a is b for a, b in zip(parameters, found["model"].parameters(), strict=True))
    assert {type(v).__name__ for of_one in state["state"].values() for v in of_one.values()} == {"Tensor"}
    assert "only_here" not in found
    assert "parts of tensors" in dict(result.left_behind)["only_here"]


OF_OTHER_STEPS = """
import copy, os
for step, (inputs, labels) in enumerate(loader):
    optimizer.zero_grad()
    criterion(model(inputs), labels).backward()
    optimizer.step()
    if step == 0:
        first = copy.deepcopy(model.state_dict())
    if step == 1 + int(os.environ["RANK"]):
        best = copy.deepcopy(model.state_dict())
"""
OWN_OPTIMIZER = """
class Momentum(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.05})
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["mean"] = state.get("mean", torch.zeros_like(p)) * 0.9 + p.grad
                p.sub_(group["lr"] * state["mean"])
optimizer = Momentum(model.parameters())
"""


def test_pieces_that_ranks_kept_of_different_steps_are_left_behind(pool):
    found, result = on_ranks(pool, OF_OTHER_STEPS, plan="fully_shard")
    assert {type(value).__name__ for value in found["first"].values()} == {"Tensor"}
    assert "best" not in found
    assert "best" in dict(result.left_behind)


def test_an_optimizer_of_the_notebooks_own_class_brings_its_state_home(pool):
    expected = alone(TRAIN, OWN_OPTIMIZER)
    found, result = on_ranks(pool, TRAIN, OWN_OPTIMIZER, plan="fully_shard")
    assert difference(found["model"], expected["model"]) < 1e-10
    assert not result.left_behind
    for mine, theirs in zip(found["model"].parameters(), expected["model"].parameters(), strict=True):
        assert (
            difference(found["optimizer"].state[mine]["mean"], expected["optimizer"].state[theirs]["mean"])
            < 1e-10
        )


PENALTY = TRAIN.replace("labels)\n", "labels) + 0.1 * sum(p.square().sum() for p in model.parameters())\n")
TWICE = """
for inputs, labels in loader:
    output = model(inputs.requires_grad_())
    slope, = torch.autograd.grad(output.sum(), inputs, create_graph=True)
    (criterion(output, labels) + slope.square().mean()).backward()
    optimizer.step()
"""
COPIES = TRAIN + "import copy; best = copy.deepcopy(model)"
SKIPS = """
class Skips(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(4)])
        self.out = nn.Linear(6, 3)
    def forward(self, x):
        for number, block in enumerate(self.blocks):
            if number != int(os.environ["RANK"]):
                x = x + block(x)
        return self.out(x)
import os
model = Skips().double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


@pytest.mark.parametrize(
    ("cell", "more", "told"),
    [
        (PENALTY, ADAM, "weight_decay of the optimizer"),
        (TWICE, ADAM, "cannot be differentiated again"),
        (COPIES, ADAM, "comes home whole"),
        (TRAIN, SKIPS, "every rank has to compute the same blocks|ranks computed different blocks"),
        (
            "with torch.no_grad():\n    shown = model(x).sum().item()\n",
            SKIPS,
            "ranks computed different blocks",
        ),
        (TRAIN, ADAM.replace("AdamW", "Rprop"), "Rprop, whose step"),
        (TRAIN, "model[0].weight = nn.Parameter(torch.randn(6, 8).double().t())\n", "another order"),
        (TRAIN, "model.more = nn.Embedding(4, 8, sparse=True).double()\n", "sparse gradients"),
    ],
    ids=[
        "penalty",
        "create_graph",
        "a copy",
        "LayerDrop",
        "LayerDrop forward",
        "Rprop",
        "transposed",
        "sparse",
    ],
)
def test_what_fails_beside_it_says_what_to_do(pool, cell, more, told):
    with pytest.raises(AccelError, match=told):
        on_ranks(
            pool, cell, more, plan="fully_shard", timeout_s=20.0 if more is SKIPS else 60.0
        )  # these may hang
