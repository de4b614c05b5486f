"""Batches of another size: the same samples in the same order, a learning rate that schedulers do not undo."""

from __future__ import annotations

import copy
import pickle
from itertools import chain

import pytest
import torch
from small_training import training, wiring, workload_of
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, TensorDataset

from accel.accelerations.batch_size import BatchSize
from accel.errors import AccelError
from accel.machine import read_machine
from accel.techniques.steps.step_learning_rate import scaled_in_steps_code
from accel.workload import Replica

ROWS = TensorDataset(torch.arange(10))


def sample_order(loader):
    torch.manual_seed(3)
    return [batch[0].tolist() for batch in loader]


def reasons(loader, entry=None):
    made = training()
    made.loader = loader
    workload = workload_of(made.replica(), made.namespace)
    return (entry or BatchSize()).why_not(workload, read_machine())


def test_samples_come_in_the_same_order_cut_into_other_batches():
    loader = DataLoader(ROWS, batch_size=2, shuffle=True)
    usual = sample_order(loader)
    with BatchSize(factor=2).apply(Replica(loaders={"loader": loader})):
        doubled = sample_order(loader)
        assert len(loader) == len(doubled) == 3
        assert loader.batch_size == 4
    assert list(chain(*doubled)) == list(chain(*usual))
    assert [len(batch) for batch in doubled] == [4, 4, 2]
    assert sample_order(loader) == usual


def test_a_last_batch_that_is_dropped_is_dropped_at_the_new_size():
    loader = DataLoader(ROWS, batch_size=2, drop_last=True)
    with BatchSize(factor=2).apply(Replica(loaders={"loader": loader})):
        assert [len(batch) for batch in sample_order(loader)] == [4, 4]


def test_a_stream_of_samples_is_cut_otherwise_too():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(torch.arange(10).unsqueeze(1))

    loader = DataLoader(Stream(), batch_size=2)
    assert not reasons(loader)
    with BatchSize(factor=2).apply(Replica(loaders={"loader": loader})):
        assert [len(batch) for batch in loader] == [4, 4, 2]


@pytest.mark.parametrize("persistent", [False, True])
def test_worker_processes_get_the_new_batches(persistent):
    loader = DataLoader(ROWS, batch_size=2, num_workers=1, persistent_workers=persistent)
    with BatchSize(factor=2).apply(Replica(loaders={"loader": loader})):
        assert [len(batch) for batch in sample_order(loader)] == [4, 4, 2]
    assert [len(batch) for batch in sample_order(loader)] == [2] * 5
    del loader


def test_loaders_that_share_a_sampler_change_it_once():
    shared = BatchSampler(RandomSampler(ROWS), 2, drop_last=False)
    loaders = {name: DataLoader(ROWS, batch_sampler=shared) for name in ("first", "second")}
    with BatchSize(factor=2).apply(Replica(loaders=loaders)):
        assert [len(batch) for batch in sample_order(loaders["second"])] == [4, 4, 2]
    assert shared.batch_size == 2
    assert [loader.batch_size for loader in loaders.values()] == [None, None]


def test_loaders_whose_batches_follow_another_rule_are_refused_with_the_reason():
    class Buckets(BatchSampler):
        pass

    buckets = Buckets(RandomSampler(ROWS), 2, drop_last=False)
    for loader, word in [
        (DataLoader(ROWS, batch_size=None), "whole batches"),
        (DataLoader(ROWS, batch_sampler=buckets), "Buckets"),
        (DataLoader(ROWS, batch_size=8), "fewer than a batch of 16"),
    ]:
        (reason,) = reasons(loader)
        assert word in str(reason)
    with BatchSize(factor=2).apply(Replica(loaders={"loader": DataLoader(ROWS, batch_sampler=buckets)})):
        assert buckets.batch_size == 2
    (reason,) = reasons(DataLoader(ROWS, batch_size=1), BatchSize(factor=0.5))
    assert "is the same" in str(reason)


def test_what_is_kept_is_no_reason_against_itself():
    made = training()
    with BatchSize(factor=3).apply(made.replica()):
        assert BatchSize(factor=3).why_not(made.workload(), read_machine()) == []


@pytest.mark.parametrize("factor", [1, 0, -2, float("inf"), float("nan")])
def test_a_factor_that_is_none_is_refused(factor):
    with pytest.raises(AccelError, match="factor"):
        BatchSize(factor=factor)


def rates_in_steps(made, scheduler, steps=4):
    rates = []
    handle = made.optimizer.register_step_pre_hook(
        lambda *_: rates.append(made.optimizer.param_groups[0]["lr"])
    )
    for _ in range(steps):
        made.optimizer.step()
        scheduler.step()
    handle.remove()
    return rates


@pytest.mark.parametrize(
    "schedule",
    [
        lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9**epoch),
        lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5),
        lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10),
        lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10, eta_min=1e-4),
    ],
    ids=["LambdaLR", "StepLR", "OneCycleLR", "CosineAnnealingLR"],
)
def test_any_schedule_is_followed_at_the_scaled_rate_and_left_exact(schedule):
    usual, made = training(torch.optim.SGD), training(torch.optim.SGD)
    expected = rates_in_steps(usual, schedule(usual.optimizer))
    scheduler = schedule(made.optimizer)
    with BatchSize(factor=4, lr_rule="sqrt").apply(Replica(optimizers={"optimizer": made.optimizer})):
        assert rates_in_steps(made, scheduler) == [2 * rate for rate in expected]
    assert made.optimizer.param_groups[0]["lr"] == usual.optimizer.param_groups[0]["lr"]


def test_a_step_that_is_interrupted_leaves_no_scaled_rate_behind():
    made = training(torch.optim.SGD, steps_before=1)

    def interrupted():
        raise KeyboardInterrupt

    with BatchSize(lr_rule="linear").apply(made.replica()):
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                made.optimizer.step(interrupted)
            assert made.optimizer.param_groups[0]["lr"] == 0.02  # not 0.04 the second time
    assert made.optimizer.param_groups[0]["lr"] == 0.01


def test_a_step_inside_a_step_is_scaled_once():
    class Own(torch.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    made, usual = training(Own), training(torch.optim.SGD)
    usual.optimizer.param_groups[0].update(momentum=0, lr=0.02)
    with BatchSize(lr_rule="linear").apply(Replica(optimizers={"optimizer": made.optimizer})):
        assert made.epochs() == usual.epochs()


def test_copies_made_meanwhile_work_by_themselves():
    made = training()
    before = wiring(made)
    with BatchSize(lr_rule="linear").apply(made.replica()):
        loader, optimizer = copy.deepcopy(made.loader), pickle.loads(pickle.dumps(made.optimizer))
        assert [len(batch[0]) for batch in loader] == [8, 4]
        assert not optimizer._optimizer_step_pre_hooks
    assert wiring(made) == before
    assert [len(batch[0]) for batch in loader] == [8, 4]


@pytest.mark.parametrize("factor", [3, 0.7, 1.4])
def test_a_rate_that_is_scaled_is_proven_whatever_rounding_does(factor):
    made = training(torch.optim.SGD)
    made.optimizer.param_groups[0]["lr"] = 0.1
    entry = BatchSize(factor=factor, lr_rule="linear")
    with entry.apply(made.replica()):
        made.epochs()
        assert entry.took_effect(made.replica()).took_effect


def test_an_epoch_that_began_before_proves_nothing():
    loader = DataLoader(ROWS, batch_size=2, drop_last=True)
    replica = Replica(loaders={"loader": loader})
    batches = iter(loader)
    next(batches)
    with BatchSize(factor=2).apply(replica):
        assert [len(batch[0]) for batch in batches] == [2] * 4
        assert not BatchSize(factor=2).took_effect(replica).took_effect
        list(loader)
        proof = BatchSize(factor=2).took_effect(replica)
    assert proof.took_effect
    assert proof.evidence == "batches of 4 samples instead of 2"


def test_exported_code_scales_steps_inside_steps_and_interrupted_ones_once():
    class Own(torch.optim.SGD):
        def step(self, closure=None):
            if closure is not None:
                closure()
            return super().step()

    def interrupted():
        raise KeyboardInterrupt

    made, usual = training(Own), training(torch.optim.SGD)
    for each, rate in ((made, 0.01), (usual, 0.02)):
        each.optimizer.param_groups[0].update(momentum=0, lr=rate)
    code = "\n".join(scaled_in_steps_code(["optimizer"], 2.0))
    for _ in range(3):
        exec(code, made.namespace)
        with pytest.raises(KeyboardInterrupt):
            made.optimizer.step(interrupted)
    exec(code, made.namespace)
    assert made.epochs() == usual.epochs()
    assert made.optimizer.param_groups[0]["lr"] == 0.01
    exec(code.replace("2.0", "4.0"), made.namespace)  # edited, and run again
    usual.optimizer.param_groups[0]["lr"] = 0.04
    assert made.epochs() == usual.epochs()


def test_exported_code_may_run_again_also_for_loaders_that_share_a_sampler():
    shared = BatchSampler(RandomSampler(ROWS), 2, drop_last=False)
    namespace = {name: DataLoader(ROWS, batch_sampler=shared) for name in ("first", "second")}
    workload = workload_of(Replica(loaders=dict(namespace)), namespace)
    for _ in range(2):
        exec(BatchSize(factor=2).as_code(workload), namespace)
        assert shared.batch_size == 4


def test_an_epoch_that_was_opened_before_undo_goes_on_after_it():
    made = training()
    with BatchSize(factor=2).apply(made.replica()):
        batches = iter(made.loader)
    assert sum(len(images) for images, _ in batches) == 12
