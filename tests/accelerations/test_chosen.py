"""Plans that act on some of a cell's objects: `channels_last(on="generator")`."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_training import workload_of
from torch import nn

from accel.errors import AccelError, UnknownName
from accel.machine import read_machine
from accel.plans.live_plan import LivePlan
from accel.plans.plan import Plan
from accel.workload import Replica


class Generator(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 3, 3, padding=1))


class Critic(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 1))


def gan() -> Replica:
    torch.manual_seed(0)
    models = {"generator": Generator(), "critic": Critic()}
    optimizers = {f"{name}_optimizer": torch.optim.Adam(model.parameters()) for name, model in models.items()}
    return Replica(models=models, optimizers=optimizers)


def workload_with(replica: Replica):
    return workload_of(replica, {**replica.models, **replica.optimizers})


def is_channels_last(model: nn.Module) -> bool:
    return model[0].weight.is_contiguous(memory_format=torch.channels_last)


def test_only_the_named_model_changes_and_undo_restores_it():
    made = gan()
    with Plan.parse('channels_last(on="generator")').apply(made):
        assert is_channels_last(made.models["generator"])
        assert not is_channels_last(made.models["critic"])
    assert not is_channels_last(made.models["generator"])


def test_a_models_optimizer_belongs_to_it():
    made = gan()
    plan = Plan.parse('fused_optimizer(on="generator")').resolved(workload_with(made))
    assert str(plan) == 'fused_optimizer(on="generator,generator_optimizer")'
    with plan.apply(made):
        fused = {name: o.param_groups[0]["fused"] for name, o in made.optimizers.items()}
    assert fused == {"generator_optimizer": True, "critic_optimizer": None}


def test_what_is_kept_acts_on_the_named_object_alone():
    made = gan()
    live = LivePlan(workload_with(made))
    live.keep(Plan.parse('channels_last(on="critic")'))
    live.keep(Plan.parse('fused_optimizer(on="generator_optimizer")'))
    assert str(live.plan) == 'channels_last(on="critic")+fused_optimizer(on="generator_optimizer")'
    assert is_channels_last(made.models["critic"])
    assert not is_channels_last(made.models["generator"])
    assert made.optimizers["critic_optimizer"].param_groups[0]["fused"] is None
    live.undo("channels_last")
    assert not is_channels_last(made.models["critic"])
    assert made.optimizers["generator_optimizer"].param_groups[0]["fused"] is True
    live.undo()


def test_the_proof_is_read_from_the_named_object_alone():
    made = gan()
    plan = Plan.parse('fused_optimizer(on="critic_optimizer")')
    with plan.apply(made):
        for network, optimizer in zip(made.models.values(), made.optimizers.values(), strict=True):
            for parameter in network.parameters():
                parameter.grad = torch.ones_like(parameter)
            optimizer.step()
        ((_, proof),) = plan.proofs(made)
        ((_, of_both),) = Plan.parse("fused_optimizer").proofs(made)
    assert proof.took_effect, proof.evidence
    assert not of_both.took_effect


def test_reasons_concern_the_named_objects_alone():
    made = gan()
    made.optimizers["critic_optimizer"] = torch.optim.LBFGS(made.models["critic"].parameters())
    workload = workload_with(made)
    assert Plan.parse("fused_optimizer").why_not(workload, read_machine())
    assert not Plan.parse('fused_optimizer(on="generator_optimizer")').why_not(workload, read_machine())


def test_what_belongs_to_the_process_cannot_act_on_one_object():
    reasons = Plan.parse('steady_allocator(on="generator")').why_not(workload_with(gan()), read_machine())
    (reason,) = reasons["steady_allocator"]
    assert str(reason) == "steady_allocator changes the whole process, not generator alone. Leave out on=."


def test_a_wrong_name_is_refused_with_the_nearest_right_one():
    with pytest.raises(UnknownName, match="generator"):
        Plan.parse('channels_last(on="generatr")').resolved(workload_with(gan()))


@pytest.mark.parametrize("written", ["on=3", 'on=""', 'on="a b"', 'on="1a"', 'on="a,,b-"'])
def test_what_cannot_be_a_list_of_names_is_refused(written):
    with pytest.raises(AccelError, match="on"):
        Plan.parse(f"channels_last({written})")


names = st.lists(
    st.from_regex(r"\A[a-z_][a-z0-9_]{0,8}(\.[a-z]{1,5})?\Z"), min_size=1, max_size=4, unique=True
)


@given(names, names)
def test_a_plan_is_read_back_as_it_was_written(first, second):
    plan = Plan.parse("channels_last+loader_workers(n=3)").only_on(*first)
    plan = plan.with_(*plan.without("channels_last").entries, on=tuple(second))
    assert Plan.parse(str(plan)) == plan
    assert plan.objects_of("loader_workers") == tuple(second)


def test_plans_for_other_objects_are_other_plans():
    first, second = (Plan.parse(f'channels_last(on="{name}")') for name in ("generator", "critic"))
    assert first != second
    assert first.updated(second) == second
    assert Plan.parse("channels_last").only_on("critic") == second
    assert first.only_on("critic") == first
