"""The text of a profiled cell, before IPython runs it."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import TransformerManager

from accel.notebook.profiled_cell import Marker, left_out, mark_profiled_cell, marker_of, plain_python


def transformed(cell: str) -> str:
    """As IPython transforms it with the extension loaded."""
    manager = TransformerManager()
    manager.line_transforms.insert(0, mark_profiled_cell)
    return manager.transform_cell(cell)


LINES = st.lists(
    st.sampled_from(["", "x = 1", "# note", "train()", "for i in y: pass", "!ls", "%time train()"])
)


@given(LINES)
def test_every_line_keeps_its_number(lines: list[str]) -> None:
    cell = "\n".join(["%%accel profile --steps 3", *lines])
    plain = "\n".join(["first()", *lines])
    assert transformed(cell).splitlines()[1:] == transformed(plain).splitlines()[1:]


@given(LINES)
def test_the_marker_carries_the_command_and_the_cell(lines: list[str]) -> None:
    body = "".join(f"{line}\n" for line in lines)
    marker = marker_of(ast.parse(transformed(f"%%accel profile --steps 3\n{body}")))
    assert marker is not None
    assert marker.command == "profile --steps 3"
    assert marker.body.strip() == body.strip()


@given(LINES)
def test_the_workloads_source_is_python_without_ipython_with_the_same_numbers(lines: list[str]) -> None:
    body = "".join(f"{line}\n" for line in lines)
    source = plain_python(body, TransformerManager().transform_cell)
    assert "get_ipython" not in source
    shown = source.splitlines()[1 : len(lines) + 1]
    assert (
        shown == [{"!ls": "pass", "%time train()": "train()"}.get(line, line) for line in lines][: len(shown)]
    )
    ast.parse(source)


@pytest.mark.parametrize(
    "cell",
    [
        "x = 1",
        "%%time\nx = 1",
        "%accel profile",
        "%%accel machine\nx",
        "%%accel profiler\nx",
        "%%accel profile -h\nx",
    ],
)
def test_other_cells_are_left_to_ipython(cell: str) -> None:
    assert transformed(cell) == TransformerManager().transform_cell(cell)


@pytest.mark.parametrize("command", ["profile --steps 3", "ddp -n 2", "profile -h", "status"])
def test_comments_may_stand_above_the_line_and_the_code_keeps_its_numbers(command: str) -> None:
    above = transformed(f"# Training\n\n# with accel\n%%accel {command}\ntrain()\n")
    assert above == transformed(f"%%accel {command}\n# Training\n\n# with accel\ntrain()\n")
    if command == "profile --steps 3":
        assert above.splitlines()[4] == "train()"
        assert marker_of(ast.parse(above)) is not None


def test_what_is_left_out_is_named_as_it_was_typed() -> None:
    cell = "%%time\n%time train()\nif x:\n    %accel status\n!ls\nfiles = !ls\n"
    assert left_out(cell, TransformerManager().transform_cell) == ["%%time", "%time", "%accel status", "!ls"]


def test_a_cell_magic_on_the_second_line_is_ipythons() -> None:
    assert transformed("%%accel profile\n\n%%time\nx = 1\n").splitlines()[1:] == [
        "",
        "get_ipython().run_cell_magic('time', '', 'x = 1\\n')",
    ]


def test_magics_in_blocks_become_statements_that_do_nothing() -> None:
    source = plain_python("if x:\n    %matplotlib inline\nfiles = !ls\n", TransformerManager().transform_cell)
    assert source.splitlines()[:3] == ["", "if x:", "    pass"]


@pytest.mark.parametrize(
    ("body", "has_code"), [("\n", False), ("# only this\n\n", False), ("# and\nx", True)]
)
def test_comments_are_no_code(body: str, has_code: bool) -> None:
    assert Marker("profile", body).has_code is has_code
