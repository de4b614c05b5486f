"""The facts that rules share: lines, names, and whether the profiled steps can be believed."""

from __future__ import annotations

import ast

import pytest

from accel.diagnosis.batch_too_small import batch_too_small
from accel.diagnosis.dispatch import operations
from accel.diagnosis.launch_bound import launch_bound
from accel.profiling.completeness import Completeness
from accel.profiling.device_activity import DeviceActivity
from accel.profiling.profile_options import ProfileOptions
from tests.diagnosis.making import by_hand, notebook, real, row


def test_operations_of_disturbed_steps_prove_nothing():
    slow = (row("aten::addmm", "forward", 1.0, calls=2.0, step_ms=25.0),)
    evidence = by_hand({"forward": 1.0}, slow, step_ms=10.0)
    assert evidence.is_disturbed
    assert evidence.rows(lambda row: True) == ()
    assert launch_bound(evidence) is None
    assert not by_hand({"forward": 1.0}, slow, options=ProfileOptions(shapes=True, stacks=True)).is_disturbed
    assert (
        batch_too_small(by_hand({"optimizer": 0.7, "forward": 0.3}, slow)) is not None
    )  # from the other steps


def test_a_step_without_operations_is_not_disturbed():
    assert not by_hand({"forward": 1.0}).is_disturbed


def test_names_are_found_in_the_cell_and_in_functions_that_it_calls():
    setup = "def run(x):\n    def inner():\n        return x.cumsum(0)\n    return inner()\n"
    evidence = real("run(x)\n" + "for _ in range(9):\n    criterion(model(x), y).backward()", setup)
    assert evidence.mentions("cumsum")
    assert evidence.mentions("backward")
    assert not evidence.mentions("autocast")


def test_the_line_of_a_node_can_be_asked_for_inside_loops_only():
    cell = "model.to('cpu')\nfor i in range(3):\n    pass\n    x.to('cpu')\n"
    evidence = by_hand({}, source=cell, namespace=notebook())

    def is_call(node):
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)

    assert evidence.line_where(is_call) == 1
    assert evidence.line_where(is_call, in_loop=True) == 4
    assert evidence.line_where(lambda node: isinstance(node, ast.While)) == 0


def test_the_gaps_before_forward_are_those_in_which_the_loop_can_make_a_batch():
    before = (
        "data → zero_grad",
        "data → copy",
        "copy → forward",
        "zero_grad → forward",
        "optimizer → zero_grad",
    )
    others = (
        "forward → loss",
        "loss → backward",
        "backward → optimizer",
        "optimizer → data",
        "data",
        "forward",
    )
    evidence = by_hand(dict.fromkeys((*others, *before), 0.1))
    assert set(evidence.gaps_before_forward) == set(before)


@pytest.mark.parametrize("gap", ["data → optimizer", "copy → optimizer", "optimizer → optimizer"])
def test_loop_code_ahead_of_an_update_is_before_forward_only_where_a_closure_runs_the_forward(gap):
    phases = {"data": 0.1, gap: 0.3, "forward": 0.3, "optimizer": 0.2}
    assert by_hand(phases).gaps_before_forward == ()
    assert by_hand(phases | {"closure": 0.1}).gaps_before_forward == (gap,)


def test_a_cell_that_is_not_python_has_no_lines():
    assert by_hand({}, source="!ls").line_where(lambda node: True) == 0


BATCHES = "loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(112, 16)), batch_size=8)\n"
FORWARD_ONLY = "for (batch,) in loader:\n    with torch.no_grad(): model(batch)"


def test_the_rows_of_a_cell_without_steps_are_of_all_its_batches_and_not_of_a_disturbed_one():
    evidence = real(FORWARD_ONLY, BATCHES)
    assert evidence.profile.timing.unit == "batch"
    assert evidence.profile.profiled_steps == 0
    assert not evidence.is_disturbed
    assert evidence.steps_in_rows == 14
    one_by_one = [row.calls for row in evidence.profile.rows if row.op == "aten::relu"]
    assert sum(one_by_one) == 14
    assert 0 < operations(evidence) < 40  # of one batch, not of fourteen


def test_where_no_step_ends_the_only_loader_is_the_one_that_batches_come_from():
    assert real(FORWARD_ONLY, BATCHES).step_loader[0] == "loader"


def test_a_gpu_of_which_not_all_was_recorded_has_nothing_to_tell():
    idle = DeviceActivity("cuda:0", 10.0, 0.1, 0.9, 0.8, (), (), (), 10.0, 3.0, 0.0)
    lost = Completeness(False, ("90 of 100 launched kernels are missing",))
    assert by_hand({"forward": 1.0}, devices=(idle,)).device is idle
    assert by_hand({"forward": 1.0}, devices=(idle,), completeness=lost).device is None
