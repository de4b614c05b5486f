"""A trial of `ddp`: a group of ranks that is stepped as one worker, from end to end with real processes."""

from __future__ import annotations

import os
import re
import time

import psutil
import pytest

from accel.accelerations.ddp import Ddp
from accel.distributed.trials.trial_answers import joined
from accel.distributed.trials.trial_group import TrialGroup
from accel.errors import RankError
from accel.workbench.trial_start import load_for, packed
from accel.workers.messages import EffectRead, Finished, Load, Loaded, ReadEffect, StepsDone, StepToken
from tests.workers.conftest import CELL

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two ranks need two CPUs")

# Rank 1 fails in its fourth step. The global batch of 16 gives each of two ranks 8 samples; per rank, a step is one of 32.
WITH_FAULTS = """
for x, y in loader:
    if os.environ.get("RANK") == "1" and len(losses) == before + 3:
        if len(x) == 16:
            os.kill(os.getpid(), 9)
        raise ValueError("<b>on one rank</b>")
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
HANGING = WITH_FAULTS.replace("os.kill(os.getpid(), 9)", "time.sleep(1000)")


def rank_processes():
    """Ranks of this process's trials that are alive."""
    return [
        each
        for each in psutil.Process().children(recursive=True)
        if each.status() != psutil.STATUS_ZOMBIE
        and "accel.distributed.trials.trial_rank" in " ".join(each.cmdline())
    ]


@pytest.fixture
def bench(workbench):
    """Trials of one stage; none leaves a rank."""
    yield workbench
    assert rank_processes() == [], "a rank outlived its trial"


def profile_before_faults(bench, cell):
    """The profiled run has no rank; `before` is how many losses there are when a trial begins."""
    bench.namespace["before"] = 10
    bench.profile(cell)
    assert len(bench.namespace["losses"]) == 10


def test_a_trial_of_ranks_counts_the_samples_of_all_and_proves_that_their_parameters_are_equal(bench):
    bench.profile(CELL)
    ladder = bench.try_("ddp(n=2)", 'ddp(n=2, batch="global")+channels_last')
    by_batch = {"per-rank": ladder["ddp"], "global": ladder['channels_last+ddp(batch="global")']}
    for row in ladder.rows:
        assert row.state == "done", row.error
        assert all(took for _, took, _ in row.proofs), row.proofs
        evidence = {name: text for name, _, text in row.proofs}["ddp"]
        found = re.search(r"equal bit for bit on 2 ranks, after (\d+) exchanges of gradients", evidence)
        assert found is not None, evidence
        assert int(found[1]) >= 10
    assert by_batch["per-rank"].samples_per_step == (16, 32)
    assert by_batch["per-rank"].effect == "changes training"
    assert by_batch["global"].samples_per_step is None  # the steps of one process
    assert by_batch["global"].quality.following in ("same", "follows"), by_batch["global"].quality
    assert [name for name, _, _ in by_batch["global"].proofs] == ["channels_last", "ddp"]
    assert "unchanged" in ladder.unchanged_line


BUILDS = """
loader = DataLoader(data, batch_size=16, shuffle=True)
steps = len(loader)
train()
"""


def test_a_trial_of_ranks_cuts_batches_otherwise_also_where_the_cell_builds_its_loader(bench):
    bench.profile(BUILDS)
    stages, taylor = "ddp+prune(stages=2)", 'ddp+prune(criterion="taylor")'
    ladder = bench.try_("ddp+batch_size(factor=2)", stages, taylor)
    row = ladder["batch_size+ddp"]
    assert row.state == "done", row.error
    assert [took for _, took, _ in row.proofs] == [True, True], row.proofs
    assert row.samples_per_step == (16, 64)
    for plan, says in ((stages, "stages=1"), (taylor, "other filters")):  # as --plan says on ranks
        assert ladder[plan].state == "not applicable"
        assert says in ladder[plan].error


def test_the_rank_that_caused_a_failure_is_named_and_other_plans_go_on(bench):
    profile_before_faults(bench, WITH_FAULTS)
    ladder = bench.try_("ddp", 'ddp(batch="global")', "channels_last")
    assert ladder["ddp"].state == ladder['ddp(batch="global")'].state == "failed"
    assert ladder["ddp"].error.startswith("rank 1: it was killed by SIGKILL")
    assert ladder['ddp(batch="global")'].error.startswith("rank 1: it raised ValueError: <b>on one rank</b>")
    assert "<b>on" not in ladder._repr_mimebundle_()["text/html"]
    assert ladder["channels_last"].state == "done"
    assert rank_processes() == []


def test_what_ranks_learn_in_equal_seconds_is_judged_on_the_model_that_they_share(bench):
    namespace = bench.namespace
    exec("val_loader = DataLoader(data, batch_size=80)", namespace)
    bench.profile(CELL)
    told = bench.try_("ddp", train_s=0.2, seeds=1, metric="loss", held_out="val_loader", start="same")
    row = told["ddp"]
    assert row.state == "done", row.error
    ((curve,), ((name, took, evidence),)) = row.curves, row.proofs
    assert (name, took) == ("ddp", True), evidence
    assert curve.samples == 32 * curve.steps
    assert curve.last < curve.points[0].value  # it has learnt


def test_stop_ends_the_ranks_of_a_trial_at_once(bench):
    bench.profile(CELL)
    trial = bench.try_("ddp", wait=False)
    while len(rank_processes()) < 2 and not trial.is_over:
        time.sleep(0.05)
    trial.stop()
    assert rank_processes() == []
    assert trial.state == "stopped"
    assert trial.wait().rows[0].state == "stopped"


@pytest.fixture
def group(bench):
    """Two ranks that hold the cell in which one comes to stand still."""
    profile_before_faults(bench, HANGING)
    parcel, _ = packed(bench, bench.workload)
    ranks = TrialGroup(Ddp(n=2), "ddp")
    ranks.wait_until_ready()
    load: Load = load_for(parcel, bench.workload)
    ranks.send(load, parcel.blob, parcel.memory.descriptor)
    ranks.receive(Loaded, timeout_s=60)
    yield ranks
    ranks.close()
    parcel.close()


def test_ranks_have_cpus_of_their_own_and_one_that_stands_still_is_named(group):
    masks = {rank: set(psutil.Process(pid).cpu_affinity()) for rank, pid in group.pids.items()}
    assert not masks[0] & masks[1]
    assert [set(cpus) for cpus in group.cpus] == [masks[0], masks[1]]
    group.send(StepToken(3, settle=1))
    done = group.receive(StepsDone, timeout_s=60)
    assert (len(done.wall_ns), done.samples) == (3, [32, 32, 32])
    assert all(loss is not None for loss in done.losses)
    group.send(ReadEffect())
    assert group.receive(EffectRead, timeout_s=60).proofs == []  # the plan is empty: the group is not
    group.send(StepToken(1))
    with pytest.raises(RankError, match="it did not come on for 10 s") as told:
        group.receive(StepsDone, timeout_s=10)
    assert told.value.rank == 1
    assert "rank 1 stands here" in told.value.traceback_text
    assert not group.is_alive
    assert rank_processes() == []


def test_a_step_takes_as_long_as_on_the_slowest_rank_and_its_loss_is_that_of_all_samples():
    one = StepsDone([5, 9], [1.0, None], [2, 2], minor_faults=1)
    other = StepsDone([7, 8], [4.0, 3.0], [1, 0], minor_faults=10)
    assert joined([one, other], [(0,), (1,)]) == StepsDone([7, 9], [2.0, None], [3, 0], 11)
    assert joined([Finished(), Finished()], []) == Finished()


def test_a_proof_fails_with_the_first_rank_on_which_it_does():
    good, bad = (
        EffectRead([("ddp", True, "equal")]),
        EffectRead([("ddp", False, "no gradient was exchanged")]),
    )
    assert joined([good, bad], [(0,), (1,)]).proofs == [("ddp", False, "rank 1: no gradient was exchanged")]
    assert joined([good, good], [(0, 1), (2,)]).proofs == [
        ("ddp", True, "equal; rank 0 on CPU 0,1, rank 1 on CPU 2")
    ]
