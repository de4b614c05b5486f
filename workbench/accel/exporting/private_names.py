"""Names that only the written lines use: none is a name of the user's, and what no line needs is not written."""

from __future__ import annotations

import builtins
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from accel.exporting.cell_tree import CellTree
from accel.exporting.plain_code import as_code_for, imported_names, reads_torch

if TYPE_CHECKING:
    import libcst as cst

    from accel.accelerations.acceleration import Acceleration
    from accel.workload.workload import Role, Workload

_THEIRS = "_of_the_cell"


class PrivateNames:
    """Gives what written code binds names with an underscore, which neither the notebook nor the cell has.

    >>> names = PrivateNames(CellTree.parse("train(tree_map)"), {})
    >>> names.used_in("from torch.utils._pytree import tree_map\\nprint(tree_map(str, 1))")
    'from torch.utils._pytree import tree_map as _tree_map\\nprint(_tree_map(str, 1))'

    `torch` keeps its name, unless the user calls something else so. A builtin whose name the user has taken is read from
    `builtins`.
    """

    def __init__(self, tree: CellTree, namespace: Mapping[str, Any]) -> None:
        self._taken = set(namespace) | tree.names_in(tree.module) | {use.name for use in tree.uses}
        self._given: dict[str, list[tuple[str, str]]] = {}  # name → (what it stands for, its private name)
        bound = {use.name for use in tree.uses if use.kind == "binds"}
        self._replaced = {
            name
            for name, value in vars(builtins).items()
            if name in bound or namespace.get(name, value) is not value
        }
        self.has_torch = _means_torch(tree, namespace)

    def code_for(self, entry: Acceleration, workload: Workload, roles: Iterable[Role]) -> str:
        """The entry's lines for some objects; an object may be called like a name that the lines bind themselves."""
        roles = list(roles)
        code = as_code_for(entry, workload, roles)
        shared = {role.name.partition(".")[0] for role in roles} & set(_Written(code).meanings)
        if shared:
            namespace = {f"{name}{_THEIRS}": workload.namespace.get(name) for name in shared}
            roles = [replace(role, name=_other_root(role.name, shared)) for role in roles]
            moved = replace(workload, namespace={**workload.namespace, **namespace})
            code = as_code_for(entry, moved, roles)
        return re.sub(rf"\b(\w+){_THEIRS}\b", r"\1", self.used_in(code)) if shared else self.used_in(code)

    def used_in(self, code: str, users: Collection[str] = ()) -> str:
        """The code with private names, and without definitions that its other lines do not need; `users` stay.

        It is empty where only definitions would be left: they do nothing.
        """
        import libcst as cst

        if reads_torch(code) and "torch" not in imported_names(code):
            code = f"import torch\n{code}"
        written = _Written(code)
        if not written.module.body:
            return code
        needed = written.needed(users)
        if not needed:
            return ""
        names = {
            name: self._private(name, meaning)
            for name, meaning in written.meanings.items()
            if name not in users
        }
        if self._replaced & set(written.builtins.values()) and not users:
            names["builtins"] = self._private("builtins", "import builtins")
            head = f"import builtins as {names['builtins']}\n"
        else:
            head = ""
            written.builtins.clear()
        edited = written.module.visit(_transformer(written, needed, names, self._replaced))
        assert isinstance(edited, cst.Module)
        return (head + edited.code).strip("\n")

    def _private(self, name: str, meaning: str) -> str:
        """Its private name; another one where the name stands for something else in other lines."""
        if name == "torch" and self.has_torch:
            return name
        known = self._given.setdefault(name, [])
        for theirs, private in known:
            if theirs == meaning:
                return private
        plain = private = f"_{name.lstrip('_')}"
        number = 1
        while private in self._taken:
            number += 1
            private = f"{plain}_{number}"
        self._taken.add(private)
        known.append((meaning, private))
        return private


class _Written:
    """Code as a tree: what its statements bind at the top, and which of them read it."""

    def __init__(self, code: str) -> None:
        import libcst as cst
        from libcst.metadata import MetadataWrapper, ScopeProvider

        wrapper = MetadataWrapper(cst.parse_module(code + "\n"))
        self.module = wrapper.module
        self.names: dict[cst.CSTNode, str] = {}  # each node of a name that the code binds
        self.builtins: dict[cst.CSTNode, str] = {}
        self.meanings: dict[str, str] = {}  # a definition by its text; empty for what is only assigned
        self._binds: dict[str, set[cst.CSTNode]] = {}  # name → top statements
        self._reads: dict[cst.CSTNode, set[str]] = {}
        if not self.module.body:
            return
        self._top = {node: statement for statement in self.module.body for node in _walk(statement)}
        scope = wrapper.resolve(ScopeProvider)[self.module]
        assert scope is not None
        for assignment in scope.assignments:
            self._note(assignment)
        for assignment in scope.parent.assignments:  # torn from the module's: those are Python's own names
            for access in assignment.references:
                self.builtins[access.node] = assignment.name

    def _note(self, assignment: Any) -> None:
        import libcst as cst

        node, name = assignment.node, assignment.name.partition(".")[0]
        top = self._top[node]
        self._binds.setdefault(name, set()).add(top)
        is_function = isinstance(node, (cst.FunctionDef, cst.ClassDef))
        is_import = isinstance(node, (cst.Import, cst.ImportFrom))
        text = self.module.code_for_node(node).strip() if is_function or is_import else ""
        self.meanings[name] = max(text, self.meanings.get(name, ""))
        if is_function:
            self.names[node.name] = name
        elif not is_import:
            self.names[node] = name
        for access in assignment.references:
            read = access.node
            while isinstance(read, cst.Attribute):
                read = read.value
            self.names[read] = name
            self._reads.setdefault(self._top[read], set()).add(name)

    def needed(self, users: Collection[str]) -> set[cst.CSTNode]:
        """The statements that do something, or define what one of these needs; empty where none does anything."""
        removable = {
            top for name, tops in self._binds.items() if name not in users for top in tops if _only_binds(top)
        }
        found: set[cst.CSTNode] = set()
        waiting: list[cst.CSTNode] = [top for top in self.module.body if top not in removable]
        while waiting:
            top = waiting.pop()
            if top not in found:
                found.add(top)
                waiting += [each for name in self._reads.get(top, ()) for each in self._binds[name]]
        return found

    def read_by(self, tops: set[cst.CSTNode]) -> set[str]:
        """The names that these statements read."""
        return {name for top in tops for name in self._reads.get(top, ())}


def _other_root(name: str, shared: set[str]) -> str:
    root, dot, rest = name.partition(".")
    return f"{root}{_THEIRS}{dot}{rest}" if root in shared else name


def _only_binds(top: cst.CSTNode) -> bool:
    """Whether a statement only defines, imports or names something."""
    import libcst as cst

    if isinstance(top, (cst.FunctionDef, cst.ClassDef)):
        return True
    if not isinstance(top, cst.SimpleStatementLine):
        return False
    return all(
        isinstance(small, (cst.Import, cst.ImportFrom))
        or (
            isinstance(small, cst.Assign) and all(isinstance(each.target, cst.Name) for each in small.targets)
        )
        for small in top.body
    )


def _transformer(
    written: _Written, needed: set[cst.CSTNode], names: Mapping[str, str], replaced: set[str]
) -> cst.CSTTransformer:
    """Made in a function because libcst is imported only for an export."""
    import libcst as cst

    read = written.read_by(needed)

    class Rename(cst.CSTTransformer):
        def on_leave(self, original_node: Any, updated_node: Any) -> Any:
            if original_node in tops and original_node not in needed:
                return cst.RemoveFromParent()
            if isinstance(original_node, cst.Name):
                return self.renamed(original_node, updated_node)
            if isinstance(original_node, (cst.Import, cst.ImportFrom)) and original_node in at_top:
                return self.imports(updated_node)
            return updated_node

        def renamed(self, original: cst.Name, updated: cst.Name) -> cst.Name | cst.Attribute:
            if original in written.names:
                return updated.with_changes(value=names.get(original.value, original.value))
            if written.builtins.get(original) in replaced - {"super"}:  # Python looks for that very name
                return cst.Attribute(cst.Name(names["builtins"]), updated)
            return updated

        def imports(self, statement: Any) -> Any:
            kept = [each for each in statement.names if _bound_by(each) in read]
            kept = [_renamed_import(each, names[_bound_by(each)]) for each in kept]
            if not kept:
                return cst.RemoveFromParent()
            return statement.with_changes(
                names=[*kept[:-1], kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)]
            )

    tops = set(written.module.body)
    at_top = {
        small for top in written.module.body if isinstance(top, cst.SimpleStatementLine) for small in top.body
    }
    return Rename()


def _bound_by(alias: cst.ImportAlias) -> str:
    return (alias.evaluated_alias or alias.evaluated_name).partition(".")[0]


def _renamed_import(alias: cst.ImportAlias, name: str) -> cst.ImportAlias:
    import libcst as cst

    if alias.asname is None and name == alias.evaluated_name.partition(".")[0]:
        return alias
    return alias.with_changes(asname=cst.AsName(cst.Name(name)))


def _walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from _walk(child)


def _means_torch(tree: CellTree, namespace: Mapping[str, Any]) -> bool:
    """Whether the name `torch` is free for torch, or stands for it, in the notebook and everywhere in the cell."""
    import libcst as cst

    held = namespace.get("torch")
    if held is not None and not (isinstance(held, ModuleType) and held.__name__ == "torch"):
        return False
    return all(
        isinstance(use.statement, cst.Import) and isinstance(tree.parents[use.node], cst.ImportAlias)
        for use in tree.of("torch")
        if use.kind == "binds"
    )
