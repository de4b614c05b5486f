"""Deferred reads as a user writes them: a function with its lines changed, or which line of a cell to change."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel.techniques.source.deferred_read import DeferredRead
    from accel.workload.training_code import TrainingCode


def edited_lines(lines: Sequence[str], reads: Sequence[DeferredRead]) -> list[str]:
    """The source with each statement replaced, and a line added after its loop; all else as it was typed.

    Lines are of the whole source, so that the numbers of the statements are theirs.
    """
    edited = list(lines)
    added: dict[int, list[str]] = {}
    for read in reads:
        first, last = read.statement.lineno - 1, (read.statement.end_lineno or read.statement.lineno) - 1
        start, end = read.statement.col_offset, read.statement.end_col_offset or 0
        before = lines[first].encode()[:start].decode()
        behind = lines[last].encode()[end:].decode()
        edited[first] = before + read.line + behind
        edited[first + 1 : last + 1] = [""] * (last - first)  # numbers of later lines stay
        indent = lines[read.loop.lineno - 1][: read.loop.col_offset]
        added.setdefault(read.loop.end_lineno or read.loop.lineno, []).append(indent + read.after)
    taken_out = {
        line
        for read in reads
        for line in range(read.statement.lineno + 1, (read.statement.end_lineno or read.statement.lineno) + 1)
    }
    result = []
    for number, line in enumerate(edited, start=1):
        if number not in taken_out:
            result.append(line)
        result += added.get(number, [])
    return result


def function_with(code: TrainingCode, reads: Sequence[DeferredRead]) -> str:
    """The definition of the function with these lines changed; a method is put into its class afterwards."""
    assert code.function is not None
    definition = next(
        node
        for node in ast.walk(code.tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and _first_line(node) == code.function.__code__.co_firstlineno
    )
    whole = code.source.splitlines()
    first, last = _first_line(definition) - 1, definition.end_lineno or definition.lineno
    inside = [read for read in reads if first < read.statement.lineno <= last]
    longer = edited_lines(whole, inside)
    end = last + len(longer) - len(whole)
    source = textwrap.dedent("\n".join(longer[first:end]))
    owner, _, name = code.name.rpartition(".")
    if not owner:
        return source
    alone = f"{owner.replace('.', '_')}_{name}"  # the notebook may have a function of the method's name
    source = re.sub(
        rf"^(\s*(?:async\s+)?def\s+){name}\b", rf"\g<1>{alone}", source, count=1, flags=re.MULTILINE
    )
    return f"{source}\n\n{owner}.{name} = {alone}"


def cell_with(cell: str, source: str, reads: Sequence[DeferredRead]) -> str | None:
    """The cell as the user typed it with these lines changed; None where its lines are not those of the plain source."""
    typed, plain = cell.splitlines(), source.splitlines()
    touched = {
        line
        for read in reads
        for line in range(read.statement.lineno, (read.statement.end_lineno or read.statement.lineno) + 1)
    }
    if any(typed[line - 1 : line] != plain[line - 1 : line] for line in touched):
        return None
    return "\n".join(edited_lines(typed, reads)) + ("\n" if cell.endswith("\n") else "")


def line_to_edit(read: DeferredRead) -> str:
    """What to do by hand, as a comment."""
    return inspect.cleandoc(
        f"""
        # In the cell, in place of `{ast.unparse(read.statement)}`:
        #     {read.line}
        # and after the loop:
        #     {read.after}
        """
    )


def _first_line(definition: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([definition.lineno, *(each.lineno for each in definition.decorator_list)])
