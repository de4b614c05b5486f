"""A profiled cell behaves as without the first line, and is profiled."""

from __future__ import annotations

import ast

import pytest
import torch
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from accel.errors import AccelError
from accel.profiling.profile import Profile
from accel.workload.phase_marks import active_marks


def originals() -> tuple[object, ...]:
    """What profiling patches while a cell runs."""
    return (
        torch.nn.Module.__call__,
        torch.autograd._engine_run_backward,
        torch.autograd.profiler._is_profiler_enabled,
        torch.optim.SGD.step,
        torch.optim.Optimizer.zero_grad,
        torch.Tensor.to,
        torch.Tensor.cuda,
        torch.utils.data.DataLoader.__iter__,
        dict(_global_optimizer_pre_hooks),
        dict(_global_optimizer_post_hooks),
        active_marks(),
    )


@pytest.fixture(autouse=True)
def nothing_stays_patched():
    torch.optim.SGD(
        [torch.zeros(1)], lr=0.1
    )  # torch wraps the step of an optimizer class when the first one is made
    before = originals()
    yield
    assert originals() == before


def test_the_profile_is_shown_after_the_value_of_the_cell(shell, capsys) -> None:
    result = shell.run("%%accel profile\nlast = train()\nlast * 0 + 3")
    assert result.success
    assert result.result == 3
    assert shell.user_ns["Out"][result.execution_count] == shell.user_ns["_"] == 3
    assert "Out[" in capsys.readouterr().out
    assert len(shell.shown) == 1
    assert "Backward" in shell.shown[0]


def test_a_semicolon_hides_the_value_and_not_the_profile(shell, capsys) -> None:
    shell.run("%%accel profile\ntrain();")
    assert "Out[" not in capsys.readouterr().out
    assert len(shell.shown) == 1


def test_a_semicolon_after_the_command_keeps_the_profile_without_showing_it(shell) -> None:
    assert shell.run("%%accel profile -o kept;\ntrain()").success
    assert shell.shown == []
    assert isinstance(shell.user_ns["kept"], Profile)


def test_the_cells_variables_stay_in_the_notebook(shell) -> None:
    before = set(shell.user_ns)
    shell.run("%%accel profile\nfor x, y in batches:\n    loss = step(x, y)\ndef later(): return loss")
    assert set(shell.user_ns) - before - {"_i2", "_i3", "_i1"} == {"x", "y", "loss", "later"}
    assert shell.run("later()").success


def test_out_names_the_profile(shell) -> None:
    shell.run("%%accel profile -o found --steps 3\ntrain();")
    found = shell.user_ns["found"]
    assert isinstance(found, Profile)
    assert found.profiled_steps == 3


def test_the_training_gives_the_same_losses_as_without(shell) -> None:
    shell.run(
        "state = {k: v.clone() for k, v in model.state_dict().items()}; a = [step(x, y) for x, y in batches]"
    )
    shell.run("model.load_state_dict(state); optimizer.state.clear()")
    shell.run("%%accel profile\nb = []\nfor x, y in batches:\n    b.append(step(x, y))")
    assert shell.user_ns["a"] == shell.user_ns["b"]


ERROR = "x0 = 1\n\ntrain()\n1 / 0\nnever = 1"


def test_an_error_is_the_users_own_shown_once_with_the_lines_of_the_cell(shell) -> None:
    result = shell.run(f"%%accel profile\n{ERROR}")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert len(shell.tracebacks) == 1
    shown = shell.tracebacks[0]
    assert "----> 5 1 / 0" in shown
    assert "accel/" not in shown
    assert "run_cell_magic" not in shown
    assert "never" not in shell.user_ns
    assert "Backward" in shell.shown[0]


def test_an_error_is_shown_as_without_accel_but_for_the_first_line(shell) -> None:
    shell.run(f"pass\n{ERROR}")
    plain = shell.tracebacks[0].splitlines()[4:]  # the number of the cell and its first line differ
    shell.run(f"%%accel profile\n{ERROR}")
    assert shell.tracebacks[0].splitlines()[4:] == plain


def test_the_first_line_is_shown_as_the_user_typed_it(shell) -> None:
    shell.run("%%accel profile --steps 3\ntrain(); 1 / 0")
    assert "1 %%accel profile --steps 3" in shell.tracebacks[0]


def test_an_error_in_a_function_of_an_earlier_cell_points_there(shell) -> None:
    shell.run("def broken():\n    train()\n    raise KeyError('no such thing')")
    result = shell.run("%%accel profile\nbroken()")
    assert isinstance(result.error_in_exec, KeyError)
    assert "----> 3     raise KeyError" in shell.tracebacks[0]


def test_an_error_before_the_first_step_shows_no_empty_profile(shell) -> None:
    result = shell.run("%%accel profile\nnot_there")
    assert isinstance(result.error_in_exec, NameError)
    assert shell.shown == []


def test_an_interrupt_ends_the_cell_and_leaves_a_profile(shell) -> None:
    result = shell.run("%%accel profile\ntrain()\nraise KeyboardInterrupt\nnever = 1")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert "never" not in shell.user_ns
    assert len(shell.shown) == 1


def test_a_real_interrupt_signal_is_the_same(shell) -> None:
    result = shell.run(
        "%%accel profile\nimport signal\ntrain()\nsignal.raise_signal(signal.SIGINT)\nnever = 1"
    )
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert "never" not in shell.user_ns
    assert len(shell.shown) == 1


def test_top_level_await_works(shell) -> None:
    result = shell.run("%%accel profile\nimport asyncio\nlast = train()\nawait asyncio.sleep(0, result=7)")
    assert result.result == 7
    assert len(shell.shown) == 1


@pytest.mark.parametrize(
    "wrapped", ["%%accel profile\n%%time\ntrain()\n", "%%time\n%%accel profile\ntrain()\n"]
)
def test_timing_the_cell_works_above_and_below(shell, capsys, wrapped: str) -> None:
    assert shell.run(wrapped).success
    assert "Wall time" in capsys.readouterr().out
    assert "Backward" in shell.shown[0]


def test_other_magics_and_the_shell_work_inside(shell, capsys) -> None:
    result = shell.run(
        "%%accel profile\n%time last = train()\nlines = !echo from the shell\n!echo printed\nlines"
    )
    assert list(result.result) == ["from the shell"]
    assert "Wall time" in capsys.readouterr().out
    assert len(shell.shown) == 1


def test_a_captured_cell_captures_its_profile(shell) -> None:
    assert shell.run("%%capture captured\n%%accel profile\ntrain()").success
    assert len(shell.user_ns["captured"].outputs) >= 1
    assert shell.shown == []


def test_a_cell_captured_inside_is_profiled_to_its_end(shell) -> None:
    assert shell.run("%%accel profile\n%%capture captured\nprint('hidden')\ntrain()").success
    assert shell.user_ns["captured"].stdout == "hidden\n"
    assert "Backward" in shell.shown[0]


def test_nested_profiles_are_refused_and_the_code_does_not_run(shell) -> None:
    result = shell.run("%%accel profile\n%%accel profile\nran = 1")
    assert "being profiled already" in str(result.error_in_exec)
    assert "ran" not in shell.user_ns


@pytest.mark.parametrize(
    "cell", ["%%accel profile", "%%accel profile\n", "%%accel profile\n\n# only a comment\n"]
)
def test_an_empty_cell_is_refused(shell, cell: str) -> None:
    result = shell.run(cell)
    assert isinstance(result.error_in_exec, AccelError)
    assert "the cell is empty" in shell.tracebacks[0]


def test_a_syntax_error_is_ipythons_own(shell) -> None:
    result = shell.run("%%accel profile\ntrain()\nx = = 1")
    assert isinstance(result.error_before_exec, SyntaxError)
    assert result.error_before_exec.lineno == 3
    assert len(shell.tracebacks) == 1
    assert shell.shown == []


def test_an_error_that_only_compiling_finds_ends_cleanly(shell) -> None:
    result = shell.run("%%accel profile\ntrain()\nreturn 3")
    assert not result.success
    assert len(shell.tracebacks) == 1


@pytest.mark.parametrize(
    ("body", "because"),
    [
        ("%%bash\nif true; then echo ran; fi", "a %%bash cell, and only Python"),
        ("%%html\n<b>ran</b>", "a %%html cell, and only Python"),
        ("\n%%writefile there.txt\nran, and ran!", "a %%writefile cell, and only Python"),
        ("train()\n%%bash\necho ran", "cannot be read as Python"),
    ],
)
def test_a_body_in_another_language_is_refused_and_later_cells_are_profiled(
    shell, capsys, tmp_path, monkeypatch, body: str, because: str
) -> None:
    monkeypatch.chdir(tmp_path)
    transformers = list(shell.ast_transformers)
    result = shell.run(f"%%accel profile\n{body}")
    if result.error_before_exec is None:  # otherwise IPython itself cannot read it
        assert isinstance(result.error_in_exec, AccelError)
        assert because in str(result.error_in_exec)
    assert "ran" not in capsys.readouterr().out
    assert not list(tmp_path.glob("*.txt"))
    assert shell.ast_transformers == transformers
    assert shell.run("%%accel profile\ntrain();").success
    assert "Backward" in shell.shown[0]


def test_a_wrong_option_names_the_right_one_and_runs_nothing(shell) -> None:
    result = shell.run("%%accel profile --stpes 3\nran = 1")
    assert "Did you mean '--steps'?" in str(result.error_in_exec)
    assert shell.tracebacks == [f"UnknownName: {result.error_in_exec}"]
    assert "ran" not in shell.user_ns


def test_asking_for_help_runs_nothing(shell, capsys) -> None:
    assert shell.run("%%accel profile -h\nran = 1").success
    assert "--steps N" in capsys.readouterr().out
    assert "ran" not in shell.user_ns


def test_values_in_braces_are_filled_in(shell) -> None:
    shell.run("n = 2")
    shell.run("%%accel profile --steps {n} -o found\ntrain();")
    assert shell.user_ns["found"].profiled_steps == 2


def test_a_cell_without_a_training_step_says_so(shell) -> None:
    assert shell.run("%%accel profile\ntotal = sum(range(10))").success
    assert "No training step was seen" in shell.shown[0]


def test_a_notebook_saved_as_a_script_still_profiles(shell) -> None:
    assert shell.run("get_ipython().run_cell_magic('accel', 'profile -o found', 'last = train()\\n')").success
    assert isinstance(shell.user_ns["found"], Profile)


def test_a_silent_cell_shows_nothing_and_leaves_nothing(shell) -> None:
    result = shell.run_cell("%%accel profile\nran = train()", silent=True)
    assert result.success
    assert shell.shown == []
    assert shell.run("%%accel profile\ntrain();").success
    assert len(shell.shown) == 1


def test_the_cell_after_a_profiled_one_is_not_profiled(shell) -> None:
    shell.run("%%accel profile\ntrain();")
    assert shell.run("train()").success
    assert shell.shown == []


def test_two_models_are_both_remembered(shell) -> None:
    shell.run("other = torch.nn.Linear(8, 2)\nother_optimizer = torch.optim.Adam(other.parameters())")
    shell.run(
        "%%accel profile\nfor x, y in batches:\n    step(x, y)\n    other_optimizer.zero_grad()\n"
        "    criterion(other(x), y).backward()\n    other_optimizer.step()"
    )
    assert "model" in shell.run("%accel status").result.workload
    assert "other" in shell.run("%accel status").result.workload


def test_the_cells_code_reaches_the_workload_as_plain_python(shell) -> None:
    import accel.current

    shell.run("%%accel profile\n%%time\n!echo hello\n\n%time last = train()")
    workload = accel.current.current_workbench().workload
    assert workload.cell == "\n%%time\n!echo hello\n\n%time last = train()\n"
    assert workload.source.splitlines() == ["", "", "pass", "", "last = train()"]
    assert ast.parse(workload.source)
