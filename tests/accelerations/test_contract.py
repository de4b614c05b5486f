"""What every entry of the catalogue promises, asked of each of them and of every two together."""

from __future__ import annotations

import dataclasses
import itertools
import random
import re
import sys
from functools import reduce
from pathlib import Path

import numpy
import pytest
import torch
from cases import CASES, ENTER_AUTOCAST, ENTRIES, FIRST, IN_ONE_PROCESS, case_of
from small_training import Training, bits, training, wiring, workload_of
from torch import nn

import accel.accelerations
from accel.accelerations import CARD_HEADINGS, CATALOGUE, Acceleration
from accel.accelerations.acceleration import card
from accel.accelerations.intraop_threads import IntraopThreads
from accel.distributed.first_step.rank_draws import digests
from accel.exporting.export import export_cell
from accel.machine import read_machine
from accel.plans.plan import Plan
from accel.workbench.workbench import Workbench
from accel.workload import Replica
from accel.workload.generators import generator_states


def go_together(first: Acceleration, second: Acceleration) -> bool:
    """Whether one plan can hold both."""
    return (
        first.name != second.name
        and second.name not in first.conflicts
        and first.name not in second.conflicts
    )


SINGLE = [Plan((entry,)) for entry in ENTRIES]
ON_CPU = [plan for plan in SINGLE if not CASES[plan.names[0]].gpu]
PAIRS = [Plan(pair) for pair in itertools.combinations(FIRST, 2) if go_together(*pair)]
# All but the number of threads, and of two that exclude each other the first.
ALL = reduce(
    lambda plan, entry: (
        Plan((*plan.entries, entry)) if all(go_together(known, entry) for known in plan.entries) else plan
    ),
    [
        entry
        for entry in FIRST
        if type(entry) is not IntraopThreads and CASES[entry.name].training is training
    ],
    Plan(),
)
OF_PROCESS = ("steady_allocator", "intraop_threads", "detect_anomaly_off", "autocast_off")
CHANGE_WHAT_IS_COMPILED = ("autocast", "channels_last", "fused_optimizer", "loader_workers")


def compiles(plan: Plan) -> bool:
    return any(entry.layer == "compile" for entry in plan.entries)


def go_together_in_one_training(plan: Plan) -> bool:
    """Whether one training can show them all: at most one entry asks for a training of its own."""
    return len({CASES[name].training for name in plan.names} - {training}) <= 1


def training_for(plan: Plan, **options: int) -> Training:
    return case_of(*plan.names).training(**options)


NEAR = {
    1,
    4,
    9,
}  # each entry is paired with those so far from it in the catalogue; all others in `make test-all`


def marks_of(plan: Plan) -> list[pytest.MarkDecorator]:
    compiling = [pytest.mark.compiles] if compiles(plan) else []
    order = [entry.name for entry in FIRST]
    is_far = plan in PAIRS and abs(order.index(plan.names[0]) - order.index(plan.names[1])) not in NEAR
    return [*compiling, *([pytest.mark.whole] if is_far else [])]


def of_plans(plans: list[Plan]) -> pytest.MarkDecorator:
    """A test for each plan; those that compile are skipped where TorchInductor cannot build."""
    return pytest.mark.parametrize(
        "plan",
        [
            pytest.param(plan, id=str(plan), marks=marks_of(plan))
            for plan in plans
            if go_together_in_one_training(plan)
        ],
    )


each_entry = pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
each_single = of_plans(SINGLE)
each_plan = of_plans([*SINGLE, *PAIRS, ALL])
# Compiling takes seconds: of the pairs that do, those whose other half changes what is compiled.
each_plan_that_trains = of_plans(
    [
        *SINGLE,
        *[p for p in PAIRS if not compiles(p) or set(p.names) <= {"compile_model", *CHANGE_WHAT_IS_COMPILED}],
        ALL,
    ]
)


@each_entry
def test_satisfies_the_protocol_and_is_a_frozen_value(entry):
    made = entry()
    assert isinstance(made, Acceleration)
    assert made == entry()
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.any_knob = 1


@each_entry
def test_card_has_a_sentence_and_all_headings_in_order(entry):
    sentence, sections = card(entry)
    assert sentence.endswith(".")
    assert tuple(sections) == CARD_HEADINGS
    assert all(len(text) > 20 for text in sections.values())


@pytest.mark.parametrize("entry", ENTRIES, ids=repr)
def test_repr_rebuilds_the_entry(entry):
    assert eval(repr(entry), {type(entry).__name__: type(entry)}) == entry


def test_every_file_of_an_entry_is_in_the_catalogue():
    folder = Path(accel.accelerations.__file__).parent
    entries = {path.stem for path in folder.glob("*.py") if "    name: ClassVar[str] =" in path.read_text()}
    assert entries == {entry.name for entry in CATALOGUE}


def test_every_entry_has_its_case():
    assert set(CASES) == {kind.name for kind in IN_ONE_PROCESS}


def awkward_workloads():
    class Own(torch.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    flat = nn.Linear(2, 2)
    volume = nn.Conv3d(1, 1, 2).bfloat16()
    compiled = torch.compile(nn.Linear(2, 2))
    in_place = nn.Linear(2, 2)
    in_place.compile()
    stream = type("Stream", (torch.utils.data.IterableDataset,), {"__iter__": lambda self: iter(())})()
    loaders = {
        "stream": torch.utils.data.DataLoader(stream),
        "busy": torch.utils.data.DataLoader([1], num_workers=1),
    }
    own, lbfgs = Own(flat.parameters(), lr=1), torch.optim.LBFGS(flat.parameters())
    fused = torch.optim.Adam(flat.parameters(), fused=True)
    unfusable = torch.optim.Adam(flat.parameters(), differentiable=True)
    models = {"flat": flat, "volume": volume, "compiled": compiled, "in_place": in_place}
    optimizers = {"own": own, "lbfgs": lbfgs, "fused": fused, "unfusable": unfusable}
    full = Replica(
        models=models, optimizers=optimizers, loaders=loaders, scalers={"scaler": torch.amp.GradScaler("cpu")}
    )
    return [full, Replica()]


@pytest.mark.parametrize("entry", [*ENTRIES, IntraopThreads(n=4000)], ids=repr)
def test_reasons_are_sentences_that_end_with_what_to_do(entry, monkeypatch):
    for variable in ("MALLOC_TOP_PAD_", "TORCH_COMPILE_DISABLE"):
        monkeypatch.setenv(variable, "1")
    machine = dataclasses.replace(read_machine(), isa=(), c_compiler=None, python_header=None, usable_cores=1)
    reasons = []
    for replica in awkward_workloads():
        named = {
            name: thing
            for kind in vars(replica).values()
            if isinstance(kind, dict)
            for name, thing in kind.items()
        }
        reasons += entry.why_not(workload_of(replica, named), machine)
    assert reasons, (
        f"{entry.name} has no reason against any awkward training: what must be there for it to work?"
    )
    for reason in reasons:
        assert reason.because[-1:] not in ".!? ", reason
        assert re.fullmatch(r"[A-Z].+\.", reason.do), reason


def test_a_usual_training_on_a_capable_machine_has_no_reason_against_anything():
    machine = dataclasses.replace(
        read_machine(),
        isa=("avx512_bf16", "avx512_fp16"),
        c_compiler="g++",
        python_header="Python.h",
        usable_cores=8,
        physical_cores=8,
    )
    for plan in ON_CPU:
        assert plan.why_not(training_for(plan, steps_before=1).workload(), machine) == {}


@each_plan
def test_undo_restores_every_bit_when_nothing_ran(plan):
    made = training_for(plan, steps_before=1)
    before = bits(made), wiring(made)
    with plan.apply(made.replica()):
        pass
    assert (bits(made), wiring(made)) == before


@each_plan_that_trains
def test_undo_after_training_leaves_a_training_like_one_never_touched(plan):
    made = training_for(plan, steps_before=1)
    before = wiring(made)
    with plan.apply(made.replica()):
        made.epochs(2)
    assert wiring(made) == before
    twin = made.twin()
    assert made.epochs(2) == twin.epochs(2)


@each_single
def test_undo_works_after_an_interrupt_in_the_middle_of_a_step(plan):
    made = training_for(plan, steps_before=1)
    before = wiring(made)

    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), plan.apply(made.replica()):  # noqa: PT012
        made.criterion.register_forward_hook(interrupt)
        made.epochs()
    made.optimizer.zero_grad()
    made.criterion._forward_hooks.clear()
    after = wiring(made)
    assert after | {"gradients": ()} == before | {"gradients": ()}
    twin = made.twin()
    assert made.epochs() == twin.epochs()


@each_single
def test_it_can_be_applied_again_after_undo(plan):
    made = training_for(plan, steps_before=1)
    with plan.apply(made.replica()):
        first = made.epochs(2)
    made = training_for(plan, steps_before=1)
    for _ in range(2):
        with plan.apply(made.replica()):
            pass
    with plan.apply(made.replica()):
        assert made.epochs(2) == first


@of_plans([plan for plan in SINGLE if plan.effect == "exact"])
def test_exact_entries_leave_the_losses_equal(plan):
    usual = training_for(plan).epochs(3)
    made = training_for(plan)
    with plan.apply(made.replica()):
        assert made.epochs(3) == usual


@of_plans([plan for plan in [*SINGLE, ALL] if plan.effect != "changes training"])
def test_losses_stay_close(plan):
    usual = training_for(plan, steps_before=1).epochs(2)
    made = training_for(plan, steps_before=1)
    with plan.apply(made.replica()):
        assert made.epochs(2) == pytest.approx(usual, rel=0.05)


@of_plans([*SINGLE, *[pair for pair in PAIRS if not compiles(pair)], ALL])
def test_the_plain_code_gives_exactly_the_losses_of_the_live_plan(plan):
    live, plain = training_for(plan, steps_before=1), training_for(plan, steps_before=1)
    with plan.apply(live.replica()):
        expected = live.epochs(2)
    threads, cell = torch.get_num_threads(), plain.namespace
    for entry in plan.entries:
        code = entry.as_code(plain.workload())
        assert "accel" not in code
        exec(code, cell)
    losses = plain.epochs(2)
    torch.set_num_threads(threads)
    del cell["loader"]  # the cell's functions hold the cell: workers would wait for the garbage collector
    assert losses == expected


def calls_of_exported_code(made: Training) -> int:
    """How many functions of the exported code run in an epoch: hooks put on twice, or a class derived twice, count twice."""
    count = 0

    def see(frame, event, argument):
        nonlocal count
        count += event == "call" and frame.f_code.co_filename == "<exported>"

    sys.setprofile(see)
    try:
        made.epochs()
    finally:
        sys.setprofile(None)
    return count


# What one entry writes into an object's step or iterators, the other writes into too.
MEETING = [
    Plan.parse('compile_optimizer(backend="aot_eager")+gradient_accumulation'),
    Plan.parse("loader_workers(n=1, persistent=True)+prefetch_to_device"),
]


@of_plans([*SINGLE, *MEETING, ALL])
def test_plain_code_that_runs_again_changes_nothing_more(plan):
    """The cells of a notebook are run again, and what they changed is still there then."""

    def trained(times: int) -> tuple[list[float], int]:
        torch.set_num_threads(1)
        torch.autocast.__enter__ = ENTER_AUTOCAST
        made = training_for(plan, steps_before=1)
        codes = [compile(entry.as_code(made.workload()), "<exported>", "exec") for entry in plan.entries]
        cell = made.namespace
        for run in range(2):
            for code in codes if run < times else ():
                exec(code, cell)
            losses = made.epochs()
        calls = calls_of_exported_code(made)
        del cell["loader"]  # the cell's functions hold the cell: workers would wait for the garbage collector
        return losses, calls

    once = trained(1)
    assert trained(2) == once


@of_plans(ON_CPU)
def test_takes_effect_and_says_so(plan):
    made = training_for(plan)
    with plan.apply(made.replica()):
        made.epochs()
        ((name, proof),) = plan.proofs(made.replica())
    assert proof.took_effect, proof.evidence
    assert name == plan.names[0]


@of_plans(ON_CPU)
def test_a_plan_that_did_not_take_effect_is_found_out(plan):
    made = training_for(plan)
    with plan.apply(made.replica()):
        CASES[plan.names[0]].sabotage(made)
        made.epochs()
        ((_, proof),) = plan.proofs(made.replica())
    torch.compiler.set_stance("default")
    assert not proof.took_effect, proof.evidence


@each_single
def test_nothing_took_effect_where_nothing_was_applied(plan):
    made = training_for(plan)
    made.epochs()
    ((_, proof),) = plan.proofs(made.replica())
    assert not proof.took_effect, proof.evidence


@of_plans([plan for plan in SINGLE if plan.names[0] in OF_PROCESS])
def test_settings_of_the_process_are_left_alone_for_a_part_of_it(plan):
    made = training_for(plan)
    with plan.apply(Replica(models={"model": made.model}, is_process_wide=False)):
        assert not plan.proofs(made.replica())[0][1].took_effect


@each_single
def test_an_export_of_what_is_kept_is_that_of_a_notebook_where_nothing_is_kept(plan):
    made = training_for(plan, steps_before=1)
    workload = made.workload()
    expected = export_cell(workload, plan)
    bench = Workbench(workload.namespace, spare_workers=0)
    bench.workload = workload
    bench.live.keep(plan)
    try:
        made.epochs()
        assert bench.export() == expected
        assert bench.kept == plan
    finally:
        bench.close()


ADD_UP = ("prune", "batch_size", "gradient_accumulation")  # twice is more than once
WRITTEN_ROUND_CALLS = (  # whether the user's code does it already is not to be read from the objects before it runs
    "detect_anomaly_off", "autocast_off", "cache_dataset", "activation_checkpointing", "autocast", "no_grad_validation",
    "set_to_none",
)  # fmt: skip


@of_plans(
    [plan for plan in ON_CPU if not compiles(plan) and plan.names[0] not in (*ADD_UP, *WRITTEN_ROUND_CALLS)]
)
def test_an_entry_that_is_in_force_already_is_refused_and_takes_no_credit(plan):
    made = training_for(plan, steps_before=1)
    exec(plan.entries[0].as_code(made.workload()), made.namespace)
    assert plan.why_not(made.workload(), read_machine()), "it would be said to take effect"


def test_asking_whether_an_entry_applies_draws_none_of_the_users_random_numbers():
    class Noisy(nn.Sequential):
        def forward(self, images):
            return super().forward(images) * (1 + random.random() + numpy.random.rand() + torch.rand(()))

    made = training()
    made.model = Noisy(made.model)
    workload, machine = made.workload(), read_machine()
    for entry in ENTRIES:
        before = digests(generator_states())
        Plan((entry,)).why_not(workload, machine)
        assert digests(generator_states()) == before, entry.name
