"""Ways in which a layer without its bias could quietly become another one, or stay as it was."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from small_training import Training, training
from torch import nn

from accel.accelerations.bias_off import BiasOff
from accel.labs.models import CNN
from accel.machine import read_machine
from accel.plans.plan import Plan
from accel.techniques.pruning.biased_layers import biased_layers
from accel.workload import Replica

BEFORE_NORM = BiasOff(scope="before norm")


def parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


def test_the_course_model_has_1_629_472_parameters_without_any_bias():
    model = CNN()
    assert parameters(model) == 1_630_090
    with BiasOff().apply(Replica(models={"model": model})):
        assert parameters(model) == 1_629_472
    assert parameters(model) == 1_630_090


def test_before_a_batch_norm_the_model_computes_the_same_in_training_and_in_evaluation():
    made, usual = training(steps_before=5), training(steps_before=5)
    images = torch.randn(6, 3, 8, 8)
    with BEFORE_NORM.apply(made.replica()):
        assert made.model[0].bias is None
        assert made.model[3].bias is not None
        torch.testing.assert_close(made.model.eval()(images), usual.model.eval()(images))
        torch.testing.assert_close(made.model.train()(images), usual.model.train()(images))
    torch.testing.assert_close(made.model.eval()(images), usual.model.eval()(images))


def test_only_a_layer_that_goes_straight_and_alone_into_a_norm_of_its_width_counts():
    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            self.kept, self.norm = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)
            self.plain, self.other_norm = nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)
            self.first, self.second, self.shared_norm = (
                nn.Conv2d(4, 4, 1),
                nn.Conv2d(4, 4, 1),
                nn.BatchNorm2d(4),
            )

        def forward(self, x):
            x = self.kept(x)
            x = x + self.norm(x)  # the bias comes through beside the norm
            x = self.other_norm(self.plain(x))
            return self.shared_norm(self.first(x)) + self.shared_norm(self.second(x))

    assert list(biased_layers(Branching(), "before norm")) == ["plain"]


def test_a_forward_that_cannot_be_followed_is_a_reason_and_left_alone():
    class Deciding(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

        def forward(self, x):
            return self.norm(self.conv(x)) if x.sum() > 0 else self.conv(x)

    made = training()
    made.model = Deciding()
    (reason,) = BEFORE_NORM.why_not(made.workload(), read_machine())
    assert "torch.fx cannot follow" in str(reason)
    with BEFORE_NORM.apply(made.replica()):
        assert made.model.conv.bias is not None
        assert not BEFORE_NORM.took_effect(made.replica()).took_effect
    assert BiasOff().why_not(made.workload(), read_machine()) == []


def test_a_gradient_from_before_does_not_move_a_bias_that_is_out():
    """`model.zero_grad()` no longer reaches it, and the optimizer still holds it."""
    made = training(steps_before=1)
    bias = made.model[3].bias
    before = bias.detach().clone()
    assert bias.grad is not None
    with BiasOff().apply(made.replica()):
        for images, targets in made.loader:
            made.model.zero_grad()
            made.criterion(made.model(images), targets).backward()
            made.optimizer.step()
        assert torch.equal(bias, before)
    assert made.model[3].bias is bias


def test_layers_whose_class_insists_on_a_bias_keep_theirs():
    class Scaled(nn.Linear):
        def forward(self, x):
            return x @ self.weight.T + 2 * self.bias

    model = nn.Sequential(
        Scaled(8, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Linear(8, 2)
    )
    with BiasOff().apply(Replica(models={"model": model})):
        assert model[2].bias is None
        model.eval()(torch.randn(2, 3, 8))
        model.train()(torch.randn(2, 3, 8)).sum().backward()


@pytest.mark.parametrize("entry", [BiasOff(), BEFORE_NORM], ids=str)
def test_a_copy_made_meanwhile_is_without_biases_too(entry):
    made = training()
    with entry.apply(made.replica()):
        copied = copy.deepcopy(made.model)
        assert copied[0].bias is None
        made.epochs()
    assert made.model[0].bias is not None


@pytest.mark.parametrize("entry", [BiasOff(), BEFORE_NORM], ids=str)
def test_exported_code_may_run_again(entry):
    made = training()
    code = entry.as_code(made.workload())
    exec(code, made.namespace)
    mean = made.model[1].running_mean.clone()
    exec(code, made.namespace)
    assert torch.equal(made.model[1].running_mean, mean)


def test_models_without_a_bias_have_nothing_to_take_out():
    made = training()
    made.model = CNN(bias=False)
    assert [
        "no linear or convolution layer" in str(reason)
        for reason in BiasOff().why_not(made.workload(), read_machine())
    ] == [True]
    assert Plan.parse('bias_off(scope="before norm")') == Plan((BEFORE_NORM,))


class Curious(nn.Module):
    """A forward that does more than compute."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.register_buffer("calls", torch.zeros(()))
        self.features, self.shown = None, 0

    def forward(self, x):
        self.calls += 1
        self.shown += 1
        print("called")
        self.features = self.norm(self.conv(x))
        return self.features


@pytest.mark.parametrize("entry", [BiasOff(), BEFORE_NORM], ids=str)
def test_looking_for_norms_leaves_no_trace_in_the_model(entry, capsys):
    made, fired = training(), []
    made.model = Curious()
    made.model.conv.register_forward_hook(lambda *_: fired.append(1))
    assert entry.why_not(made.workload(), read_machine()) == []
    code = entry.as_code(made.workload())
    with entry.apply(made.replica()):
        assert made.model.conv.bias is None
    assert (made.model.features, made.model.shown, int(made.model.calls)) == (None, 0, 0)
    assert fired == []
    assert capsys.readouterr().out == ""
    assert "{'conv': 'norm'}" in code


def test_a_list_of_what_is_applicable_does_not_follow_a_forward(monkeypatch):
    made = training()
    monkeypatch.setattr(torch.fx.Tracer, "trace", lambda *_: pytest.fail("it was traced"))
    assert BiasOff().why_not(made.workload(), read_machine()) == []


@pytest.mark.parametrize("entry", [BiasOff(), BEFORE_NORM], ids=str)
def test_a_model_that_was_moved_to_another_format_meanwhile_gets_its_biases_in_that_format(entry):
    made, twin = training(steps_before=1), training(steps_before=1)
    with entry.apply(made.replica()):
        made.model.double()
    twin.model.double()
    images = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    assert {p.dtype for p in made.model.parameters()} == {torch.float64}
    assert made.model[0].bias.grad.dtype == torch.float64
    torch.testing.assert_close(made.model[1].running_mean, twin.model[1].running_mean)
    torch.testing.assert_close(made.model.eval()(images), twin.model.eval()(images))


def test_a_lazy_layer_is_a_reason():
    made = training()
    made.model = nn.Sequential(nn.LazyConv2d(4, 3), nn.Conv2d(4, 4, 3))
    (reason,) = BiasOff().why_not(made.workload(), read_machine())
    assert "lazy" in str(reason)


@pytest.mark.skipif(
    not torch.distributed.is_available(), reason="this torch is built without torch.distributed"
)
def test_distributed_data_parallel_is_a_reason():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        made = training()
        made.model = nn.parallel.DistributedDataParallel(made.model)
        (reason,) = BiasOff().why_not(made.workload(), read_machine())
    finally:
        torch.distributed.destroy_process_group()
    assert "DistributedDataParallel" in str(reason)


def with_layers_that_insist() -> Training:
    class Scaled(nn.Linear):
        def forward(self, x):
            return x @ self.weight.T + 2 * self.bias

    made = training()
    made.model.extend([Scaled(5, 8), nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), nn.Linear(8, 5)])
    made.optimizer = torch.optim.Adam(made.model.parameters(), lr=0.01)
    return made


@pytest.mark.parametrize("entry", [BiasOff(), BEFORE_NORM], ids=str)
def test_code_for_a_model_that_is_out_of_reach_chooses_the_same_layers(entry):
    live, plain = with_layers_that_insist(), with_layers_that_insist()
    workload = plain.workload()
    unseen = dataclasses.replace(workload, namespace={})
    plain_model = plain.model
    roles = tuple(dataclasses.replace(role, reference=lambda: None) for role in workload.roles)
    code = entry.as_code(dataclasses.replace(unseen, roles=roles))
    assert "accel" not in code
    exec(code, {"model": plain_model, "__name__": "__main__"})
    with entry.apply(live.replica()):
        without = [name for name, module in live.model.named_modules() if getattr(module, "bias", 0) is None]
        assert without == [
            name for name, module in plain.model.named_modules() if getattr(module, "bias", 0) is None
        ]
        assert without
        assert plain.epochs(2) == live.epochs(2)
        assert torch.equal(plain.model[1].running_mean, live.model[1].running_mean)
