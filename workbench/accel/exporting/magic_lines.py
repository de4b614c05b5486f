"""Lines that only IPython understands: set aside while a cell is read as Python, and put back exactly as typed."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass

# A logical line of Python never starts with one of these, never assigns `!…` or `%…`, and never ends in `name?`.
_MAGIC = re.compile(r"\s*(?:[%!?,;/]|[\w.*\[\]]+\?\??\s*$|[\w., *]+=\s*[%!]\S)")
_BLANK = re.compile(r"\s*(?:#.*)?\s*")
_ACCEL_CELL_MAGIC = re.compile(r"\s*%%accel\b[^\n]*\n?")


@dataclass(frozen=True)
class MagicLines:
    """A cell as plain Python, every line of IPython syntax replaced by a bare name that stands for it.

    >>> MagicLines.set_aside("%time train()\\nx = 1").python
    '__magic_line_0__\\nx = 1'
    """

    python: str
    lines: dict[str, str]
    tail: str = ""  # blank lines and comments at the cell's end: libcst loses some of them

    @classmethod
    def set_aside(cls, cell: str) -> MagicLines:
        """Replace each magic line; an indented one stays indented, one ending in a backslash takes the next along."""
        lines: dict[str, str] = {}
        python = []
        every = _logical_lines(cell)
        end = next((n for n in range(len(every), 0, -1) if not _BLANK.fullmatch(every[n - 1])), 0)
        for logical in every[:end]:
            if not _MAGIC.match(logical):
                python.append(logical)
                continue
            typed = logical.strip(" \t\r\n")
            name = _unused_name(cell, len(lines))
            lines[name] = typed
            python.append(logical.replace(typed, name))
        return cls("".join(python), lines, "".join(every[end:]))

    def put_back(self, code: str) -> str:
        """The code with each placeholder turned into the line it stands for."""
        for name, line in self.lines.items():
            code = code.replace(name, line)
        return code + self.tail


def without_accel_line(cell: str) -> str:
    """The cell without a first `%%accel …` line."""
    return _ACCEL_CELL_MAGIC.sub("", cell, count=1) if _ACCEL_CELL_MAGIC.match(cell) else cell


def _unused_name(cell: str, number: int) -> str:
    name = f"__magic_line_{number}__"
    while name in cell:
        name = f"_{name}"
    return name


def _logical_lines(cell: str) -> list[str]:
    """Physical lines joined where a bracket, a triple-quoted string or a backslash continues them."""
    logical: list[str] = []
    open_lines = ""
    for line in re.findall(r"[^\n]*\n|[^\n]+", cell):
        open_lines += line
        starts_as_magic = _MAGIC.match(open_lines) is not None
        if open_lines.rstrip("\r\n").endswith("\\") or (not starts_as_magic and _is_unfinished(open_lines)):
            continue
        logical.append(open_lines)
        open_lines = ""
    return [*logical, open_lines] if open_lines else logical


def _is_unfinished(lines: str) -> bool:
    """Whether these lines end inside a bracket or a triple-quoted string."""
    try:
        for _ in tokenize.generate_tokens(io.StringIO(lines.lstrip(" \t")).readline):
            pass
    except tokenize.TokenError as error:
        return "multi-line" in str(error)
    except SyntaxError:  # an inner line dedents further than the first: only possible outside brackets
        return False
    return False
