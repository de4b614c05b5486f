"""`%%accel profile` with its options, in a shell: what the user typed is what is named."""

from __future__ import annotations

import re

import pytest

from accel.current import current_workbench
from accel.errors import AccelError

LOOP = """
for x, y in batches:
    optimizer.zero_grad()
    out = model(x)
    loss = criterion(out * 2, y)
    loss.backward()
    optimizer.step()
    last = loss.item()
"""


def profile_of(shell, options):
    result = shell.run(f"%%accel profile {options} -o seen{LOOP}")
    assert result.success, shell.tracebacks
    return shell.user_ns["seen"]


def test_by_default_nothing_more_is_recorded(shell) -> None:
    profile = profile_of(shell, "")
    assert (profile.lines, profile.memory, profile.costs) == ((), (), ())
    assert "Lines of your code" not in shell.shown[0]


def test_stacks_name_the_lines_of_this_cell_by_their_numbers_and_text(shell) -> None:
    profile = profile_of(shell, "--stacks --steps 2 --full")
    (product,) = [row for row in profile.lines if (row.op, row.phase) == ("aten::mul", "forward → loss")]
    assert (product.line, product.text) == (5, "loss = criterion(out * 2, y)")
    assert re.fullmatch(r"cell \[\d+\], line 5", product.place)
    assert re.sub(r"5$", "7: optimizer.step()", product.place) in shell.shown[0]
    assert profile.to_dict()["lines"][0]["line"] == profile.lines[0].line


def test_stacks_lead_into_functions_of_earlier_cells(shell) -> None:
    shell.run("%%accel profile --stacks -o seen\ntrain();")
    texts = {row.text for row in shell.user_ns["seen"].lines}
    assert {"loss = criterion(model(x), y)", "optimizer.step()"} <= texts
    assert "train();" not in texts


def test_memory_shows_a_peak_and_a_curve(shell) -> None:
    profile = profile_of(shell, "--memory")
    assert [use.device for use in profile.memory] == ["cpu"]
    assert "Memory of tensors on cpu" in shell.shown[0]
    assert "Peak: " in profile._repr_mimebundle_()["text/html"]


def test_all_options_together_leave_the_shares_whole(shell) -> None:
    profile = profile_of(shell, "--shapes --stacks --memory")
    assert sum(row.share for row in profile.rows) == pytest.approx(1)
    assert profile.options.shapes
    assert profile.memory
    assert profile.lines


def test_reading_a_tensor_back_is_told_with_its_line_in_this_cell(shell) -> None:
    profile = profile_of(shell, "")
    (found,) = profile.synchronisations
    assert (found.call, found.line, found.text) == ("Tensor.item", 8, "last = loss.item()")
    assert re.fullmatch(r"cell \[\d+\], line 8", found.place)
    assert found.calls == 1
    assert found.filename == current_workbench().workload.filename


@pytest.mark.parametrize(
    ("line", "because"),
    [("--stack", "Did you mean '--stacks'"), ("--memory yes", "one word too many"), ("--steps 0", "at least one")],
)  # fmt: skip
def test_wrong_options_say_what_is_wrong_and_the_cell_does_not_run(shell, line: str, because: str) -> None:
    result = shell.run(f"%%accel profile {line}\nran = True")
    assert isinstance(result.error_in_exec, AccelError)
    assert because in str(result.error_in_exec)
    assert "ran" not in shell.user_ns
