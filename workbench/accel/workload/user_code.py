"""Whose code is it: the user's own, or that of torch, accel, Python and whatever else was installed."""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from types import FrameType
from typing import NamedTuple

from accel.shown_text import one_line

INSTALLED = re.compile(r"[\\/](?:site|dist)-packages[\\/]")
GENERATED = ("<frozen ", "<eval_with_key>", "<attrs generated", "<__array_function__")
NOTEBOOK_CELL = re.compile(r"^<(?:accel cell|ipython-input|cell)\b|[\\/]ipykernel_\d+[\\/]")
NUMBERED_CELL = re.compile(r"^<(?:ipython-input-|cell )(\d+)\b")

# What a notebook knows of its cells: the number that stands beside one, by the file name of its code.
_number_of: list[Callable[[str], str]] = []


class CodeLine(NamedTuple):
    """A line of source: the file, or a cell's name in tracebacks, and its number from 1. Every text names lines by this.

    >>> str(CodeLine("project/train.py", 12)), str(CodeLine("<ipython-input-3-0f1e>", 4))
    ('train.py, line 12', 'cell [3], line 4')
    """

    filename: str
    line: int

    def __str__(self) -> str:
        return f"{_place_of(self.filename)}, line {self.line}"

    @property
    def text(self) -> str:
        """What is written there, without its indentation; "" when the source is gone."""
        return linecache.getline(self.filename, self.line).strip()


def _place_of(filename: str) -> str:
    told = NUMBERED_CELL.match(filename)
    numbers = [told[1]] if told else [number for ask in _number_of if (number := ask(filename))]
    if numbers:
        return f"cell [{numbers[0]}]"
    return "cell" if NOTEBOOK_CELL.search(filename) else one_line(os.path.basename(filename))


def number_cells_by(ask: Callable[[str], str]) -> Callable[[], None]:
    """A notebook tells the number of its cells ("" where it knows none); what is given back takes that back.

    >>> number_cells_by(lambda filename: "4")
    >>> str(CodeLine("/tmp/ipykernel_77/1234.py", 13))
    'cell [4], line 13'
    """
    _number_of.insert(0, ask)
    return lambda: _number_of.remove(ask)


@cache
def is_users_own(filename: str) -> bool:
    """Whether a code object with that file name is the user's: a cell, a script, a module that was not installed.

    >>> is_users_own("<ipython-input-3-0f1e>"), is_users_own(torch.nn.__file__)
    (True, False)
    """
    if filename.startswith("<"):  # cells are in linecache; what dataclasses and others generate is not
        return not filename.startswith(GENERATED) and bool(linecache.getlines(filename))
    return not INSTALLED.search(filename) and not os.path.abspath(filename).startswith(_others())


def users_line(frame: FrameType | None) -> CodeLine | None:
    """The innermost line of the user's own that led here, from a frame outwards."""
    while frame is not None and not is_users_own(frame.f_code.co_filename):
        frame = frame.f_back
    return CodeLine(frame.f_code.co_filename, frame.f_lineno) if frame is not None else None


@cache
def _others() -> tuple[str, ...]:
    """Folders whose code is not the user's, also where torch or accel run from a checkout."""
    packages = (sys.modules.get(name) for name in ("torch", "accel", "accel_widgets"))
    homes = [os.path.dirname(p.__file__) for p in packages if p is not None and p.__file__]
    paths = sysconfig.get_paths()
    homes += [paths["stdlib"], paths["platstdlib"]]
    return tuple(os.path.join(os.path.abspath(home), "") for home in homes)
