"""From the text of a `%%accel profile` cell to Python: a marker line for IPython, plain source for the workload.

IPython calls input transformers more than once and also to colour or complete text, so nothing here has side effects.
The marker takes the place of the magic's line: every later line keeps its number, and runs as ever.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Callable
from typing import NamedTuple

from IPython.core.inputtransformer2 import cell_magic

PROFILE_LINE = re.compile(r"%%accel[ \t]+(?P<command>profile\b[^\n]*)")
ACCEL_LINE = re.compile(r"%%accel\b")
TIMING_MAGIC = re.compile(r"^(?P<indent>\s*)%time[ \t]+(?=\S)", re.MULTILINE)
WRAPPING_MAGIC = re.compile(r"\A(?P<blank>\s*)%%(?:time|capture)\b[^\n]*")


class Marker(NamedTuple):
    """What the first line of a profiled cell says: the command with its options, and the cell below it."""

    command: str
    body: str

    @property
    def line(self) -> str:
        """The Python that stands in the place of the magic's line."""
        return f"get_ipython().run_cell_magic('accel', {self.command!r}, {self.body!r})\n"

    @property
    def has_code(self) -> bool:
        """Whether anything but blank lines and comments follows."""
        return any(line.strip() and not line.lstrip().startswith("#") for line in self.body.splitlines())


def mark_profiled_cell(lines: list[str]) -> list[str]:
    """An input transformer: replace the line `%%accel profile …` by its marker and leave the rest as it is.

    A cell magic on the next line, as `%%time`, is transformed as if it stood first. Comments above any `%%accel` line change
    places with it: it is the first line, and the code keeps its numbers.
    """
    lines = _magic_first(lines)
    match = PROFILE_LINE.match(lines[0]) if lines else None
    if match is None or {"-h", "--help"} & set(match["command"].split()):
        return lines
    body = lines[1:]
    first = next((number for number, line in enumerate(body) if line.strip()), len(body))
    marker = Marker(match["command"].strip(), "".join(body) or "\n")
    return [marker.line, *body[:first], *cell_magic(body[first:])]


def _magic_first(lines: list[str]) -> list[str]:
    for number, line in enumerate(lines):
        if ACCEL_LINE.match(line):
            return [line, *lines[:number], *lines[number + 1 :]]
        if line.strip() and not line.lstrip().startswith("#"):
            break
    return lines


def marker_of(tree: ast.AST) -> Marker | None:
    """The marker of a parsed cell; None when it is not a profiled one.

    The same call alone, without the lines it speaks of, is the user's own, as in a notebook saved as a script.
    """
    if not isinstance(tree, ast.Module) or not tree.body:
        return None
    first = tree.body[0]
    if not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Call):
        return None
    call = first.value
    values = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    if ast.unparse(call.func) != "get_ipython().run_cell_magic" or len(values) != 3 or values[0] != "accel":
        return None
    marker = Marker(str(values[1]), str(values[2]))
    stands_alone = len(tree.body) == 1 and marker.has_code
    return marker if marker.command.startswith("profile") and not stands_alone else None


def show_as_typed(marker: Marker) -> str:
    """Let tracebacks that show the first line of the cell show what the user wrote there; gives the name they know it by."""
    for name, entry in reversed(list(linecache.cache.items())):
        if len(entry) == 4 and entry[2][:1] == [marker.line]:
            lines = [f"%%accel {marker.command}\n", *entry[2][1:]]
            linecache.cache[name] = (entry[0], None, lines, name)
            return name
    return ""


def plain_python(body: str, transform_cell: Callable[[str], str]) -> str:
    """The cell as Python that needs no IPython, with the line numbers of the cell (its first line is blank).

    Timing magics are taken off the code they time; other magics and shell commands become `pass`.

    >>> plain_python("%time train()", get_ipython().transform_cell)
    '\\ntrain()\\n'
    """
    lines = _transformed(body, transform_cell)
    for statement in _magic_statements("\n".join(lines)):
        lines[statement.lineno - 1] = lines[statement.lineno - 1][: statement.col_offset] + "pass"
    return "\n".join(lines)


def left_out(body: str, transform_cell: Callable[[str], str]) -> list[str]:
    """What `plain_python` takes off or replaces, as it was typed.

    >>> left_out("%time train()\\n!ls", get_ipython().transform_cell)
    ['%time', '!ls']
    """
    typed = ["", *body.split("\n")]
    statements = _magic_statements("\n".join(_transformed(body, transform_cell)))
    found = [match[0].strip() for magic in (WRAPPING_MAGIC, TIMING_MAGIC) for match in magic.finditer(body)]
    numbers = sorted(statement.lineno for statement in statements)
    return list(dict.fromkeys(found + [typed[number - 1].strip() for number in numbers]))


def _transformed(body: str, transform_cell: Callable[[str], str]) -> list[str]:
    """The lines as IPython writes them, timing magics taken off."""
    unwrapped = TIMING_MAGIC.sub(r"\g<indent>", WRAPPING_MAGIC.sub(r"\g<blank>", body))
    # A comment, not an empty line: IPython drops leading empty lines, which would move every number.
    return ["", *transform_cell("#\n" + unwrapped).split("\n", 1)[1].split("\n")]


def _magic_statements(source: str) -> list[ast.Expr]:
    """Statements that only call a magic or the shell; each stands alone on one line, as IPython writes them."""
    return [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).startswith("get_ipython().")
        and node.lineno == node.end_lineno
    ]
