"""A cell as a syntax tree that keeps every space and comment, with each use of a name and what it does there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from accel.errors import AccelError
from accel.exporting.magic_lines import MagicLines

if TYPE_CHECKING:
    import libcst as cst
    from libcst.metadata import CodeRange

UseKind = Literal["binds", "calls", "attribute", "reads"]


@dataclass(frozen=True, eq=False)
class Use:
    """One place where a name stands: what happens to it, in which statement, inside which functions."""

    name: str
    node: cst.Name
    kind: UseKind
    statement: cst.CSTNode
    functions: tuple[cst.CSTNode, ...]  # innermost first; empty at the cell's own level


@dataclass(frozen=True, eq=False)
class CellTree:
    """A parsed cell.

    >>> tree = CellTree.parse("output = model(images)")
    >>> [(use.name, use.kind) for use in tree.uses]
    [('output', 'binds'), ('model', 'calls'), ('images', 'reads')]
    """

    module: cst.Module
    magics: MagicLines
    parents: dict[cst.CSTNode, cst.CSTNode]
    uses: tuple[Use, ...]  # in source order
    positions: Mapping[cst.CSTNode, CodeRange]

    @classmethod
    def parse(cls, cell: str) -> CellTree:
        """Read a cell; IPython's own lines are set aside and count as one statement each."""
        import libcst as cst
        from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider

        magics = MagicLines.set_aside(cell)
        try:
            wrapper = MetadataWrapper(cst.parse_module(magics.python))
        except cst.ParserSyntaxError as error:
            raise AccelError(
                "%accel export",
                because=f"the cell does not parse as Python (line {error.raw_line}: {error.message})",
                do="Profile a cell that runs, then export again.",
            ) from error
        assert wrapper.module.code == magics.python, "a cell reads back as it was typed"
        parents = dict(wrapper.resolve(ParentNodeProvider))
        positions = wrapper.resolve(PositionProvider)
        return cls(wrapper.module, magics, parents, tuple(_uses(wrapper.module, parents)), positions)

    def lines(self, node: cst.CSTNode) -> range:
        """The lines of a node, from 1."""
        place = self.positions[node]
        return range(place.start.line, place.end.line + 1)

    def of(self, name: str) -> list[Use]:
        """Every use of one name, in source order."""
        return [use for use in self.uses if use.name == name]

    def bindings(self, name: str) -> list[Use]:
        """Where the cell itself, outside its functions, binds a name."""
        return [use for use in self.of(name) if use.kind == "binds" and not use.functions]

    def names_in(self, node: cst.CSTNode) -> set[str]:
        """Names used under a node, those inside a magic line's text included."""
        inside = {use.name for use in self.uses if use.node is node or node in self.ancestors(use.node)}
        for placeholder in inside & set(self.magics.lines):
            inside |= set(re.findall(r"[A-Za-z_]\w*", self.magics.lines[placeholder]))
        return inside

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The parents of a node, innermost first, the module last."""
        while node in self.parents:
            node = self.parents[node]
            yield node


def resolve(expression: cst.BaseExpression, namespace: dict[str, Any]) -> Any:
    """The object that a name, or a dotted name through modules, stands for in the notebook; None when unknown.

    >>> import libcst as cst, torch
    >>> resolve(cst.parse_expression("torch.optim.Adam"), {"torch": torch})
    <class 'torch.optim.adam.Adam'>
    """
    import libcst as cst

    if isinstance(expression, cst.Name):
        return namespace.get(expression.value)
    if isinstance(expression, cst.Attribute):
        owner = resolve(expression.value, namespace)
        return getattr(owner, expression.attr.value, None) if isinstance(owner, ModuleType) else None
    return None


def _uses(module: cst.Module, parents: dict[cst.CSTNode, cst.CSTNode]) -> Iterator[Use]:
    import libcst as cst

    for node in _in_source_order(module):
        if not isinstance(node, cst.Name):
            continue
        kind = _kind(node, parents)
        if kind is None:
            continue
        statement: cst.CSTNode | None = None
        functions: list[cst.CSTNode] = []
        above: cst.CSTNode = node
        while not isinstance(above, cst.Module):
            above = parents[above]
            if statement is None and isinstance(above, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
                statement = above
            if isinstance(above, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
                functions.append(above)
        assert statement is not None, "every name stands in a statement"
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)) and statement.name is node:
            functions = functions[1:]  # the function's own name belongs to the level outside
        yield Use(node.value, node, kind, statement, tuple(functions))


def _in_source_order(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from _in_source_order(child)


def _kind(node: cst.Name, parents: dict[cst.CSTNode, cst.CSTNode]) -> UseKind | None:
    """What happens to a name where it stands; None where it is only a label (attribute, keyword of an argument)."""
    import libcst as cst

    parent = parents[node]
    if isinstance(parent, cst.Attribute):
        return "attribute" if parent.value is node else None
    if isinstance(parent, cst.Arg) and parent.keyword is node:
        return None
    if isinstance(parent, cst.ImportFrom) or (
        isinstance(parent, cst.ImportAlias) and parent.asname is not None
    ):
        return None
    if isinstance(parent, cst.Call) and parent.func is node:
        return "calls"
    if isinstance(parent, (cst.FunctionDef, cst.ClassDef, cst.ImportAlias, cst.Param)):
        return "binds"
    return "binds" if _is_target(node, parents) else "reads"


def _is_target(node: cst.CSTNode, parents: dict[cst.CSTNode, cst.CSTNode]) -> bool:
    import libcst as cst

    parent = parents[node]
    while isinstance(parent, (cst.Tuple, cst.List, cst.Element, cst.StarredElement)):
        node, parent = parent, parents[parent]
    if isinstance(parent, (cst.AssignTarget, cst.AsName, cst.Del, cst.NameItem)):
        return True
    return (
        isinstance(parent, (cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor, cst.NamedExpr))
        and parent.target is node
    )
