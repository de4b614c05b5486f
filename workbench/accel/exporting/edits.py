"""What is to change in a cell, collected first and made in one pass; all else stays as it was typed, byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from accel.exporting.cell_tree import CellTree

if TYPE_CHECKING:
    import libcst as cst

    Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement


@dataclass(eq=False)
class Edits:
    """Statements to put before or after others, calls to change, lines to replace.

    >>> edits = Edits(tree)
    >>> edits.before(statement, cst.parse_module("print('now')").body)
    >>> edits.made()
    "print('now')\\ntrain(model)"
    """

    tree: CellTree
    _before: dict[cst.CSTNode, list[Any]] = field(default_factory=dict)
    _after: dict[cst.CSTNode, list[Any]] = field(default_factory=dict)
    _changed_calls: dict[cst.CSTNode, list[Callable[[cst.Call], cst.Call]]] = field(default_factory=dict)
    _changed_lines: dict[cst.CSTNode, Callable[[cst.SimpleStatementLine], Sequence[Any]]] = field(
        default_factory=dict
    )

    def before(self, statement: cst.CSTNode, added: Sequence[Any]) -> None:
        """Put statements before a small statement, or before a whole compound one."""
        self._before.setdefault(statement, []).extend(added)

    def after(self, statement: cst.CSTNode, added: Sequence[Any]) -> None:
        """Put statements after a small statement; a line of several (`a; b`) is split there."""
        self._after.setdefault(statement, []).extend(added)

    def change_call(self, call: cst.Call, change: Callable[[cst.Call], cst.Call]) -> None:
        """Change a call where it stands; several changes of one call are made in order."""
        self._changed_calls.setdefault(call, []).append(change)

    def change_line(
        self, line: cst.SimpleStatementLine, change: Callable[[cst.SimpleStatementLine], Sequence[Any]]
    ) -> None:
        """Replace a line by the statements that `change` makes of it."""
        self._changed_lines[line] = change

    def made(self) -> str:
        """The cell with all edits made and IPython's lines put back."""
        module = self.tree.module.visit(_transformer(self))
        return self.tree.magics.put_back(module.code)

    def touches(self, line: cst.SimpleStatementLine | cst.SimpleStatementSuite) -> bool:
        """Whether anything is added before, between or after the line's small statements."""
        return any(small in self._before or small in self._after for small in line.body)


def _transformer(edits: Edits) -> cst.CSTTransformer:
    """The one pass over the tree; made in a function because libcst is imported only for an export."""
    import libcst as cst

    class MakeEdits(cst.CSTTransformer):
        def on_leave(self, original_node: Any, updated_node: Any) -> Any:
            if isinstance(original_node, cst.Call):
                for change in edits._changed_calls.get(original_node, ()):
                    updated_node = change(updated_node)
            elif isinstance(original_node, cst.SimpleStatementLine):
                return cst.FlattenSentinel(_edited_line(edits, original_node, updated_node))
            elif isinstance(original_node, cst.SimpleStatementSuite) and edits.touches(original_node):
                line = cst.SimpleStatementLine(
                    body=updated_node.body, trailing_whitespace=updated_node.trailing_whitespace
                )
                return cst.IndentedBlock(body=_cut(edits, original_node, line))
            elif isinstance(original_node, cst.BaseCompoundStatement) and original_node in edits._before:
                return cst.FlattenSentinel(_with_added(edits, original_node, original_node, [updated_node]))
            return updated_node

    return MakeEdits()


def _edited_line(
    edits: Edits, original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
) -> list[Any]:
    small = original.body[0]
    changed = [updated]
    if original in edits._changed_lines:
        changed = list(edits._changed_lines[original](updated))
    if len(original.body) > 1 and edits.touches(original):
        return _cut(edits, original, updated)
    return [*_with_added(edits, small, original, changed), *edits._after.get(small, [])]


def _with_added(edits: Edits, place: cst.CSTNode, line: cst.CSTNode, changed: list[Any]) -> list[Any]:
    """The statements added before, set apart by blank lines, and then what was there."""
    import libcst as cst

    added = edits._before.get(place, [])
    if not added:
        return changed
    module = edits.tree.module
    blank = cst.EmptyLine(indent=False)
    is_top = line is module.body[0] and not any(empty.comment for empty in module.header)
    above = [] if is_top else [blank]
    below = changed[0].leading_lines
    if not below or below[0].comment is not None:
        below = [blank, *below]
    return [
        added[0].with_changes(leading_lines=[*above, *added[0].leading_lines]),
        *added[1:],
        changed[0].with_changes(leading_lines=below),
        *changed[1:],
    ]


def _cut(edits: Edits, original: Any, updated: cst.SimpleStatementLine) -> list[Any]:
    """`a; b` cut where statements are added; comments above and behind stay with its first and last part."""
    import libcst as cst

    cut: list[Any] = []
    own: list[int] = []  # where in `cut` the line's own parts are
    is_open = False
    for small, edited in zip(original.body, updated.body, strict=True):
        before, after = edits._before.get(small, []), edits._after.get(small, [])
        cut += before
        if is_open and not before:
            cut[-1] = cut[-1].with_changes(body=[*cut[-1].body, edited])
        else:
            own.append(len(cut))
            cut.append(cst.SimpleStatementLine(body=[edited]))
        cut += after
        is_open = not after
    for position in own[:-1]:
        *kept, last = cut[position].body
        cut[position] = cut[position].with_changes(
            body=[*kept, last.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)]
        )
    cut[own[0]] = cut[own[0]].with_changes(leading_lines=updated.leading_lines)
    cut[own[-1]] = cut[own[-1]].with_changes(trailing_whitespace=updated.trailing_whitespace)
    return cut
