"""Promise 1: after any sequence of try, keep and undo, the next losses are bit-equal to those without accel."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.workbench import Workbench
from accel.workload.generators import generator_states, restore_generators
from tests.workers.conftest import CELL, SETUP

OTHER_THREADS = 1 if torch.get_num_threads() > 1 else 2
PLANS = (
    "channels_last",
    "fused_optimizer",
    "loader_workers(n=1)",
    f"intraop_threads(n={OTHER_THREADS})",
    "steady_allocator",
    "compile_model",
)
STEPS = st.one_of(
    st.tuples(st.just("keep"), st.sampled_from(PLANS[:-1])),  # compiling is in the written-out sequence below
    st.tuples(st.just("undo"), st.sampled_from(("channels_last", "fused_optimizer", "intraop_threads"))),
    st.tuples(st.just("undo all"), st.just("")),
    st.tuples(st.just("pack"), st.just("")),
)


class Twins:
    """The same notebook twice: one with accel, one without; both train on request, from the same random numbers."""

    def __init__(self):
        self.plain, self.own = ({"__name__": "__main__"} for _ in range(2))
        for namespace in (self.plain, self.own):
            exec(compile(SETUP, "<setup>", "exec"), namespace)
        self.workbench = Workbench(self.own, spare_workers=0)
        states = generator_states()
        self.workbench.profile(CELL)
        restore_generators(states)
        exec(CELL, self.plain)
        self.train_and_compare()

    def train_and_compare(self):
        states = generator_states()
        exec(CELL, self.plain)
        restore_generators(states)
        exec(CELL, self.own)
        assert self.own["losses"] == self.plain["losses"]

    def do(self, step, argument):
        if step == "keep":
            self.workbench.keep(argument)
        elif step == "undo" and argument in self.workbench.kept.names:
            self.workbench.undo(argument)
        elif step == "undo all":
            self.workbench.undo()
        elif step == "pack":  # all of a trial that happens in the notebook: suspend, pack, guard, resume, end
            trial = self.workbench.try_("channels_last", wait=False)
            trial.stop()
            assert "unchanged" in trial.ladder.unchanged_line


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEPS, min_size=1, max_size=6))
def test_after_any_sequence_the_next_losses_are_those_without_accel(steps):
    threads = torch.get_num_threads()
    twins = Twins()
    try:
        for step, argument in steps:
            twins.do(step, argument)
            if not twins.workbench.kept:
                twins.train_and_compare()
        twins.workbench.undo()
        twins.train_and_compare()
    finally:
        twins.workbench.close()
    assert torch.get_num_threads() == threads


@pytest.mark.compiles
def test_after_real_trials_and_every_acceleration_kept_once_the_losses_are_those_without_accel(workbench):
    twins = Twins()
    twins.workbench.close()
    twins.workbench = workbench
    workbench.namespace, twins.own = twins.own, twins.own
    states = generator_states()
    workbench.profile(CELL)
    restore_generators(states)
    exec(CELL, twins.plain)
    for plan in ("compile_model+channels_last", "+".join(p for p in PLANS if "(" not in p)):
        workbench.keep(plan)
        workbench.try_("fused_optimizer")
        workbench.undo("channels_last")
        workbench.undo()
        twins.train_and_compare()
