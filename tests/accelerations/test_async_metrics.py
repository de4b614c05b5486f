"""Numbers that wait until the loop is over: equal to those of before, however the loop ends, in a cell and in functions."""

from __future__ import annotations

import ast
import linecache
import sys
from dataclasses import replace

import pytest
import torch
from training_that_reads import FILENAME, READS, SOURCE, training_that_reads

from accel.accelerations.async_metrics import AsyncMetrics
from accel.exporting.export import export_cell
from accel.machine import read_machine
from accel.plans.plan import Plan
from accel.workload import Workload
from accel.workload.read_backs import ReadBack
from accel.workload.training_code import as_changed

CELL = """\
total, seen, losses = 0.0, 0, []
for x in data:
    loss = (x * weight).mean()  # the loss
    total += loss.item() / 3
    seen += (x > 0).sum().item(); steps = 1
    losses.append(loss.item())
    check(x)
mean = total / len(data)
"""
READS_OF_CELL = tuple(
    ReadBack("<cell>", line, number, "cuda:0") for line, number in ((4, "float"), (5, "int"), (6, "float"))
)


def notebook(check=lambda x: None):
    torch.manual_seed(0)
    data = [torch.randn(50) for _ in range(40)]
    return {
        "__name__": "__main__",
        "data": data,
        "weight": torch.ones(50, requires_grad=True),
        "check": check,
    }


ODD = """\
total, hits = 0.0, []
for n, x in enumerate(data):
    loss = (x * weight).mean() if n % 3 else 0.0
    total += float(loss)
    hits.append(float((x > 0).sum()))
"""
ODD_READS = tuple(ReadBack("<cell>", line, "float", "cuda:0") for line in (4, 5))


def workload(namespace, cell=CELL, reads=READS_OF_CELL, filename="<cell>"):
    return Workload(
        cell=cell, source=cell, filename=filename, namespace=namespace, reads=tuple(namespace), writes=(), roles=(),
        boundary="backward", accumulation=1, steps=40, step_ms=1.0, samples_per_step=1, reads_back=reads,
    )  # fmt: skip


def run(cell, namespace, names=("total", "seen", "losses")):
    exec(compile(as_changed(ast.parse(cell)), "<cell>", "exec"), namespace)
    return {name: namespace[name] for name in names}


def test_a_cell_has_the_same_numbers_of_the_same_types():
    usual, namespace = run(CELL, notebook()), notebook()
    types_meanwhile = []
    namespace["check"] = lambda x: types_meanwhile.append(type(namespace["total"]))
    plan = Plan.parse("async_metrics")
    found = workload(namespace)
    with plan.apply(found.objects()):
        assert run(CELL, namespace) == usual
        ((_, proof),) = plan.proofs(found.objects())
    assert proof.took_effect, proof.evidence
    assert proof.evidence == "120 numbers were left on cpu; at the end of a loop they were read 42 times"
    assert set(types_meanwhile) == {torch.Tensor}
    assert [type(namespace[name]) for name in ("total", "seen")] == [float, int]
    assert {type(loss) for loss in namespace["losses"]} == {float}
    assert as_changed(tree := ast.parse(CELL)) is tree


def test_a_loop_that_ends_by_an_error_leaves_numbers():
    def stop(x):
        if x is namespace["data"][5]:
            raise KeyboardInterrupt

    namespace = notebook(stop)
    with Plan.parse("async_metrics").apply(workload(namespace).objects()), pytest.raises(KeyboardInterrupt):
        run(CELL, namespace)
    assert (type(namespace["total"]), type(namespace["seen"]), len(namespace["losses"])) == (float, int, 6)
    assert namespace["losses"] == run(CELL, notebook())["losses"][:6]


def test_the_exported_cell_has_the_same_numbers_and_keeps_what_else_was_typed():
    namespace = notebook()
    export = export_cell(workload(namespace), Plan.parse("async_metrics"))
    assert export.is_complete
    assert "loss = (x * weight).mean()  # the loss" in export.code
    assert ".detach().long(); steps = 1" in export.code
    assert run(export.code, notebook()) == run(CELL, notebook())


def test_a_function_that_holders_have_already_runs_changed_and_gets_its_own_code_back():
    made = training_that_reads()
    function, code = made.names["run_epoch"], made.names["run_epoch"].__code__
    with Plan.parse("async_metrics").apply(made.replica()):
        assert made.names["run_epoch"] is function
        assert function.__code__ is not code
        assert function.__code__.co_firstlineno == code.co_firstlineno
    assert function.__code__ is code


def test_a_cell_that_defines_the_function_anew_is_changed_with_it():
    made = training_that_reads()
    usual = made.twin().epochs()
    with Plan.parse("async_metrics").apply(made.replica()):
        source = "".join(linecache.getlines(FILENAME))
        exec(compile(as_changed(ast.parse(source)), FILENAME, "exec"), made.names)
        assert "read_sum" in made.names["run_epoch"].__code__.co_names
        assert made.epochs() == usual


METHOD = """\
class Trainer:
    @torch.enable_grad()
    def plain(self): pass
    def fit(self, data, weight):
        losses = []
        for x in data:
            losses.append((x * weight).mean().item())
        return losses
"""


def test_a_method_is_changed_and_written_out_for_its_class():
    linecache.cache["<method>"] = (len(METHOD), None, METHOD.splitlines(True), "<method>")
    namespace = notebook() | {"torch": torch}
    exec(compile(METHOD, "<method>", "exec"), namespace)
    trainer = namespace["trainer"] = namespace["Trainer"]()
    usual = trainer.fit(namespace["data"], namespace["weight"])
    found = workload(namespace, "trainer.fit(data, weight)", (ReadBack("<method>", 7, "float", "cuda:0"),))
    own = namespace["Trainer"].fit
    with Plan.parse("async_metrics").apply(found.objects()):
        assert trainer.fit(namespace["data"], namespace["weight"]) == usual
        assert AsyncMetrics().took_effect(found.objects()).took_effect
    export = export_cell(found, Plan.parse("async_metrics"))
    exec(export.code, namespace)
    assert namespace["Trainer"].fit is not own
    assert trainer.fit(namespace["data"], namespace["weight"]) == usual
    assert "fit" not in namespace


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("total, seen", "total, seen, losses = start"),  # what they start as is not known
        ("    check(x)", "    check(total, seen, losses)"),
        ("    check(x)", "    bar = f'{total} {seen} {losses}'"),
        ("    check(x)", "    if total + seen + len(losses) > 9: break"),
        ("mean =", "def note(): return total, seen, losses"),
    ],
)
def test_what_may_be_looked_at_meanwhile_is_left_alone(line, instead):
    cell = "".join(instead + "\n" if text.startswith(line) else text for text in CELL.splitlines(True))
    (reason,) = AsyncMetrics().why_not(workload({}, cell), read_machine())
    assert "line 4 needs its number at once" in str(reason)


def test_a_name_that_a_function_of_the_notebook_looks_up_is_left_alone():
    namespace = notebook()
    exec("def check(x): return total", namespace)
    plan = Plan.parse("async_metrics")
    with plan.apply(workload(namespace).objects()):
        exec(compile(as_changed(ast.parse(CELL)), "<cell>", "exec"), namespace)
        assert "80 numbers" in plan.proofs(workload(namespace).objects())[0][1].evidence


def test_where_nothing_waits_there_is_nothing_to_gain():
    on_cpu = tuple(replace(read, device="cpu") for read in READS)
    made = training_that_reads()
    ((reason,),) = (AsyncMetrics().why_not(replace(made.workload(), reads_back=on_cpu), read_machine()),)
    assert "No number was read back from a GPU" in str(reason)
    assert "Profile the cell again" in str(
        AsyncMetrics().why_not(replace(made.workload(), reads_back=None), read_machine())[0]
    )


def test_a_function_defined_while_it_was_kept_waits_again_after_undo_and_in_other_processes():
    made = training_that_reads()
    usual = made.twin().epochs()
    with Plan.parse("async_metrics").apply(made.replica()):
        exec(compile(as_changed(ast.parse(SOURCE)), FILENAME, "exec"), made.names)
    types_meanwhile = set()
    made.optimizer.register_step_post_hook(
        lambda *_: types_meanwhile.add(type(sys._getframe(3).f_locals.get("total")))
    )
    assert made.epochs() == usual
    assert torch.Tensor not in types_meanwhile


def test_what_is_no_tensor_this_time_is_read_as_before_and_lists_keep_their_types():
    usual = run(ODD, notebook(), ("total", "hits"))
    namespace = notebook()
    found = workload(namespace, ODD, ODD_READS)
    with Plan.parse("async_metrics").apply(found.objects()):
        assert run(ODD, namespace, ("total", "hits")) == usual
    assert {type(hit) for hit in namespace["hits"]} == {float}
    export = export_cell(found, Plan.parse("async_metrics"))
    assert {
        type(hit)
        for hit in run(export.code.replace("else 0.0", "else x[0] * 0"), notebook(), ("hits",))["hits"]
    } == {float}


def test_a_tensor_of_another_kind_than_the_profile_saw_is_read_at_once():
    cell = "seen = 0\nfor x in data:\n    seen += x.max().item()\n"
    namespace = notebook()
    with Plan.parse("async_metrics").apply(
        workload(namespace, cell, (ReadBack("<cell>", 3, "int", "cuda:0"),)).objects()
    ):
        assert run(cell, namespace, ("seen",)) == run(cell, notebook(), ("seen",))


def test_a_function_that_was_defined_after_the_profile_may_look_at_the_sum():
    namespace, seen = notebook(), []
    found = workload(namespace)
    namespace["seen_sums"] = seen
    with Plan.parse("async_metrics").apply(found.objects()):
        exec("def log(): seen_sums.append(total)", namespace)
        run(CELL.replace("check(x)", "log()"), namespace)
    assert len(set(seen)) == len(seen)
    assert {type(value) for value in seen} == {float}


def test_apples_gpu_which_has_no_doubles_is_left_alone():
    on_mps = tuple(replace(read, device="mps:0") for read in READS)
    (reason,) = AsyncMetrics().why_not(
        replace(training_that_reads().workload(), reads_back=on_mps), read_machine()
    )
    assert "has no doubles" in str(reason)
