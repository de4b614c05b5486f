"""Loss scaling for float16 that the cell does not see: true gradients, skipped steps, and the loops that it must be right for."""

from __future__ import annotations

import dataclasses
import warnings

import pytest
import torch
from small_training import training
from torch import nn
from torch.optim.optimizer import _global_optimizer_pre_hooks
from torch.utils.checkpoint import checkpoint

from accel.accelerations.autocast import Autocast
from accel.accelerations.prune import Prune
from accel.exporting.export import export_cell
from accel.machine import read_machine
from accel.plans.plan import Plan
from accel.techniques.model.model_call import find_wrapper
from accel.techniques.numerics import loss_scaling
from accel.techniques.numerics.loss_scaling import LossScaling, live_loss_scaling, scaled_backward_passes
from accel.techniques.pruning.pruning_call import PruningCall
from accel.workload import Replica

FP16 = Autocast(dtype="fp16")
CLOSE = {"rel": 0.02, "abs": 1e-4}


def net(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))


def gradients(*models: nn.Module) -> list[float]:
    return [
        g
        for model in models
        for p in model.parameters()
        if p.grad is not None
        for g in p.grad.flatten().tolist()
    ]


def with_and_without(step, *makers):
    """The gradients that `step(*models)` leaves in float32, and those in float16 with loss scaling."""
    results = []
    for plan in (Plan(), Plan((FP16,))):
        models = [make() for make in makers]
        with plan.apply(Replica(models={f"model{n}": model for n, model in enumerate(models)})):
            step(*models)
        results.append(gradients(*models))
    return results


IMAGES = torch.linspace(-1, 1, 24).reshape(4, 6)


def two_backward_calls(model):
    for part in IMAGES.chunk(2):
        model(part).square().mean().backward()


def one_graph_twice(model):
    loss = model(IMAGES).square().mean()
    loss.backward(retain_graph=True)
    loss.backward()


def two_losses_at_once(model):
    output = model(IMAGES)
    torch.autograd.backward([output.square().mean(), output.abs().mean()])


def weight_decay_written_by_hand(model):
    loss = model(IMAGES).square().mean() + 0.1 * sum(p.square().sum() for p in model.parameters())
    loss.backward()


def shared_weights(model):
    model.append(model[0])  # used in one call under two names
    model.insert(3, nn.Linear(1, 6))
    model(IMAGES).square().mean().backward()


def frozen_weights(model):
    model[0].requires_grad_(False)
    model(IMAGES).square().mean().backward()


def a_loss_of_an_inner_layer(model):
    kept = []
    model[0].register_forward_hook(lambda module, inputs, output: kept.append(output))
    (0.1 * model(IMAGES).mean() + kept[0].float().square().mean()).backward()


def checkpointed(use_reentrant):
    def step(model):
        inputs = IMAGES.clone().requires_grad_()
        model.forward = lambda x: model[2](checkpoint(model[:2], x, use_reentrant=use_reentrant))
        model(inputs).square().mean().backward()

    return step


def a_gradient_given(model):
    model(IMAGES).backward(torch.full((4, 1), 0.1))


def only_some_inputs(model):
    model(IMAGES).square().mean().backward(inputs=[model[2].weight])


@pytest.mark.parametrize(
    "step",
    [
        two_backward_calls, one_graph_twice, two_losses_at_once, weight_decay_written_by_hand, shared_weights, frozen_weights,
        a_loss_of_an_inner_layer, checkpointed(use_reentrant=False), checkpointed(use_reentrant=True), a_gradient_given,
        only_some_inputs,
    ],
    ids=lambda step: step.__qualname__.partition(".")[0],
)  # fmt: skip
def test_gradients_after_backward_are_the_true_ones(step):
    expected, found = with_and_without(step, net)
    assert len(expected) > 1
    assert found == pytest.approx(expected, **CLOSE)


def test_a_discriminator_hands_true_gradients_to_the_generator():
    def step(generator, discriminator):
        discriminator(generator(IMAGES)).square().mean().backward()

    def generator():
        return nn.Sequential(net(1), nn.Linear(1, 6))

    expected, found = with_and_without(step, generator, net)
    assert found == pytest.approx(expected, **CLOSE)


def test_inputs_that_want_gradients_get_true_ones():
    found = []
    for plan in (Plan(), Plan((FP16,))):
        model, images = net(), IMAGES.clone().requires_grad_()
        with plan.apply(Replica(models={"model": model})):
            model(images).square().mean().backward()
        found.append(images.grad.flatten().tolist())
    assert found[1] == pytest.approx(found[0], **CLOSE)


def test_gradients_too_small_for_float16_survive():
    """Without a scale they round to nothing: that is what the scale is for."""

    def step(model):
        (model(IMAGES).mean() * 1e-7).backward()

    expected, found = with_and_without(step, net)
    assert found == pytest.approx(expected, rel=0.05, abs=1e-11)
    model = net()
    with torch.autocast("cpu", dtype=torch.float16):
        output = model(IMAGES)
    (output.float().mean() * 1e-7).backward()
    assert not any(gradients(model)[:48])


def test_clipping_in_the_cell_sees_the_norm_of_the_true_gradients():
    norms = []
    for plan in (Plan(), Plan((FP16,))):
        made = training(steps_before=1)
        with plan.apply(made.replica()):
            for images, targets in made.loader:
                made.optimizer.zero_grad()
                made.criterion(made.model(images), targets).backward()
                norms.append(float(nn.utils.clip_grad_norm_(made.model.parameters(), 0.1)))
                assert float(nn.utils.get_total_norm(p.grad for p in made.model.parameters())) <= 0.11
                made.optimizer.step()
                break
    assert norms[1] == pytest.approx(norms[0], rel=0.02)
    assert norms[0] > 0.1


def test_losses_of_a_whole_training_follow_float32():
    usual = training(steps_before=1).epochs(10)
    made = training(steps_before=1)
    with FP16.apply(made.replica()):
        assert made.epochs(10) == pytest.approx(usual, rel=0.05, abs=2e-3)
        assert live_loss_scaling().passes == 30


def overflow(made):
    """One step whose gradients are too large for float16, though not for float32."""
    made.optimizer.zero_grad()
    images, targets = next(iter(made.loader))
    (made.criterion(made.model(images), targets) * 1e6).backward()


def state_of(made):
    numbers = [*made.model.parameters(), *(v for s in made.optimizer.state.values() for v in s.values())]
    return [number.detach().clone() for number in numbers]


@pytest.mark.parametrize("clip", [None, nn.utils.clip_grad_value_, nn.utils.clip_grad_norm_])
@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad])
def test_a_step_whose_gradients_overflowed_changes_nothing_and_is_told(kind, clip):
    made = training(kind, steps_before=1)
    with FP16.apply(made.replica()):
        before = state_of(made)
        overflow(made)
        if clip:
            clip(made.model.parameters(), 1.0)
        made.optimizer.step()
        assert all(map(torch.equal, before, state_of(made)))
        assert all(p.grad is not None for p in made.model.parameters())
        made.epochs(1)
        assert not all(map(torch.equal, before, state_of(made)))
        proof = FP16.took_effect(made.replica())
    assert proof.took_effect
    assert "1 of 4 steps skipped, loss scale 32768" in proof.evidence


def test_one_overflow_that_two_optimizers_meet_halves_the_scale_once():
    model = net()
    optimizers = [torch.optim.SGD(model[n].parameters(), lr=0.1) for n in (0, 2)]
    with (
        scaled_backward_passes() as scaling,
        FP16.apply(Replica(models={"model": model}, is_process_wide=False)),
    ):
        (model(IMAGES).mean() * 1e30).backward()
        (model(IMAGES).mean() * 1e-3).backward()  # accumulates onto what overflowed
        before = [p.clone() for p in model.parameters()]
        for optimizer in optimizers:
            optimizer.step()
        assert all(map(torch.equal, before, model.parameters()))
        assert (scaling.skipped, scaling.scale) == (2, 2.0**15)
        for optimizer in optimizers:
            optimizer.zero_grad()
        (model(IMAGES).mean() * 1e-3).backward()
        for optimizer in optimizers:
            optimizer.step()
    assert scaling.skipped == 2


def test_an_optimizer_whose_own_gradients_are_sound_steps_though_another_one_skips():
    first, second = net(1), net(2)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (first, second)]
    before = [[p.clone() for p in model.parameters()] for model in (first, second)]
    with FP16.apply(Replica(models={"first": first, "second": second})):
        (first(IMAGES).mean() * 1e30).backward()
        second(IMAGES).mean().backward()
        for optimizer in optimizers:
            optimizer.step()
    assert all(map(torch.equal, before[0], first.parameters()))
    assert not all(map(torch.equal, before[1], second.parameters()))


def test_the_scale_doubles_after_as_many_good_passes_as_with_a_grad_scaler():
    weight = nn.Parameter(torch.ones(1))
    assert torch.amp.GradScaler("cpu").get_growth_interval() == 2000
    with scaled_backward_passes() as scaling:
        assert scaling.scale == 2.0**16  # a GradScaler's init_scale
        for _ in range(2000):
            (weight * 1e-3).sum().backward()
        assert scaling.scale == 2.0**17
    assert weight.grad.item() == pytest.approx(2.0, rel=1e-3)


def test_a_learning_rate_schedule_goes_on_over_a_skipped_step_without_a_warning():
    made = training(torch.optim.SGD)
    schedule = torch.optim.lr_scheduler.StepLR(made.optimizer, 1)
    with FP16.apply(made.replica()), warnings.catch_warnings():
        warnings.simplefilter("error")
        overflow(made)
        made.optimizer.step()
        schedule.step()
    assert schedule.get_last_lr() == [pytest.approx(0.001)]


def test_a_step_with_a_closure_is_skipped_too():
    made = training(torch.optim.SGD)
    before = state_of(made)[:6]
    with FP16.apply(made.replica()):
        made.optimizer.step(lambda: overflow(made))
        assert all(map(torch.equal, before, state_of(made)))
        assert live_loss_scaling().skipped == 1


def test_an_interrupt_in_a_backward_pass_leaves_gradients_at_their_own_scale():
    def interrupt(gradient):
        raise KeyboardInterrupt

    model = net()
    model(IMAGES).square().mean().backward()
    before, plain = gradients(model), torch.autograd.backward
    with FP16.apply(Replica(models={"model": model})):
        output = model(IMAGES)
        output.register_hook(interrupt)
        with pytest.raises(KeyboardInterrupt):
            output.mean().backward()
        assert gradients(model) == before
        assert model(IMAGES).square().mean().backward() is None
    assert torch.autograd.backward is plain
    assert gradients(model) == pytest.approx([2 * g for g in before], **CLOSE)


def test_a_step_that_calls_the_step_of_its_base_class_is_skipped_whole():
    class Decaying(torch.optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            for p in (p for group in self.param_groups for p in group["params"] if p.grad is not None):
                p.data.sub_(1e-3 * p.grad)

    torch.optim.SGD(
        [nn.Parameter(torch.ones(1))]
    )  # torch calls the hooks in the base class's step too, once it was used
    made = training(Decaying)
    before = state_of(made)[:6]
    with FP16.apply(made.replica()):
        overflow(made)
        made.optimizer.step()
        assert all(map(torch.equal, before, state_of(made)))
        assert (live_loss_scaling().steps, live_loss_scaling().skipped) == (1, 1)
        assert all(p.grad is not None for p in made.model.parameters())
        made.epochs(1)
        assert (live_loss_scaling().steps, live_loss_scaling().skipped) == (4, 1)
    assert not any(p.isnan().any() for p in made.model.parameters())


def test_a_step_after_an_interrupted_one_goes_on_with_the_gradients_of_its_own():
    class Interrupted(torch.optim.SGD):
        interrupts = True

        def step(self, closure=None):
            if self.interrupts:
                raise KeyboardInterrupt
            return super().step(closure)

    made = training(Interrupted)
    with FP16.apply(made.replica()):
        overflow(made)
        with pytest.raises(KeyboardInterrupt):
            made.optimizer.step()
        Interrupted.interrupts = False
        made.optimizer.zero_grad()
        images, targets = next(iter(made.loader))
        made.criterion(made.model(images), targets).backward()
        made.optimizer.step()
        assert all(p.grad.isfinite().all() for p in made.model.parameters())
    assert not any(p.isnan().any() for p in made.model.parameters())


def test_the_proof_fails_when_every_step_was_skipped():
    made = training()
    with FP16.apply(made.replica()):
        for _ in range(3):
            overflow(made)
            made.optimizer.step()
        proof = FP16.took_effect(made.replica())
    assert not proof.took_effect
    assert "3 of 3 steps skipped" in proof.evidence


def test_an_interrupt_while_scaling_is_put_in_place_leaves_nothing_behind(monkeypatch):
    def interrupt(hook):
        raise KeyboardInterrupt

    plain, hooks = torch.autograd.backward, len(_global_optimizer_pre_hooks)
    monkeypatch.setattr(loss_scaling, "register_optimizer_step_post_hook", interrupt)
    with pytest.raises(KeyboardInterrupt), FP16.apply(training().replica()):
        pass
    assert torch.autograd.backward is plain
    assert len(_global_optimizer_pre_hooks) == hooks
    assert live_loss_scaling() is None


def test_an_interrupt_in_a_skipped_step_gives_the_gradients_back():
    class Interrupted(torch.optim.SGD):
        def step(self, closure=None):
            raise KeyboardInterrupt

    made = training(Interrupted)
    with pytest.raises(KeyboardInterrupt), FP16.apply(made.replica()):  # noqa: PT012
        overflow(made)
        made.optimizer.step()
    assert all(p.grad is not None for p in made.model.parameters())


@pytest.mark.filterwarnings("ignore:Using backward\\(\\) with create_graph=True")
def test_gradients_to_be_differentiated_again_are_left_alone():
    expected, found = with_and_without(
        lambda model: model(IMAGES).square().mean().backward(create_graph=True), net
    )
    assert found == pytest.approx(expected, **CLOSE)


def test_the_proof_notices_that_nothing_is_scaled():
    made = training()
    plain = torch.autograd.backward
    with FP16.apply(made.replica()):
        torch.autograd.backward = plain
        made.epochs()
        proof = FP16.took_effect(made.replica())
    assert not proof.took_effect
    assert "no backward pass was scaled" in proof.evidence


def test_running_the_exported_lines_twice_scales_once():
    made = training(steps_before=1)
    code = FP16.as_code(made.workload())
    exec(code, made.namespace | {"__name__": "__main__"})
    once = torch.autograd.backward
    exec(code, made.namespace | {"__name__": "__main__"})
    assert torch.autograd.backward is once


def test_an_exported_cell_skips_the_same_steps():
    cell = (
        "losses = []\nfor factor in (1.0, 1e6, 1.0):\n    for images, targets in loader:\n        optimizer.zero_grad()\n"
        "        loss = factor * criterion(model(images), targets)\n        loss.backward()\n        optimizer.step()\n"
        "        losses.append(loss.item())\n"
    )
    live, plain = training(steps_before=1), training(steps_before=1)
    expected = dict(live.namespace)
    with FP16.apply(live.replica()):
        torch.manual_seed(7)
        exec(cell, expected)
        assert live_loss_scaling().skipped
    workload = dataclasses.replace(plain.workload(cell), cell=cell)
    export = export_cell(workload, Plan((FP16,)))
    assert export.is_complete
    names = dict(plain.namespace)
    torch.manual_seed(7)
    exec(export.code, names)
    assert names["losses"] == expected["losses"]


def test_models_that_come_and_go_one_by_one_share_one_scale():
    plain = torch.autograd.backward
    first = FP16.apply(Replica(models={"first": net(1)}, is_process_wide=False))
    second = FP16.apply(Replica(models={"second": net(2)}, is_process_wide=False))
    first.__enter__()
    scaling = live_loss_scaling()
    second.__enter__()
    first.__exit__(None, None, None)
    assert live_loss_scaling() is scaling
    assert torch.autograd.backward.__self__ is scaling
    second.__exit__(None, None, None)
    assert live_loss_scaling() is None
    assert torch.autograd.backward is plain


def reasons_of(made, source="", isa=("avx512_fp16",)):
    return FP16.why_not(made.workload(source), dataclasses.replace(read_machine(), isa=isa))


def test_emulated_float16_is_a_reason_on_a_cpu():
    assert reasons_of(training()) == []
    (reason,) = reasons_of(training(), isa=("avx512_bf16",))
    assert "no float16 instructions" in str(reason)


def test_what_sees_gradients_on_their_way_is_a_reason():
    made = training()
    (reason,) = reasons_of(made, source="x.retain_grad()")
    assert "retain_grad" in str(reason)
    made.model[0].weight.register_hook(lambda gradient: gradient)
    (reason,) = reasons_of(made)
    assert "hooks" in str(reason)
    made = training()
    made.model.append(nn.Embedding(2, 2, sparse=True))
    (reason,) = reasons_of(made)
    assert "sparse" in str(reason)


def test_the_exported_class_is_the_one_that_ran():
    code = FP16.as_code(training().workload())
    assert "class LossScaling:" in code
    assert LossScaling.__doc__.splitlines()[0] in code


@pytest.mark.compiles
def test_a_compiled_model_gets_true_gradients_too():
    usual = training(steps_before=1).epochs(2)
    made = training(steps_before=1)
    plan = Plan.parse('compile_model+autocast(dtype="fp16")')
    with plan.apply(made.replica()):
        assert made.epochs(2) == pytest.approx(usual, rel=0.05)
        assert all(proof.took_effect for _, proof in plan.proofs(made.replica()))


def test_filters_are_weighed_by_finite_gradients_though_a_step_overflowed():
    made, entry = training(torch.optim.SGD, steps_before=1), Prune(criterion="taylor", warm_up_steps=2)
    with Plan((FP16, entry)).apply(made.replica()):
        overflow(made)
        made.optimizer.step()
        assert live_loss_scaling().overflows == 1
        sums = find_wrapper(made.model, PruningCall).gradients.of(made.model)
        assert len(sums) == 8
        assert all(bool(one.isfinite().all()) for one in sums.values())
        made.epochs(1)
        assert made.model[0].out_channels == 2
    assert all(bool(p.isfinite().all()) for p in made.model.parameters())


def test_hooks_of_a_kept_pruning_are_no_reason_and_the_users_still_are():
    made = training()
    with Prune(criterion="taylor").apply(made.replica()):
        assert reasons_of(made) == []
        made.model[0].weight.register_post_accumulate_grad_hook(lambda parameter: None)
        (reason,) = reasons_of(made)
    assert "hooks" in str(reason)
