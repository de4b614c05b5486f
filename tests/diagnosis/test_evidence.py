"""The facts that rules share: lines, names, and whether the profiled steps can be believed."""

from __future__ import annotations

import ast

from accel.diagnosis.batch_too_small import batch_too_small
from accel.diagnosis.launch_bound import launch_bound
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


def test_a_cell_that_is_not_python_has_no_lines():
    assert by_hand({}, source="!ls").line_where(lambda node: True) == 0
