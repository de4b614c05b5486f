"""What an export shows and saves, what stays untouched, and what it says when something cannot be written in."""

from __future__ import annotations

import ast
import difflib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from notebook import OBJECTS, SETUP, Notebook, execute

from accel.errors import AccelError
from accel.exporting.cell_rewriter import Note
from accel.exporting.export import Export, export_cell
from accel.plans.live_plan import LivePlan
from accel.plans.plan import Plan

STACK = "channels_last+autocast+fused_optimizer"
LOOP = """for images, labels in loader:
    optimizer.zero_grad()
    output = model(images)
    loss = criterion(output, labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""


def test_direct_code_is_changed_where_it_stands() -> None:
    export = Notebook(LOOP).export("autocast")
    assert export.code == LOOP.replace(
        "    output = model(images)\n",
        '    with torch.autocast("cpu", dtype=torch.bfloat16):\n'
        "        output = model(images)\n"
        "    output = output.float()\n",
    )


def test_constructors_in_the_cell_get_arguments() -> None:
    cell = OBJECTS + LOOP
    export = Notebook(cell, earlier=SETUP, built=("model", "optimizer", "loader")).export(
        "fused_optimizer+loader_workers(n=1)"
    )
    assert export.code == cell.replace("lr=1e-2)", "lr=1e-2, fused=True)").replace(
        "shuffle=True)", "shuffle=True, num_workers=1, prefetch_factor=2)"
    )


def test_a_constructor_gets_the_argument_of_its_kind_of_update() -> None:
    cell = OBJECTS.replace("torch.optim.Adam(", "torch.optim.RMSprop(") + LOOP
    notebook = Notebook(cell, earlier=SETUP, built=("model", "optimizer", "loader"))
    export = notebook.export('fused_optimizer(kind="foreach")')
    assert export.code == cell.replace("lr=1e-2)", "lr=1e-2, foreach=True)")


@pytest.mark.parametrize(
    "cell",
    [
        LOOP.replace("(output, labels)", "(model(images), labels)").replace(
            "    output = model(images)\n", ""
        ),
        LOOP.replace("output = model(images)", "output = model(images) * 1"),
        LOOP.replace("output = model(images)", "output = other = model(images)"),
        LOOP.replace("output = model(images)\n", "output = model(images); n = 1\n"),
        LOOP.replace("output = model(images)\n", "output = model(images)\n    output = output + 0\n"),
        "network = model\n" + LOOP,
        "again = lambda x: model(x)\n" + LOOP,
        LOOP + "output = None\n",
    ],
)
def test_other_calls_of_the_model_take_the_general_form(cell: str) -> None:
    export = Notebook(cell).export("autocast")
    assert "class _ModelInBfloat16(type(model)):" in export.code
    added = [line for line in difflib.ndiff(cell.splitlines(), export.code.splitlines()) if line[0] in "-?"]
    assert added == []  # nothing of the cell's own lines changed


def test_an_optimizer_that_loads_a_state_is_fused_after_loading() -> None:
    cell = OBJECTS + "saved = optimizer.state_dict()\noptimizer.load_state_dict(saved)\n" + LOOP
    notebook = Notebook(cell, earlier=SETUP, built=("model", "optimizer", "loader"))
    export = notebook.export(STACK)
    assert export.code.rindex("fused=True") > export.code.index("load_state_dict")
    ran = notebook.run_plain(export.code)
    assert all(group["fused"] for group in ran["optimizer"].param_groups)
    assert ran["losses"] == notebook.run_live(STACK)["losses"]


def test_torch_is_imported_when_nothing_else_did() -> None:
    earlier = "from torch import nn, optim, randn, randint, relu, manual_seed, utils\n" + SETUP + OBJECTS
    earlier = earlier.replace("import torch\n", "").replace("torch.", "")
    export = Notebook('"""Train."""\n' + LOOP, earlier=earlier).export(STACK)
    assert export.code.startswith('"""Train."""\n\nimport torch\n')
    assert export.code.count("import torch\n") == 1


def test_an_import_of_the_cell_is_not_repeated() -> None:
    export = Notebook("import torch\n" + LOOP).export("intraop_threads(n=1)")
    assert export.code.count("import torch") == 1


def test_indentation_of_two_spaces_is_taken_over() -> None:
    cell = LOOP.replace("    ", "  ")
    assert "\n    output = model(images)\n" in Notebook(cell).export("autocast").code


def test_an_object_without_a_name_is_noted_with_its_lines() -> None:
    notebook = Notebook(LOOP)
    namespace = notebook.started()
    execute(LOOP, namespace)
    workload = notebook.workload(namespace)
    hidden = replace(workload.roles[1], name="Adam_1", is_built_by_cell=True)
    export = export_cell(
        replace(workload, roles=(workload.roles[0], hidden)), Plan.parse("channels_last+fused_optimizer")
    )
    assert [note.acceleration for note in export.notes] == ["fused_optimizer"]
    assert "Adam_1.param_groups" in export.notes[0].lines
    assert "fused" not in export.code
    assert "# fused_optimizer is not written in" in str(export)
    ast.parse(str(export))


def test_a_cell_that_does_not_parse_says_where() -> None:
    workload = replace(Notebook(LOOP).workload(Notebook(LOOP).started()), cell="x = 1\nfor in y:\n")
    with pytest.raises(AccelError, match=r"line 2"):
        export_cell(workload, Plan.parse("autocast"))


def test_an_empty_plan_leaves_the_cell_as_it_is() -> None:
    export = Notebook(LOOP).export("baseline")
    assert export.code == LOOP
    assert export.diff == ""
    assert export.is_complete


def test_exporting_twice_gives_the_same() -> None:
    assert Notebook(LOOP).export(STACK) == Notebook(LOOP).export(STACK)


def test_exporting_while_the_plan_is_live_gives_the_same() -> None:
    notebook = Notebook(LOOP)
    namespace = notebook.started()
    execute(LOOP, namespace)
    live = LivePlan(notebook.workload(namespace))
    live.keep(Plan.parse(STACK))
    try:
        execute(LOOP, namespace)
        assert export_cell(live.workload, live.plan) == notebook.export(STACK)
    finally:
        live.undo()


def test_exported_code_needs_no_accel(tmp_path: Path) -> None:
    cell = OBJECTS + LOOP + "print(len(losses))\n"
    export = Notebook(cell, earlier=SETUP, built=("model", "optimizer", "loader")).export(STACK)
    script = export.save(tmp_path / "cell.py")
    script.write_text("import sys\nsys.modules['accel'] = None\n" + SETUP + script.read_text())
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.returncode) == ("4", 0), done.stderr


def test_save_never_overwrites(tmp_path: Path) -> None:
    export = Export(cell="x = 1", code="x = 2", plan="autocast")
    assert export.save(tmp_path / "a.py").read_text() == "x = 2\n"
    with pytest.raises(AccelError, match="there already"):
        export.save(tmp_path / "a.py")
    with pytest.raises(AccelError, match="folder"):
        export.save(tmp_path / "missing" / "a.py")


def test_text_html_and_dict_show_the_same() -> None:
    note = Note("loader_workers", "it has no <name>.", "vars(<b>)")
    export = Export(cell="a = '<b>'\nb = 1\n", code="a = '<b>'\nb = '<i>'\n", plan="autocast", notes=(note,))
    bundle = export._repr_mimebundle_()
    assert bundle["text/plain"].startswith(export.code)
    html = bundle["text/html"]
    assert "<b>" not in html
    assert "<i>" not in html
    assert "- b = 1</span>" in html
    assert "+ b = &#39;&lt;i&gt;&#39;</span>" in html
    assert "vars(&lt;b&gt;)" in html
    assert "<style" not in html
    assert export.to_dict()["diff"] == export.diff
    assert export.diff.splitlines()[-2:] == ["-b = 1", "+b = '<i>'"]


FORMATTING = st.lists(
    st.sampled_from(
        ["\n", "# note\n", "   \n", "\n\n", "x = 1;  y = 2 ;\n", "%matplotlib inline\n", "#%% part\n"]
    ),
    max_size=4,
).map("".join)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=FORMATTING, after=FORMATTING, comment=st.sampled_from(["", "  # forward", " ;"]))
def test_whatever_is_not_touched_stays_byte_for_byte(before: str, after: str, comment: str) -> None:
    cell = before + LOOP.replace("optimizer.zero_grad()", f"optimizer.zero_grad( ){comment}") + after
    export = Notebook(cell).export(STACK)
    marked = [
        line for line in difflib.ndiff(cell.splitlines(True), export.code.splitlines(True)) if line[0] == "-"
    ]
    assert marked == ["-     output = model(images)\n"]
    assert export.code.endswith(LOOP.partition("loss = ")[2] + after)
    assert export.notes == ()


TRAIN_IT = "for x, y in loader:\n    optimizer.zero_grad()\n    criterion(model(x), y).backward()\n    optimizer.step()\n"
LOOKING = "with torch.autograd.detect_anomaly():\n" + "".join(
    f"    {line}\n" for line in TRAIN_IT.splitlines()
)


@pytest.mark.parametrize("cell", [LOOKING, "torch.autograd.set_detect_anomaly(True)  # a NaN?\n" + TRAIN_IT])
def test_anomaly_mode_is_switched_off_where_the_cell_switches_it_on(cell: str) -> None:
    exported = Notebook(cell).export("detect_anomaly_off").code
    assert exported == cell.replace("detect_anomaly()", "set_detect_anomaly(False)").replace(
        "(True)", "(False)"
    )


def test_anomaly_mode_of_an_earlier_cell_is_switched_off_before_training() -> None:
    exported = Notebook(TRAIN_IT).export("detect_anomaly_off").code
    assert "torch.autograd.set_detect_anomaly(False)" in exported
    assert exported.endswith(TRAIN_IT)
