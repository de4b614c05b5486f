"""Whose code it is, told by the file name of a code object."""

from __future__ import annotations

import linecache
import sys
import threading

import numpy
import pytest
import torch

import accel
from accel.workload.user_code import CodeLine, is_users_own, number_cells_by, users_line


@pytest.fixture
def cell():
    name = "<ipython-input-3-0f1e2d>"
    linecache.cache[name] = (9, None, ["%%accel profile\n", "    train()\n"], name)
    is_users_own.cache_clear()
    yield name
    del linecache.cache[name]
    is_users_own.cache_clear()


def test_cells_and_scripts_are_the_users(cell):
    assert is_users_own(cell)
    assert is_users_own(__file__)
    assert is_users_own("project/train.py")


@pytest.mark.parametrize(
    "filename",
    [
        torch.nn.__file__, numpy.__file__, threading.__file__, accel.__file__, pytest.__file__,
        "<frozen importlib._bootstrap>", "<string>", "<eval_with_key>.3", "env/lib/site-packages/timm/models.py",
    ],
)  # fmt: skip
def test_what_was_installed_or_generated_is_not(filename):
    assert not is_users_own(filename)


def test_the_users_line_is_the_innermost_of_their_own():
    def from_the_library():
        return users_line(sys._getframe(0))

    found = torch.utils._pytree.tree_map(lambda _: from_the_library(), [1])[0]
    assert found == CodeLine(__file__, from_the_library.__code__.co_firstlineno + 1)


def test_a_line_shows_its_text_and_where_it_is(cell):
    line = CodeLine(cell, 2)
    assert (str(line), line.text) == ("cell [3], line 2", "train()")
    assert str(CodeLine("project/train.py", 12)) == "train.py, line 12"
    assert str(CodeLine("/tmp/ipykernel_77/1234.py", 3)) == "cell, line 3"
    assert str(CodeLine("<accel cell 0f1e2d>", 3)) == "cell, line 3"
    assert str(CodeLine("<cell 7 on ranks>", 3)) == "cell [7], line 3"
    assert str(CodeLine("/home/\x1b[31m.py", 3)) == "\\x1b[31m.py, line 3"
    assert CodeLine("/nowhere.py", 1).text == ""


def test_a_notebook_numbers_its_cells_for_as_long_as_it_is_there():
    numbers = {"/tmp/ipykernel_77/1234.py": "4"}
    end = number_cells_by(lambda filename: numbers.get(filename, ""))
    assert str(CodeLine("/tmp/ipykernel_77/1234.py", 13)) == "cell [4], line 13"
    assert str(CodeLine("/tmp/ipykernel_77/5678.py", 13)) == "cell, line 13"
    end()
    assert str(CodeLine("/tmp/ipykernel_77/1234.py", 13)) == "cell, line 13"
