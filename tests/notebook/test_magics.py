"""`%accel` in a shell: results, variables, help, and errors with the nearest right word."""

from __future__ import annotations

import random
from contextlib import nullcontext

import numpy
import pytest
import torch

import accel
from accel.commands import COMMANDS, parse
from accel.commands.line.result_name import check_result_name
from accel.errors import AccelError, UnknownName
from accel.machine import Machine
from accel.notebook.profiled_cell import plain_python
from accel.workload.generators import generator_states


def test_accel_alone_shows_status_and_help(shell) -> None:
    overview = shell.run("%accel").result
    assert "Kept" in str(overview)
    assert all(f"  {command.name} " in str(overview) for command in COMMANDS)
    assert "<table" in overview._repr_mimebundle_()["text/html"]


def test_a_result_is_the_value_of_the_cell_and_of_an_assignment(shell) -> None:
    assert isinstance(shell.run("%accel machine").result, Machine)
    shell.run("kept = %accel machine")
    assert isinstance(shell.user_ns["kept"], Machine)


@pytest.mark.parametrize("command", ["machine", "doctor", "status", "accelerations"])
def test_out_puts_the_result_into_a_variable(shell, command: str) -> None:
    result = shell.run(f"%accel {command} -o answer").result
    assert result is not None
    assert shell.user_ns["answer"] is result


@pytest.mark.parametrize(
    "line", ["%accel status -o model", "%%accel profile -o model\ntrain()", "%%accel ddp -o model\ntrain()"]
)
def test_out_never_replaces_a_variable_of_the_users(shell, line: str) -> None:
    model = shell.user_ns["model"]
    result = shell.run(line)
    assert isinstance(result.error_in_exec, AccelError)
    assert "model is a variable of yours, and its Sequential would be lost" in shell.tracebacks[-1]
    assert shell.user_ns["model"] is model


@pytest.mark.parametrize("name", ["fresh", "print", "for"])
def test_out_takes_no_name_that_the_cell_makes_or_python_has(shell, name: str) -> None:
    result = shell.run(f"%%accel profile -o {name}\nfresh = train()")
    assert isinstance(result.error_in_exec, AccelError)
    assert name not in shell.user_ns


USES = {
    "fresh = 1": True, "print(fresh)": True, "def f():\n    global fresh\n    fresh = 1\nf()": True, "import fresh": True,
    "for fresh in []: pass": True, "%time fresh = 1": True, "del fresh": True, "fresh += 1": True, "[fresh for _ in x]": True,
    "# the fresh result": False, "print('fresh')": False, "f(fresh=3)": False, "x.fresh = y": False, "": False,
    "def f(fresh): return fresh\nf(1)": False, "[fresh for fresh in x]": False, "!ls fresh": False,
}  # fmt: skip


@pytest.mark.parametrize(("cell", "uses"), USES.items(), ids=USES)
def test_out_may_have_a_name_that_the_cell_only_mentions(shell, cell: str, uses: bool) -> None:
    source = plain_python(cell, shell.transform_cell)
    with pytest.raises(AccelError, match="the cell itself uses fresh") if uses else nullcontext():
        check_result_name("fresh", {}, source)


def test_out_replaces_a_former_result_and_none(shell) -> None:
    shell.user_ns["answer"] = None
    for command in ("status", "machine", "status"):
        result = shell.run(f"%accel {command} -o answer").result
        assert shell.user_ns["answer"] is result


def test_out_leaves_an_object_of_accels_own_that_the_user_made(shell) -> None:
    mine = shell.user_ns["answer"] = accel.machine()
    error = shell.run("%accel status -o answer").error_in_exec
    assert "answer is a variable of yours, and its Machine would be lost" in str(error)
    assert shell.user_ns["answer"] is mine


def test_a_semicolon_is_no_part_of_the_line(shell, capsys) -> None:
    assert shell.run("%accel machine;").success


@pytest.mark.parametrize(
    ("line", "nearest"),
    [("%accel machin", "machine"), ("%accel export --too x", "--to"), ("%%accel profil\nx", "profile")],
)
def test_a_wrong_word_gets_the_nearest_right_one_in_one_line(shell, line: str, nearest: str) -> None:
    result = shell.run(line)
    assert isinstance(result.error_in_exec, UnknownName)
    assert f"Did you mean '{nearest}'?" in shell.tracebacks[0]
    assert len(shell.tracebacks[0].splitlines()) == 1


@pytest.mark.parametrize("line", ["%accel try channels_last", "%accel keep channels_last", "%accel export"])
def test_what_needs_a_profile_says_so(shell, line: str) -> None:
    result = shell.run(line)
    assert isinstance(result.error_in_exec, AccelError)
    assert "%%accel profile" in shell.tracebacks[0]


def test_profile_with_one_percent_sign_explains_itself(shell) -> None:
    assert "with two %" in str(shell.run("%accel profile").error_in_exec)


def test_a_matrix_is_pasted_below_the_command(shell) -> None:
    text = "\tGPU0\tGPU1\nGPU0\t X \tNV2\nGPU1\tNV2\t X \n"
    found = shell.run(f"%%accel topology -o pasted\n{text}").result
    assert found.link("GPU0", "GPU1").label == "NV2"
    assert shell.user_ns["pasted"] is found
    refusal = shell.run("%%accel topology\n\tGPU0\tGPU1\nGPU0\t X \tNV2\n").error_in_exec
    assert str(refusal).startswith("Line 2 of the topology matrix: it is the last of 1 row")
    assert "Give one of them" in str(shell.run(f"%%accel topology --from topo.txt\n{text}").error_in_exec)


def test_other_commands_take_no_cell(shell) -> None:
    result = shell.run("%%accel machine\nran = 1")
    assert "only profile, ddp, sweep and topology take a cell" in str(result.error_in_exec)
    assert "ran" not in shell.user_ns


def test_the_question_mark_shows_help_generated_from_the_options(shell) -> None:
    shown = shell.object_inspect("%accel")
    assert shown["found"]
    assert "--timeout-s SECONDS" in shown["docstring"]
    assert shell.object_inspect("%%accel")["found"]


def test_dash_h_explains_a_command(shell, capsys) -> None:
    assert shell.run("%accel try -h").success
    assert "--background" in capsys.readouterr().out


@pytest.mark.parametrize("line", ["help", *(f"help {command.name}" for command in COMMANDS)])
def test_help_explains_all_commands_or_one(shell, line: str) -> None:
    shown = shell.run(f"%accel {line}")
    assert shown.success
    assert f"%accel {line.partition(' ')[2] or 'help'}" in str(shown.result)


def test_the_functions_work_on_the_notebooks_variables(shell) -> None:
    shell.run("%%accel profile\ntrain();")
    shell.run("import accel")
    assert "optimizer" in shell.run("accel.status()").result.workload


def test_keep_and_undo_change_the_notebooks_own_training(shell) -> None:
    shell.run("%%accel profile\ntrain();")
    assert shell.run("%accel findings --full").result.is_in_full
    assert not shell.run("%accel findings").result.is_in_full
    assert "fused_optimizer" in str(shell.run("%accel keep fused_optimizer").result)
    assert shell.user_ns["optimizer"].param_groups[0]["fused"]
    assert shell.run("train()").success
    shell.run("%accel undo")
    assert not shell.user_ns["optimizer"].param_groups[0]["fused"]


def test_export_gives_plain_pytorch(shell) -> None:
    shell.run("%%accel profile\nlast = train()")
    shell.run("%accel keep fused_optimizer")
    export = shell.run("%accel export --to cell").result
    assert "fused" in str(export)
    assert "accel" not in str(export).replace("%%accel", "")


@pytest.mark.parametrize("command", [command.name for command in COMMANDS if command.name != "profile"])
def test_no_command_moves_the_random_numbers_of_the_notebook(shell, monkeypatch, command: str) -> None:
    def drawing(line: str):
        random.random(), numpy.random.rand(), torch.rand(1)  # as a library below a command may
        return parse(line)

    monkeypatch.setattr("accel.notebook.magics.parse", drawing)
    before = generator_states()
    shell.run(f"%accel {command} --help")  # answers before it begins
    shell.run(f"%accel {command} --no-such-option")  # and fails
    after = generator_states()
    assert before["python"] == after["python"]
    assert (before["torch"] == after["torch"]).all()
    assert (before["numpy"][1] == after["numpy"][1]).all()
