"""Examples in docstrings run: of the public API on a small training, of other modules where they need only their module."""

from __future__ import annotations

import doctest
import inspect
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import accel
from accel.callable_package import FUNCTION_OF
from accel.current import work_in

# The modules whose examples need no object from elsewhere, and give the same on every machine.
ALONE = """
    accelerations bounds commands.command commands.line.completing commands.line.parsing commands.table doing
    distributed.cells.cell_execution distributed.cells.plan_effects distributed.data_parallel.accumulation
    distributed.data_parallel.gradient_readers distributed.data_parallel.shares distributed.sweep.sweep_plan
    distributed.trials.trial_answers errors exporting.call_arguments history.runs exporting.cell_tree exporting.magic_lines
    exporting.plain_code html_parts labs.models machine.clock_reasons machine.cpu_lists
    machine.telemetry.load_history machine.telemetry.sample machine.topology.links machine.topology.matrix_text
    measuring.break_even measuring.comparison measuring.disturbance measuring.interval measuring.per_sample measuring.progress
    measuring.quality_target measuring.took measuring.verdict opgraph.layer_text plans.knobs plans.plan printing
    profiling.device_work profiling.phase_words profiling.profile_options shown_text
    techniques.compiling.compiled_code techniques.pruning.pruning_schedule techniques.source.deferred_read
    techniques.source.other_tools traces.damage traces.trace_event tuning.candidates tuning.gain_model units
    workers.relaunch_estimate workers.step_block workers.trial_rows workers.variant_worker workload.cell_names
    workload.memory_file workload.read_backs
"""
RESULTS = """
    profiling.profile.Profile measuring.ladder.Ladder measuring.sweep.Sweep measuring.tuning.Tuning machine.machine.Machine
    machine.topology.topology.Topology machine.affinity.affinity.Affinity opgraph.op_graph.OpGraph opgraph.op_graph.WhatIf
"""
# Each of these takes seconds: processes start, or the machine is measured.
SLOW = {
    "try_", "fastest_batch", "peaks", "ddp", "sweep", "RankPool", "compile_backends", "Ladder", "Sweep",
    "Profile.diff", "Profile.roofline", "OpGraph.to_onnx", "Workbench.accelerations", "Workbench.begin_profile",
    "Workbench.fastest_batch", "Workbench.try_", "Workbench.tune", "Tuning", "tune",
}  # fmt: skip
ENDLESS = {"app"}  # serves until it is interrupted
TRAINING = """
import torch
from torch.utils.data import DataLoader, Subset
from accel.labs import CNN, load_dataset

model = CNN()
loader = DataLoader(Subset(load_dataset("digits"), range(48)), batch_size=4)
test_loader = DataLoader(Subset(load_dataset("digits"), range(48, 96)), batch_size=16)
images = next(iter(loader))[0]
criterion, optimizer = torch.nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.01)

def train(model, loader, criterion, optimizer):
    for images, labels in loader:
        optimizer.zero_grad()
        criterion(model(images), labels).backward()
        optimizer.step()
"""


class WhatIsShown(doctest.OutputChecker):
    """What an example shows has to be what it gives; one that shows nothing may give anything."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return not want or super().check_output(want, got, optionflags)


def examples_of(thing: Any, name: str, namespace: dict[str, Any]) -> doctest.DocTest:
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(thing) or "", name)
    test = doctest.DocTest(examples, {}, name, None, None, None)
    test.globs = namespace  # itself, not a copy: commands work on its variables
    return test


def run(test: doctest.DocTest) -> None:
    said: list[str] = []
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    runner = doctest.DocTestRunner(checker=WhatIsShown(), optionflags=flags, verbose=False)
    runner.run(test, out=said.append, clear_globs=False)
    assert runner.failures == 0, "".join(said)


@pytest.mark.parametrize("module", ALONE.split())
def test_examples_of_a_module_give_what_they_show(module):
    tests = doctest.DocTestFinder().find(import_module(f"accel.{module}"), module)
    assert any(test.examples for test in tests), "it has no example: take it from the list"
    for test in tests:
        run(test)


@pytest.fixture(scope="module")
def namespace(tmp_path_factory):
    """A notebook in which a cell was profiled."""
    patch = pytest.MonkeyPatch()
    patch.chdir(tmp_path_factory.mktemp("examples"))
    patch.setenv("ACCEL_HISTORY", "off")
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    variables: dict[str, Any] = {"__name__": "__main__", "accel": accel}
    exec(TRAINING, variables)
    work_in(variables)
    accel.profile("train(model, loader, criterion, optimizer)")
    Path("handed_in").mkdir()
    Path("handed_in", "ada.json").write_text(json.dumps(accel.labs("export", "ada").to_dict()))
    yield variables
    work_in(None)
    patch.undo()


@pytest.fixture(autouse=True)
def panels_are_closed():
    """An open panel draws in threads of its own whenever a later example profiles or keeps something."""
    yield
    if "ipywidgets" in sys.modules:
        sys.modules["ipywidgets"].Widget.close_all()


def public(name: str) -> dict[str, Any]:
    """A function of `accel`, or a class with its methods, by name: those that have examples."""
    module, _, name = name.rpartition(".")
    thing = getattr(import_module(f"accel.{module}"), name) if module else _called(name)
    parts = {name: thing}
    if isinstance(thing, type):
        parts |= {f"{name}.{key}": getattr(thing, key) for key in vars(thing) if not key.startswith("_")}
    return {key: part for key, part in parts.items() if ">>>" in (inspect.getdoc(part) or "")}


def _called(name: str) -> Any:
    return FUNCTION_OF.get(f"accel.{name}") or getattr(accel, name)


@pytest.mark.parametrize("name", [*accel.__all__, *RESULTS.split()])
def test_each_part_of_the_public_api_has_an_example_that_runs(name, namespace):
    parts = public(name)
    assert list(parts)[:1] == [name.rpartition(".")[2]], "it has no example"
    for key, part in parts.items():
        if not {key, key.partition(".")[0]} & (SLOW | ENDLESS):
            run(examples_of(part, key, namespace))


@pytest.mark.whole
@pytest.mark.parametrize("name", [*accel.__all__, *RESULTS.split()])
def test_examples_of_the_public_api_that_take_seconds_run_too(name, namespace):
    parts = public(name)
    for key, part in parts.items() if {*parts} & SLOW else ():
        run(examples_of(part, key, namespace))
