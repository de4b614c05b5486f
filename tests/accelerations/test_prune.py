"""Ways in which a pruned model could quietly be another model, or not come back."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import pytest
import torch
import torchvision
from small_training import bits, training, wiring, workload_of
from tests.environments.real import real_environment
from torch import nn

from accel.accelerations.bias_off import BiasOff
from accel.accelerations.channels_last import ChannelsLast
from accel.accelerations.prune import Prune
from accel.errors import AccelError
from accel.exporting.export import export_cell
from accel.labs.models import CNN
from accel.machine import read_machine
from accel.plans.plan import Plan
from accel.techniques.pruning.choosing_filters import plan_pruning
from accel.techniques.pruning.narrowed_model import NarrowedModel
from accel.workload import Replica
from accel.workload.call_inputs import CallInputs

IMAGES = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


def of(model):
    return Replica(models={"model": model})


def reasons(entry, model, images=IMAGES):
    workload = workload_of(of(model), {"model": model}, "", CallInputs.of_call(images))
    return entry.why_not(workload, read_machine())


def test_half_of_the_filters_of_the_course_model_leave_1_059_306_parameters():
    model = CNN(channels=3, size=32)
    with Prune().apply(of(model)):
        assert parameters(model) == 2_122_186
        model(IMAGES)
        assert parameters(model) == 1_059_306
        proof = Prune().took_effect(of(model))
        assert proof.evidence == "filters conv1 32→16, conv2 64→32; 2,122,186 → 1,059,306 parameters"
    assert parameters(model) == 2_122_186


@pytest.mark.environment
@pytest.mark.fresh_interpreters
def test_nni_takes_the_same_filters_and_the_weights_come_home(monkeypatch):
    real_environment("nni", monkeypatch)
    model, entry = CNN(channels=3, size=32), Prune(engine="nni")
    before = copy.deepcopy(model.state_dict())
    of_nni, of_torch_pruning = (
        plan_pruning(model, (IMAGES,), sparsity=0.5, engine=engine) for engine in ("nni", "torch_pruning")
    )
    assert of_nni.filters == of_torch_pruning.filters == {"conv1": (32, 16), "conv2": (64, 32)}
    strongest = model.conv1.weight.detach().abs().sum(dim=(1, 2, 3)).topk(16).indices.sort().values
    expected = model.conv1.weight.detach()[strongest].clone()
    with entry.apply(of(model)):
        model(IMAGES).sum().backward()
        assert parameters(model) == 1_059_306
        assert torch.equal(model.conv1.weight, expected)
        assert model.conv1.weight.grad.shape == (16, 3, 3, 3)
        assert "2,122,186 → 1,059,306 parameters" in entry.took_effect(of(model)).evidence
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: torchvision.models.resnet18(num_classes=10), 2_801_450),  # residual additions
        (lambda: torchvision.models.mobilenet_v2(num_classes=10), None),  # depthwise convolutions
        (lambda: torchvision.models.densenet121(num_classes=10), 1_766_858),  # concatenations
    ],
    ids=["resnet18", "mobilenet_v2", "densenet121"],
)
def test_real_networks_get_smaller_keep_their_outputs_shape_and_train(build, expected):
    model = build()
    model.requires_grad_(True)
    before = [tensor.clone() for tensor in model.state_dict().values()]
    full = parameters(model)
    narrowed = NarrowedModel(model)
    narrowed.narrow(plan_pruning(model, (IMAGES,), sparsity=0.5))
    assert parameters(model) == (expected or parameters(model)) < 0.4 * full
    output = model.train()(IMAGES)
    assert output.shape == (4, 10)
    output.sum().backward()
    narrowed.widen()
    after = list(model.state_dict().values())
    parameters_only = dict(model.named_parameters())
    for name, old, new in zip(model.state_dict(), before, after, strict=True):
        assert old.shape == new.shape
        assert name not in parameters_only or torch.equal(old, new)


def test_the_filters_with_the_smallest_weights_go_and_the_rest_compute_as_before():
    """A model whose weak filters are all zeros computes the same without them."""
    model = CNN(channels=3, size=32)
    with torch.no_grad():
        for conv, following in ((model.conv1, model.conv2), (model.conv2, None)):
            conv.weight[::2], conv.bias[::2] = 0.0, 0.0
            if following is not None:
                following.weight[:, ::2] = 0.0
    expected = model(IMAGES)
    with Prune().apply(of(model)):
        torch.testing.assert_close(model(IMAGES), expected)
        assert model.conv2.weight.shape == (32, 16, 3, 3)


@pytest.mark.parametrize("criterion", ["l1", "l2", "fpgm", "taylor"])
def test_every_criterion_takes_out_the_same_number(criterion):
    model, entry = CNN(channels=3, size=32), Prune(criterion=criterion)
    with entry.apply(of(model)):
        for _ in range(2):
            model(IMAGES).sum().backward()
        assert parameters(model) == 1_059_306
        assert entry.took_effect(of(model)).took_effect


@pytest.mark.parametrize("sparsity", [0.1, 0.3, 0.7, 0.9])
def test_rounding_never_takes_one_filter_more(sparsity):
    model = nn.Sequential(
        nn.Conv2d(3, 10, 3), nn.ReLU(), nn.Conv2d(10, 10, 3), nn.Flatten(), nn.LazyLinear(2)
    )
    model(IMAGES)
    with Prune(sparsity=sparsity).apply(of(model)):
        model(IMAGES)
        assert model[0].weight.shape[0] == round(10 * (1 - sparsity))


def test_types_and_exclude_say_which_layers_lose_filters():
    model = CNN(channels=3, size=32)
    with Prune(types="linear").apply(of(model)):
        model(IMAGES)
        assert (model.conv1.out_channels, model.linear1.out_features, model.linear2.out_features) == (
            32,
            256,
            10,
        )
    with Prune(types="all", exclude="conv1, linear1").apply(of(model)):
        model(IMAGES)
        assert (model.conv1.out_channels, model.conv2.out_channels, model.linear1.out_features) == (
            32,
            32,
            512,
        )
    (reason,) = reasons(Prune(exclude="conv7"), model)
    assert "no such layer. Write names from this list: conv1, relu1" in str(reason)


def test_a_convolution_that_is_the_output_stays_whole():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1))
    with Prune().apply(of(model)):
        assert model(IMAGES).shape[1] == 4
        assert model[0].out_channels == 4


@pytest.mark.parametrize(
    "optimizer", [torch.optim.Adam, torch.optim.SGD, torch.optim.Adafactor], ids=lambda kind: kind.__name__
)
def test_optimizer_state_is_cut_and_put_back_with_the_weights(optimizer):
    made = training(optimizer, steps_before=2)
    before, wires = bits(made), wiring(made)
    filters = made.model[0].weight
    with Prune().apply(Replica(models={"model": made.model}, is_process_wide=False)):
        made.model(torch.zeros(4, 3, 8, 8))
        assert made.model[0].weight is filters
        for value in made.optimizer.state[filters].values():
            assert value.dim() < 4 or value.shape[0] == 2
    # the call in training moved the running statistics of the BatchNorm, and nothing else
    after = bits(made)
    names = list(made.model.state_dict())
    assert [b == a for b, a in zip(before, after, strict=True)][: len(names)].count(False) == 3
    assert before[len(names) :] == after[len(names) :]
    assert wiring(made) == wires
    with Prune().apply(made.replica()):
        made.epochs(2)
    twin = made.twin()
    assert made.epochs() == twin.epochs()


def test_a_loss_of_an_earlier_step_that_is_still_alive_does_no_harm():
    """Its graph holds the node that receives a weight's gradient, and that expects the old shape."""
    made = training()
    images, targets = next(iter(made.loader))
    loss = made.criterion(made.model(images), targets)
    loss.backward()
    with Prune().apply(made.replica()):
        later = made.criterion(made.model(images), targets)
        later.backward()
        assert made.model[0].weight.grad.shape == (2, 3, 3, 3)
    made.criterion(made.model(images), targets).backward()
    assert made.model[0].weight.grad.shape == (4, 3, 3, 3)
    assert loss.grad_fn is not None
    plain = training()
    loss = plain.criterion(plain.model(images), targets)
    loss.backward()
    exec(Prune().as_code(plain.workload()), plain.namespace)
    plain.criterion(plain.model(images), targets).backward()


def test_trained_filters_come_back_at_their_places():
    made = training(steps_before=1)
    before = made.model[0].weight.detach().clone()
    with Prune().apply(made.replica()):
        made.epochs()
        trained = made.model[0].weight.detach().clone()
    now = made.model[0].weight.detach()
    moved = [index for index in range(4) if not torch.equal(now[index], before[index])]
    assert torch.equal(now[moved], trained)


def test_taking_a_plan_off_and_on_again_keeps_the_same_filters():
    """A trial does that to what is kept; after training another filter may be the weakest."""
    made, entry = training(), Prune()
    with entry.apply(made.replica()):
        made.epochs(3)
        before = [tensor.clone() for tensor in made.model.state_dict().values()]
    with torch.no_grad(), entry.apply(made.replica()):
        assert all(map(torch.equal, before, made.model.state_dict().values()))
    with torch.no_grad():
        made.model[0].weight.neg_()
    with entry.apply(made.replica()):
        assert parameters(made.model) == parameters(
            training().model
        )  # it has changed since: chosen anew at its call


def test_warm_up_and_stages_come_after_so_many_training_calls():
    made, entry = training(), Prune(sparsity=0.75, warm_up_steps=3, stages=3, steps_between=2)
    widths = []
    with entry.apply(made.replica()):
        handle = made.model.register_forward_hook(lambda *_: widths.append(made.model[0].out_channels))
        made.epochs(3)
        handle.remove()
        made.model.eval()
        made.model(torch.zeros(1, 3, 8, 8))
        assert not Prune().took_effect(Replica()).took_effect
    assert widths == [4, 4, 4, 3, 3, 2, 2, 1, 1]
    assert made.model[0].out_channels == 4


def test_before_its_warm_up_is_over_the_proof_says_so():
    made, entry = training(), Prune(warm_up_steps=100)
    with entry.apply(made.replica()):
        made.epochs()
        proof = entry.took_effect(made.replica())
    assert (proof.took_effect, proof.evidence) == (
        False,
        "nothing was taken out yet: 3 of 101 training calls came",
    )


def test_exported_stages_give_the_losses_of_the_live_plan():
    for entry in (
        Prune(warm_up_steps=2, stages=2, steps_between=1, types="all", exclude="3"),
        Prune(criterion="fpgm", exclude="0"),
    ):
        live, plain = training(steps_before=1), training(steps_before=1)
        with entry.apply(live.replica()):
            expected = live.epochs(3)
        exec(entry.as_code(plain.workload()), plain.namespace)
        assert plain.epochs(3) == expected


@pytest.mark.parametrize("entry", [Prune(), Prune(warm_up_steps=1)], ids=str)
def test_exported_code_that_runs_again_takes_out_nothing_more(entry):
    made = training()
    for _ in range(3):
        exec(entry.as_code(made.workload()), made.namespace)
        made.epochs()
    assert made.model[0].out_channels == 2


def test_copies_made_meanwhile_are_small_models_of_their_own():
    made = training()
    with Prune().apply(made.replica()):
        made.epochs()
        copies = [copy.deepcopy(made.model), pickle.loads(pickle.dumps(made.model))]
    for copied in copies:
        assert copied[0].weight.shape[0] == 2
        assert copied(torch.zeros(1, 3, 8, 8)).shape == (1, 5)


def test_choosing_disturbs_neither_random_numbers_nor_the_users_hooks():
    model, calls = CNN(channels=3, size=32), []
    model.conv1.register_forward_hook(lambda *_: calls.append(1))
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with Prune().apply(of(model)), torch.inference_mode():
        model(IMAGES)
    assert torch.equal(torch.rand(3), expected)
    assert calls == [1]


def test_stacked_with_a_layout_and_without_biases_everything_comes_back():
    made = training(steps_before=1)
    before = bits(made), wiring(made)
    plan = Plan((BiasOff(scope="before norm"), ChannelsLast(), Prune()))
    with plan.apply(made.replica()):
        with torch.no_grad():
            made.model.eval()(torch.zeros(2, 3, 8, 8))
        made.model.train()
        assert made.model[0].weight.is_contiguous(memory_format=torch.channels_last)
        assert made.model[0].weight.shape[0] == 2
    assert (bits(made), wiring(made)) == before


def test_a_width_written_into_the_forward_is_a_reason():
    class Written(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.linear = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8 * 32 * 32, 2)

        def forward(self, x):
            return self.linear(torch.relu(self.conv(x)).view(-1, 8 * 32 * 32))

    (reason,) = reasons(Prune(), Written())
    assert "the pruned model" in str(reason)


def test_other_layers_in_training_than_in_evaluation_are_a_reason():
    class Auxiliary(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head, self.auxiliary = nn.Conv2d(3, 8, 3), nn.Linear(8, 2), nn.Linear(8, 2)

        def forward(self, x):
            x = torch.relu(self.conv(x)).mean((2, 3))
            return self.head(x) + self.auxiliary(x) if self.training else self.head(x)

    assert len(reasons(Prune(), Auxiliary().eval())) == 1


def test_a_reason_comes_and_goes_with_the_layers_of_the_same_cell():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 2, 3), nn.Flatten(), nn.LazyLinear(2))
    model(IMAGES)
    workload = workload_of(of(model), {"model": model}, "", CallInputs.of_call(IMAGES))
    assert Prune().why_not(workload, read_machine()) == []
    model[0] = nn.Conv2d(3, 4, 3)  # no longer what the next layer takes
    assert len(Prune().why_not(workload, read_machine())) == 1
    assert len(Prune().why_not(workload, read_machine())) == 1
    model[0] = nn.Conv2d(3, 8, 3)
    assert Prune().why_not(workload, read_machine()) == []


def test_a_model_is_followed_once_for_a_cell_while_its_layers_stay():
    class Counting(CNN):
        calls = 0

        def forward(self, images):
            Counting.calls += 1  # of its copies too
            return super().forward(images)

    model = Counting(channels=3, size=32)
    workload = workload_of(of(model), {"model": model}, "", CallInputs.of_call(IMAGES))
    assert Prune().why_not(workload, read_machine()) == []
    calls = Counting.calls
    assert calls
    assert Prune().why_not(workload, read_machine()) == []
    assert Counting.calls == calls
    assert Prune(sparsity=0.25).why_not(workload, read_machine()) == []
    assert Counting.calls > calls


def test_shared_and_computed_weights_are_a_reason():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)
            self.third = nn.Conv2d(3, 3, 1)
            self.third.weight = self.first.weight

        def forward(self, x):
            return self.third(torch.relu(self.second(torch.relu(self.first(x)))))

    assert len(reasons(Prune(), Shared())) == 1
    made = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 8, 3)), nn.Conv2d(8, 2, 3))
    assert "computed from others" in str(reasons(Prune(), made)[0])


def test_what_cannot_be_pruned_raises_at_the_first_call_and_says_what_to_do():
    made = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 2))
    with Prune().apply(of(made)), pytest.raises(AccelError, match="no layer of these types"):
        made(IMAGES)
    assert made(IMAGES).shape == (4, 2)


def test_knobs_out_of_range_are_refused():
    for knobs in (
        {"sparsity": 0.96},
        {"sparsity": -0.1},
        {"stages": 0},
        {"warm_up_steps": -1},
        {"steps_between": 0},
    ):
        with pytest.raises(AccelError):
            Prune(**knobs)
    assert Plan.parse('prune(sparsity=0.3, criterion="fpgm")') == Plan(
        (Prune(sparsity=0.3, criterion="fpgm"),)
    )
    assert "At sparsity=0" in str(reasons(Prune(sparsity=0.0), CNN(channels=3, size=32))[0])


def test_nothing_keeps_a_model_alive():
    model = CNN(channels=3, size=32)
    gone = weakref.ref(model)
    with Prune().apply(of(model)):
        model(IMAGES)
    del model
    gc.collect()
    assert gone() is None


def test_an_export_narrows_the_optimizers_state_also_beside_a_fused_optimizer():
    workload = training(steps_before=1).workload("train(model, loader, criterion, optimizer)")
    for plan in ("prune", "prune+fused_optimizer"):
        assert (
            "prune(model, 0.5, [optimizer], torch.zeros(4, 3, 8, 8))"
            in export_cell(workload, Plan.parse(plan)).code
        )


class Counting(nn.Module):
    """A model that counts its own calls."""

    def __init__(self):
        super().__init__()
        self.body, self.calls = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)), 0

    def forward(self, images):
        self.calls += 1
        return self.body(images)


def test_a_model_that_counts_its_calls_counts_on():
    model, images = Counting(), torch.randn(2, 1, 8, 8)
    with Prune().apply(Replica(models={"model": model})):
        for _ in range(3):
            model(images)
        assert model.calls == 3
    assert model.calls == 3
