"""The entry that trains on several processes: what it refuses, what it answers instead of being kept."""

from __future__ import annotations

import dataclasses
import re
from types import SimpleNamespace

import pytest
import torch
from small_training import training, workload_of
from torch.utils.data import DataLoader, IterableDataset

from accel.accelerations.ddp import Ddp
from accel.errors import AccelError
from accel.machine import read_machine
from accel.measuring.comparison import Comparison, Interval, Quality
from accel.measuring.ladder import Ladder
from accel.plans.live_plan import LivePlan
from accel.plans.plan import Plan
from accel.workbench.best_tried import best_plan
from accel.workload import Replica


class Stream(IterableDataset):
    def __iter__(self):
        yield from torch.randn(8, 3)


def machine(cores=8):
    return dataclasses.replace(read_machine(), usable_cores=cores)


def reasons(entry, *, cores=8, source="", **objects):
    made = training()
    replica = Replica(**{"models": {"model": made.model}, "loaders": {"loader": made.loader}} | objects)
    named = {name: thing for kind in replica.by_kind().values() for name, thing in kind.items()}
    return entry.why_not(workload_of(replica, named, source), machine(cores))


@pytest.mark.parametrize(
    ("entry", "given", "says"),
    [
        (Ddp(n=4), {"cores": 2}, "4 ranks do not fit on 2 usable cores. Choose n=2 or fewer."),
        (Ddp(n=2), {"cores": 1}, "2 ranks do not fit on 1 usable core. Leave it off."),
        (
            Ddp(n=2, threads=4),
            {"cores": 6},
            "2 ranks of 4 threads do not fit on 6 usable cores. Choose threads=3",
        ),
        (Ddp(), {"loaders": {}}, "No DataLoader was seen in the cell."),
        (Ddp(), {"source": "torch.distributed.init_process_group()"}, "makes a process group of its own"),
        (
            Ddp(batch="global"),
            {"loaders": {"stream": DataLoader(Stream())}},
            "stream reads an IterableDataset",
        ),
        (
            Ddp(batch="global"),
            {"loaders": {"whole": DataLoader([torch.ones(2, 3)], batch_size=None)}},
            "whole has batch_size=None",
        ),
    ],
)
def test_it_says_why_it_cannot_work_and_what_to_do(entry, given, says):
    (reason,) = reasons(entry, **given)
    assert says in str(reason)
    assert re.fullmatch(r"[A-Z].+\.", reason.do), reason


def test_a_usual_training_on_enough_cores_has_no_reason_against_it():
    assert reasons(Ddp(n=8)) == reasons(Ddp(n=4, threads=2, batch="global")) == []
    assert reasons(Ddp(), loaders={"stream": DataLoader(Stream())}) == []


def test_it_acts_on_the_whole_process():
    plan = Plan.parse('ddp(on="loader")')
    assert plan.why_not(training().workload(), machine())["ddp"][0].do == "Leave out on=."


@pytest.mark.parametrize("knobs", [{"n": 1}, {"n": 0}, {"threads": 0}])
def test_fewer_than_two_ranks_or_one_thread_are_no_plan(knobs):
    with pytest.raises(AccelError, match="Write"):
        Ddp(**knobs)


def test_what_it_does_to_training_depends_on_whose_the_batch_is():
    assert Plan.parse("ddp").effect == "changes training"
    assert Plan.parse('ddp(batch="global")').effect == "close"


def test_keeping_it_answers_with_the_line_that_runs_it_and_changes_nothing():
    live = LivePlan(training().workload())
    live.keep(Plan.parse("channels_last"))
    with pytest.raises(AccelError, match="Put %%accel ddp -n 4 --threads 2 --batch global over the cell"):
        live.keep(Plan.parse('ddp(n=4, threads=2, batch="global")'))
    with pytest.raises(AccelError, match="Put %%accel ddp -n 2 --plan fused_optimizer over the cell"):
        live.keep(Plan.parse("ddp+fused_optimizer"))
    assert str(live.plan) == "channels_last"
    live.undo()


def test_in_one_process_applying_it_is_refused_and_nothing_is_proven():
    made, plan = training(), Plan.parse("ddp")
    with pytest.raises(AccelError, match="Put %%accel ddp -n 2 over the cell"), plan.apply(made.replica()):
        pass
    assert not plan.proofs(made.replica())[0][1].took_effect


def row(plan, ratio):
    shown = Interval(ratio, ratio - 0.1, ratio + 0.1, 1, 10)
    return Comparison(plan, "faster", shown, None, Quality("follows"), "close")


def test_where_it_was_the_best_plan_keep_tells_its_line_and_the_best_for_one_process():
    rows = (row('ddp(batch="global")', 3.0), row("fused_optimizer", 1.3), row("channels_last", 1.5))
    plans = [Plan.parse(each.plan) for each in rows]
    tried = SimpleNamespace(result=Ladder(rows, 1.0, "m", "a"), plans=plans)
    says = r"%%accel ddp -n 2 --batch global over the cell\. For this process: %accel keep channels_last$"
    with pytest.raises(AccelError, match=says):
        best_plan([tried])
    alone = SimpleNamespace(result=Ladder(rows[:1], 1.0, "m", "a"), plans=plans[:1])
    with pytest.raises(AccelError, match=r"--batch global over the cell\.$"):
        best_plan([alone])
