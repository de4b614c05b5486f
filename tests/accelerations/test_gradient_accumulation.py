"""Several batches to an update, in loops that clear, clip, scale and schedule as loops do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import warnings

import pytest
import torch
from small_training import bits, training, wiring, workload_of
from torch import nn

from accel.accelerations.batch_size import BatchSize
from accel.accelerations.fused_optimizer import FusedOptimizer
from accel.accelerations.gradient_accumulation import GradientAccumulation
from accel.errors import AccelError
from accel.machine import read_machine
from accel.plans.plan import Plan
from accel.workbench import Workbench
from accel.workload import Replica


class Line:
    """One weight with gradient equal to the input; SGD with rate 1."""

    def __init__(self):
        self.weight = nn.Parameter(torch.zeros(1))
        self.optimizer = torch.optim.SGD([self.weight], lr=1.0)

    @property
    def replica(self):
        return Replica(optimizers={"optimizer": self.optimizer})

    def batch(self, value, clear=lambda optimizer: optimizer.zero_grad()):
        clear(self.optimizer)
        (self.weight * value).sum().backward()
        self.optimizer.step()
        return self.weight.item()


def clear_by_hand(optimizer):
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                parameter.grad.zero_()


@pytest.mark.parametrize(
    "clear",
    [
        lambda optimizer: optimizer.zero_grad(),
        lambda optimizer: optimizer.zero_grad(set_to_none=False),
        clear_by_hand,
    ],
    ids=["to None", "to zero", "by hand"],
)
def test_every_nth_step_takes_the_mean_gradient_however_the_loop_clears(clear):
    line = Line()
    with GradientAccumulation(micro_batches=3).apply(line.replica):
        assert [line.batch(value, clear) for value in (3, 6, 9, 1, 1, 4)] == [0, 0, -6, -6, -6, -8]


def test_half_the_batch_twice_is_a_step_on_the_whole_batch():
    """Without BatchNorm, which sees the halves."""
    usual, made = training(torch.optim.SGD), training(torch.optim.SGD)
    for each in (usual, made):
        each.model[1] = nn.Identity()
    usual.epochs(2)
    with Plan((BatchSize(factor=0.5), GradientAccumulation())).apply(made.replica()):
        losses = made.epochs(2)
    assert len(losses) == 12
    for own, theirs in zip(made.model.parameters(), usual.model.parameters(), strict=True):
        torch.testing.assert_close(own, theirs)


def test_gradients_are_still_there_after_a_step_that_was_held_back():
    line = Line()
    with GradientAccumulation().apply(line.replica):
        line.batch(5)
        assert line.weight.grad.item() == 5


def test_clipping_sees_the_gradient_of_its_own_batch():
    line = Line()
    with GradientAccumulation().apply(line.replica):
        norms = []
        for value in (3.0, 4.0):
            line.optimizer.zero_grad()
            (line.weight * value).sum().backward()
            norms.append(nn.utils.clip_grad_norm_([line.weight], 3.5).item())
            line.optimizer.step()
    assert norms == [3.0, 4.0]
    assert line.weight.item() == pytest.approx(-(3.0 + 3.5) / 2)


def test_a_batch_whose_scaled_gradient_is_infinite_is_left_out():
    line, scaler = Line(), torch.amp.GradScaler("cpu", init_scale=4.0)
    with GradientAccumulation().apply(line.replica):
        for value in (2.0, float("inf"), 4.0):
            line.optimizer.zero_grad()
            scaler.scale((line.weight * value).sum()).backward()
            scaler.step(line.optimizer)
            scaler.update()
    assert line.weight.item() == -3.0


def test_a_fused_optimizer_under_a_grad_scaler_is_refused_and_never_steps_on_scaled_gradients():
    made = training()
    fused = torch.optim.Adam(made.model.parameters(), lr=0.01, fused=True)
    scaler = torch.amp.GradScaler("cpu")
    workload = dataclasses.replace(made, optimizer=fused, built_by=None).workload()
    assert GradientAccumulation().why_not(workload, read_machine()) == []
    replica = Replica(optimizers={"optimizer": fused}, scalers={"scaler": scaler})
    (reason,) = GradientAccumulation().why_not(
        workload_of(replica, {"optimizer": fused, "scaler": scaler}), read_machine()
    )
    assert "fused" in str(reason)
    with GradientAccumulation().apply(replica):
        scaler.scale(made.model(torch.ones(2, 3, 8, 8)).sum()).backward()
        with pytest.raises(RuntimeError, match="unscale"):
            scaler.step(fused)


def test_a_step_with_a_closure_gives_back_its_loss():
    line = Line()

    def closure():
        line.optimizer.zero_grad()
        loss = (line.weight * 2 + 1).sum()
        loss.backward()
        return loss

    with GradientAccumulation().apply(line.replica):
        assert [line.optimizer.step(closure).item() for _ in range(3)] == [1.0, 1.0, -3.0]


@pytest.mark.parametrize("built", ["before", "meanwhile"])
def test_schedulers_neither_warn_nor_lose_the_step(built):
    line = Line()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if built == "before":
            scheduler = torch.optim.lr_scheduler.StepLR(line.optimizer, 2, gamma=0.1)
        with GradientAccumulation().apply(line.replica):
            if built == "meanwhile":
                scheduler = torch.optim.lr_scheduler.StepLR(line.optimizer, 2, gamma=0.1)
            for _ in range(2):
                line.batch(1)
                scheduler.step()
            assert line.weight.item() == -1.0
        assert line.batch(1) == pytest.approx(-1.1)
        assert line.batch(1) == pytest.approx(-1.2)  # undone: a step for each batch again
        scheduler.step()


def test_a_parameter_that_one_batch_does_not_reach_counts_as_zero_there():
    first, second = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([first, second], lr=1.0)
    with GradientAccumulation().apply(Replica(optimizers={"optimizer": optimizer})):
        for parameter in (first, second):
            optimizer.zero_grad()
            (parameter * 4).sum().backward()
            optimizer.step()
    assert (first.item(), second.item()) == (-2, -2)


def test_what_waits_when_it_is_undone_is_dropped_and_a_new_start_begins_at_zero():
    line = Line()
    with GradientAccumulation().apply(line.replica):
        line.batch(100)
    with GradientAccumulation().apply(line.replica):
        assert [line.batch(2), line.batch(4)] == [0, -3]


def test_each_optimizer_of_a_gan_counts_for_itself():
    lines = Line(), Line()
    replica = Replica(optimizers={str(i): line.optimizer for i, line in enumerate(lines)})
    with GradientAccumulation().apply(replica):
        for value in (1, 3):
            for line in lines:
                line.batch(value)
        assert GradientAccumulation().took_effect(replica).evidence == "2 updates for 4 batches"
    assert [line.weight.item() for line in lines] == [-2, -2]


def test_it_wraps_whatever_step_the_optimizer_has():
    class Own(torch.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    made = training(Own)
    with Plan((GradientAccumulation(), BatchSize(factor=2, lr_rule="linear"))).apply(made.replica()):
        made.epochs(2)
        proofs = dict(GradientAccumulation().took_effect(made.replica()).__dict__)
    assert proofs == {"took_effect": True, "evidence": "2 updates for 4 batches"}


def test_a_copy_of_the_optimizer_steps_for_each_batch():
    made = training(torch.optim.SGD, steps_before=1)
    before = wiring(made)
    with GradientAccumulation().apply(made.replica()):
        model, optimizer = copy.deepcopy((made.model, made.optimizer))
        model(torch.ones(2, 3, 8, 8)).sum().backward()
        weight = model[0].weight.clone()
        optimizer.step()
        assert not torch.equal(weight, model[0].weight)
        assert "step" not in vars(pickle.loads(pickle.dumps(made.optimizer)))
    assert wiring(made) == before


def test_it_goes_with_a_fused_optimizer():
    usual, made = training(steps_before=1), training(steps_before=1)
    with GradientAccumulation().apply(usual.replica()):
        expected = usual.epochs(2)
    with Plan((FusedOptimizer(), GradientAccumulation())).apply(made.replica()):
        assert made.epochs(2) == pytest.approx(expected, rel=1e-3)
    assert len(bits(made)) == len(bits(usual))


def test_a_cell_that_accumulates_already_is_told_so_but_not_of_what_is_kept():
    made = training()
    workload = dataclasses.replace(made.workload(), accumulation=4)
    (reason,) = GradientAccumulation().why_not(workload, read_machine())
    assert "4 batches" in str(reason)
    with GradientAccumulation(micro_batches=4).apply(made.replica()):
        assert GradientAccumulation(micro_batches=4).why_not(workload, read_machine()) == []


def test_one_batch_to_a_step_is_refused():
    with pytest.raises(AccelError, match="micro_batches"):
        GradientAccumulation(micro_batches=1)


def test_profiling_again_keeps_it_and_does_not_take_it_for_the_cells_own():
    made = training()
    cell = """
for images, targets in loader:
    optimizer.zero_grad()
    criterion(model(images), targets).backward()
    optimizer.step()
"""
    bench = Workbench({"__name__": "__main__", **made.namespace}, spare_workers=0)
    try:
        for _ in range(2):
            bench.profile(cell * 2)
            if not bench.kept:
                bench.keep("batch_size+gradient_accumulation")
        assert str(bench.kept) == "batch_size+gradient_accumulation"
        exec(cell, bench.namespace)
        assert all(took for _, took, _ in bench.status().proofs)
        bench.undo()
        assert GradientAccumulation().why_not(bench.workload, read_machine()) == []
        assert bench.workload.samples_per_step == 4
    finally:
        bench.close()


@pytest.mark.parametrize("built", ["before", "after"])
def test_exported_code_minds_schedulers_and_may_be_edited_and_run_again(built):
    line = Line()
    namespace = {"optimizer": line.optimizer}
    code = GradientAccumulation(micro_batches=3).as_code(workload_of(line.replica, namespace))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if built == "before":
            scheduler = torch.optim.lr_scheduler.StepLR(line.optimizer, 100)
        for _ in range(2):
            exec(code, namespace)
        if built == "after":
            scheduler = torch.optim.lr_scheduler.StepLR(line.optimizer, 100)
        got = []
        for value in (3, 6, 9):
            got.append(line.batch(value))
            scheduler.step()
    assert got == [0, 0, -6]
    exec(code.replace("batches=3", "batches=2"), namespace)
    assert [line.batch(2), line.batch(4)] == [-6, -9]
