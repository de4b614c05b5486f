"""Ways in which compiling a model could quietly go wrong; "aot_eager" makes graphs without building code."""

from __future__ import annotations

import copy

import pytest
import torch
from small_training import workload_of
from torch import nn
from torch._dynamo.utils import counters

from accel.accelerations.compile_model import CompileModel
from accel.accelerations.fused_optimizer import FusedOptimizer
from accel.machine import read_machine
from accel.plans.plan import Plan
from accel.profiling.compile_watch import CompileWatch
from accel.techniques.model.repeated_blocks import repeated_blocks
from accel.workload import Replica

REGIONS = CompileModel(backend="aot_eager", scope="regions")


class Block(nn.Module):
    def __init__(self, wide=8):
        super().__init__()
        self.up, self.down = nn.Linear(6, wide), nn.Linear(wide, 6)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


class Tower(nn.Module):
    def __init__(self, widths=(8, 8, 8, 8)):
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Linear(3, 6)
        self.blocks = nn.ModuleList(Block(wide) for wide in widths)
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def steps(model, count=2):
    torch.manual_seed(1)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(count):
        optimizer.zero_grad()
        loss = model(torch.randn(5, 3)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def replica(model):
    return Replica(models={"model": model})


def workload(model):
    return workload_of(replica(model), {"model": model})


def graphs():
    return counters["stats"]["unique_graphs"]


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch.compiler.set_stance("default")
    torch._dynamo.reset()


def test_equal_blocks_are_compiled_once_for_all_of_them():
    expected, before = steps(Tower()), graphs()
    model = Tower()
    with REGIONS.apply(replica(model)):
        assert steps(model) == pytest.approx(expected, rel=1e-5)
        proof = REGIONS.took_effect(replica(model))
        assert list(model.state_dict()) == list(Tower().state_dict())
    assert proof.took_effect, proof.evidence
    assert "4 blocks share 1 compiled codes" in proof.evidence
    assert graphs() - before == 1


def test_blocks_of_more_kinds_than_torchs_limit_are_all_compiled():
    """torch keeps graphs by the code of a class's forward, and gives up on it after eight."""
    model, before = Tower([*range(8, 18), 8]), graphs()
    with REGIONS.apply(replica(model)):
        steps(model, 1)
        assert REGIONS.took_effect(replica(model)).took_effect
    assert graphs() - before == 10


@pytest.mark.parametrize("widths", [(8, 8, 8), (8, 8, 9)], ids=str)
def test_the_plain_code_of_regions_compiles_the_same_blocks(widths):
    live, plain, before = Tower(widths), Tower(widths), graphs()
    with REGIONS.apply(replica(live)):
        expected = steps(live)
    by_live, before = graphs() - before, graphs()
    torch._dynamo.reset()
    exec(REGIONS.as_code(workload(plain)), {"model": plain})
    assert steps(plain) == expected
    assert graphs() - before == by_live


def test_the_plain_code_of_regions_reads_like_a_loop():
    assert CompileModel(scope="regions").as_code(workload(Tower())) == (
        "for _block in model.blocks:\n    _block.compile()\n"
    )


def test_undo_takes_the_compiled_blocks_away_again():
    model = Tower()
    before = [dict(vars(module)) for module in model.modules()]
    with REGIONS.apply(replica(model)):
        assert [dict(vars(module)) for module in model.modules()] != before
    assert [dict(vars(module)) for module in model.modules()] == before


def test_regions_that_run_in_python_are_found_out():
    model = Tower()
    with REGIONS.apply(replica(model)):
        torch.compiler.set_stance("force_eager")
        steps(model)
        assert not REGIONS.took_effect(replica(model)).took_effect


def test_a_model_without_repeated_blocks_is_told_so():
    (reason,) = REGIONS.why_not(workload(nn.Sequential(nn.Linear(3, 2), nn.ReLU())), read_machine())
    assert 'scope="model"' in str(reason)


def test_the_outermost_repeated_blocks_are_found_and_single_ones_left():
    inner = nn.Sequential(Block(), Block())
    model = nn.Sequential(nn.Linear(3, 6), copy.deepcopy(inner), copy.deepcopy(inner), nn.Linear(6, 6))
    assert list(repeated_blocks(model)) == ["1", "2"]
    assert list(repeated_blocks(nn.Sequential(Block(8), Block(9)))) == []
    assert list(repeated_blocks(nn.Sequential(Block(8), Block(9), Block(9)))) == ["0", "1", "2"]


def test_switching_regions_off_and_on_compiles_nothing_twice():
    model = Tower()
    with REGIONS.apply(replica(model)):
        steps(model)
    before = graphs()
    with REGIONS.apply(replica(model)):
        steps(model)
        assert REGIONS.took_effect(replica(model)).took_effect
    assert graphs() == before


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_model_that_was_compiled_before_is_known_to_run_compiled(backend):
    """Nothing is compiled the second time, and on "eager" nothing in a result tells of a graph."""
    entry, model = CompileModel(backend=backend), nn.Linear(3, 2)
    for _ in range(2):
        with entry.apply(replica(model)):
            with torch.no_grad():
                for _ in range(4):
                    model(torch.ones(2, 3))
            model(torch.ones(2, 3)).sum().backward()
            proof = entry.took_effect(replica(model))
        assert proof.took_effect, proof.evidence


def test_a_single_call_in_python_is_found_out_later_too():
    entry, model = CompileModel(backend="aot_eager"), nn.Linear(3, 2)
    with entry.apply(replica(model)):
        for _ in range(4):
            model(torch.ones(2, 3))
        torch.compiler.set_stance("force_eager")
        model(torch.ones(2, 3))
        proof = entry.took_effect(replica(model))
    assert not proof.took_effect
    assert "1 of 5 results" in proof.evidence


class OnGpu(Replica):
    """What a replica whose model is on a GPU says of itself, on a machine without one."""

    device_type = "cuda"


def test_cuda_graphs_that_torch_leaves_out_are_no_effect_of_a_mode_that_means_them():
    entry, model = CompileModel(mode="reduce-overhead"), nn.Linear(3, 2)
    made = OnGpu(models={"model": model})
    with CompileModel(backend="aot_eager").apply(made):
        model(torch.ones(2, 3))
        assert entry.took_effect(made).took_effect
        counters["inductor"]["cudagraph_skips"] += 2
        proof = entry.took_effect(made)
        assert CompileModel().took_effect(made).took_effect
    assert not proof.took_effect
    assert "left 2 CUDA graphs out" in proof.evidence


@pytest.mark.skipif(
    not hasattr(torch._inductor.config.triton, "cudagraph_trees_generation_cloning"),
    reason="this torch cannot save what CUDA graphs overwrite",
)
def test_results_of_cuda_graphs_are_saved_when_they_are_kept():
    settings, entry, model = torch._inductor.config.triton, CompileModel(mode="max-autotune"), nn.Linear(3, 2)
    with entry.apply(OnGpu(models={"model": model})):
        assert settings.cudagraph_trees_generation_cloning == "user_visible"
    assert settings.cudagraph_trees_generation_cloning is None
    with entry.apply(replica(model)):
        assert settings.cudagraph_trees_generation_cloning is None


def test_replicas_of_data_parallel_are_a_reason_against_regions():
    reasons = REGIONS.why_not(workload(nn.DataParallel(Tower())), read_machine())
    assert any("DataParallel" in str(reason) for reason in reasons)
    whole = CompileModel(backend="aot_eager").why_not(workload(nn.DataParallel(Tower())), read_machine())
    assert not any("DataParallel" in str(reason) for reason in whole)


def test_fullgraph_refuses_a_graph_break_that_is_let_pass_without():
    class Talks(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, x):
            x = self.linear(x)
            torch._dynamo.graph_break()
            return x.relu()

    model = Talks()
    with CompileModel(backend="aot_eager").apply(replica(model)):
        model(torch.ones(2, 3))
    with CompileModel(backend="aot_eager", fullgraph=True).apply(replica(model)):
        with pytest.raises(torch._dynamo.exc.Unsupported):
            model(torch.ones(2, 3))


@pytest.mark.parametrize(("dynamic", "expected"), [(None, 2), (True, 1), (False, 3)])
def test_dynamic_decides_how_often_other_sizes_compile(dynamic, expected):
    entry, model, before = CompileModel(backend="aot_eager", dynamic=dynamic), nn.Linear(3, 2), graphs()
    with entry.apply(replica(model)):
        for size in (4, 5, 6):
            model(torch.ones(size, 3))
    assert graphs() - before == expected


def test_a_whole_step_compiles_beside_a_fused_optimizer_and_leaves_that_alone():
    model, criterion = nn.Linear(3, 2), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters())
    made = Replica(
        models={"model": model}, criteria={"criterion": criterion}, optimizers={"optimizer": optimizer}
    )
    plan = Plan((CompileModel(backend="aot_eager", scope="step"), FusedOptimizer()))
    with plan.apply(made):
        for _ in range(2):
            criterion(model(torch.ones(4, 3)), torch.tensor([0, 1, 0, 1])).backward()
            optimizer.step()
        proofs = plan.proofs(made)
    assert all(proof.took_effect for _, proof in proofs), proofs
    assert "step" not in vars(optimizer)


def test_the_code_of_a_model_is_one_line():
    model = nn.Linear(3, 2)
    entry = CompileModel(mode="max-autotune", dynamic=True, fullgraph=True)
    assert entry.as_code(workload(model)) == (
        'model.compile(mode="max-autotune", dynamic=True, fullgraph=True)\n'
    )


def test_a_recompilation_names_the_models_own_forward_and_line():
    model = Tower()
    with CompileModel(backend="eager", dynamic=False).apply(replica(model)), CompileWatch() as watch:
        for rows in (2, 3):
            model(torch.randn(rows, 3))
    again = watch.found().recompilations[0]
    assert again.filename == __file__
    assert again.line == Tower.forward.__code__.co_firstlineno
    assert again.function.startswith("Tower_")


def test_a_model_of_torchs_own_classes_is_compiled_too():
    model = nn.Sequential(nn.Linear(3, 2))
    with CompileModel(backend="eager").apply(replica(model)):
        model(torch.randn(2, 3))
        assert CompileModel(backend="eager").took_effect(replica(model)).took_effect
