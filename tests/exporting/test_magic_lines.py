"""IPython's own lines survive: whatever is typed comes back byte for byte, and Python is never mistaken for magic."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.exporting.magic_lines import MagicLines, without_accel_line

MAGIC = [
    "%time train()",
    "!ls -la",
    "?len",
    "len?",
    "model.fit??",
    "%%time",
    "files = !ls *.py",
    "out = %timeit -o f()",
]
PYTHON = [
    "x = (a\n  % b)",
    "y = 7 \\\n  % 3",
    '"""\n%not magic\n!nor this\n"""',
    "z = 1  # really?",
    "s = f'{a % b}'",
    "if a:\n    pass",
    "t = 'it is 5 %'",
    "",
    "   # only a comment?",
]


@pytest.mark.parametrize("line", MAGIC)
def test_a_magic_line_is_replaced_by_a_name_and_comes_back(line: str) -> None:
    set_aside = MagicLines.set_aside(line)
    assert ast.parse(set_aside.python).body[0].value.id in set_aside.lines  # type: ignore[attr-defined]
    assert set_aside.put_back(set_aside.python) == line


@pytest.mark.parametrize("code", PYTHON)
def test_python_is_left_alone(code: str) -> None:
    set_aside = MagicLines.set_aside(code)
    assert set_aside.lines == {}
    assert set_aside.python + set_aside.tail == code


def test_an_indented_magic_keeps_its_place_in_the_block() -> None:
    set_aside = MagicLines.set_aside("for x in y:\n    %time f(x)\n    g(x)\n")
    ast.parse(set_aside.python)
    assert set_aside.python.splitlines()[1] == "    __magic_line_0__"


def test_a_magic_continued_by_a_backslash_is_one_line() -> None:
    set_aside = MagicLines.set_aside("!ls \\\n  -la\nx = 1")
    assert list(set_aside.lines.values()) == ["!ls \\\n  -la"]


def test_quotes_and_brackets_in_a_shell_line_open_nothing() -> None:
    cell = '!echo it\'s ((\nx = 1\n!echo \'"""\ny = 2'
    set_aside = MagicLines.set_aside(cell)
    assert [type(node) for node in ast.parse(set_aside.python).body] == [
        ast.Expr,
        ast.Assign,
        ast.Expr,
        ast.Assign,
    ]
    assert set_aside.put_back(set_aside.python) == cell


def test_a_placeholder_never_equals_a_name_of_the_cell() -> None:
    set_aside = MagicLines.set_aside("__magic_line_0__ = 5\n%time f()")
    assert set_aside.put_back(set_aside.python) == "__magic_line_0__ = 5\n%time f()"


@given(st.lists(st.sampled_from(MAGIC + PYTHON), max_size=8), st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_any_mixture_comes_back_byte_for_byte(lines: list[str], newline: str) -> None:
    cell = newline.join(lines)
    set_aside = MagicLines.set_aside(cell)
    assert set_aside.put_back(set_aside.python) == cell
    assert len(set_aside.lines) == sum(line in MAGIC for line in lines)


@given(st.text(alphabet="ab%!?'\"\\()[] \n\t=#,;/:", max_size=60))
def test_no_text_at_all_makes_it_fail_or_lose_a_character(cell: str) -> None:
    set_aside = MagicLines.set_aside(cell)
    assert set_aside.put_back(set_aside.python) == cell


@pytest.mark.parametrize("first", ["%%accel profile", "%%accel profile --steps 3 -o p", "\n%%accel profile"])
def test_the_accel_line_is_dropped(first: str) -> None:
    assert without_accel_line(f"{first}\ntrain()\n") == "train()\n"


def test_other_first_lines_stay() -> None:
    assert without_accel_line("%%time\ntrain()") == "%%time\ntrain()"
    assert without_accel_line("%%accelerate\ntrain()") == "%%accelerate\ntrain()"
