"""Which names a cell reads before it writes them, and which it writes: what a copy needs to run elsewhere.

The cell's statements are walked in the order Python evaluates them. A function's or class's body counts where
its name is first used; functions and classes of earlier cells are followed into their code
(`namespace_reads.py`). When in doubt a name that exists in the namespace counts as read.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Iterable, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from accel.workload.namespace_reads import codes_behind, globals_read, nested_codes

_MODULE_NAMES = {
    "__name__",
    "__builtins__",
    "__builtin__",
    "__doc__",
    "__spec__",
    "__loader__",
    "__package__",
    "__annotations__",
}
_SHELL_NAMES = {
    "get_ipython",
    "In",
    "Out",
    "exit",
    "quit",
}  # IPython's own: they lead to every object there is
_SWALLOWING = ("suppress", "raises", "assertRaises")
_BY_TEXT = {"globals", "eval", "exec"}
_MEANT_BY_TEXT = (type, FunctionType, BuiltinFunctionType, ModuleType, str, int, float, type(None))


def names_read(source: str, namespace: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of `namespace` that the cell reads before it writes them, in order of first use.

    >>> names_read("y = x + 1; x = 2; print(y)", {"x": 1, "y": 5})
    ('x',)
    """
    walk = _Walk(namespace)
    walk.statements(_parsed(source))
    walk.names_by_text()
    return tuple(walk.reads)


def names_written(source: str) -> tuple[str, ...]:
    """Names the cell binds at its top level, in order; those of a comprehension are its own.

    >>> names_written("import numpy as np; a, b = 1, 2")
    ('np', 'a', 'b')
    """
    walk = _Walk({})
    walk.statements(_parsed(source))
    return tuple(walk.writes)


def names_bound(source: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names that a cell binds whatever happens, and all that it may bind, as under a condition or in a loop.

    >>> names_bound("x = 1\\nif x: y = 2")
    (('x',), ('x', 'y'))
    """
    walk = _Walk({})
    walk.statements(_parsed(source))
    return tuple(name for name in walk.writes if name in walk.bound), tuple(walk.writes)


def names_by_text(name: str, namespace: Mapping[str, Any]) -> tuple[str, ...]:
    """The definitions, modules and plain values that code may look up by text if it uses `name` (globals, eval or exec).

    >>> names_by_text("globals", {"Stop": type("Stop", (Exception,), {}), "weights": [1.0]})
    ('Stop',)
    """
    if name not in _BY_TEXT or name in namespace:
        return ()
    return tuple(
        each
        for each, value in namespace.items()
        if isinstance(value, _MEANT_BY_TEXT) and not each.startswith("_") and each not in _SHELL_NAMES
    )


class _Walk:
    """The state of the walk: names bound for sure so far, and code already followed under them."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self.namespace = namespace
        self.reads: dict[str, None] = {}
        self.writes: dict[str, None] = {}
        self.bound: set[str] = set()
        self.followed: set[object] = set()
        self.pending: dict[str, list[CodeType]] = {}  # bodies of the cell's own functions, by name
        self.demanded: set[str] = set()  # names used so far: a function bound to one later may run at once
        self.only_meant = False
        self.local: list[set[str]] = []  # targets of the comprehensions we are in

    def names_by_text(self) -> None:
        """Read the definitions, modules and plain values that the code may look up by text, but no data, which may be large."""
        self.only_meant = True
        for used in sorted(self.demanded & _BY_TEXT):
            for name in names_by_text(used, self.namespace):
                self.load(name)

    # Names ----------------------------------------------------------------------------------------------------

    def load(self, name: str) -> None:
        if any(name in scope for scope in self.local):
            return
        if self.only_meant and not isinstance(self.namespace.get(name), _MEANT_BY_TEXT):
            return
        self.demanded.add(name)
        if name not in self.bound and name in self.namespace and name not in _MODULE_NAMES:
            self.reads.setdefault(name)
            self.follow_value(name)
        for code in self.pending.get(name, ()):
            self.follow_code(code)

    def store(self, name: str) -> None:
        if self.local and any(name in scope for scope in self.local):
            return
        self.writes.setdefault(name)
        self.bound.add(name)

    def follow_value(self, name: str) -> None:
        value = self.namespace[name]
        if name in _SHELL_NAMES:
            return
        if name not in self.followed and getattr(builtins, name, None) is not value:
            self.followed.add(name)
            for code in codes_behind(value, self.namespace):
                self.follow_code(code)

    def follow_code(self, code: CodeType) -> None:
        if code not in self.followed:
            self.followed.add(code)
            for name in globals_read(code):
                self.load_global(name)

    def load_global(self, name: str) -> None:
        outer, self.local = self.local, []
        self.load(name)
        self.local = outer

    def define(self, name: str, bodies: Iterable[CodeType], *, runs_now: bool) -> None:
        """Bind a function or class: its bodies are read when its name is used, or now when a decorator may call it."""
        bodies = list(bodies)
        self.store(name)
        self.pending.setdefault(name, []).extend(bodies)
        if runs_now or name in self.demanded:
            for code in bodies:
                self.follow_code(code)

    # Branches -------------------------------------------------------------------------------------------------

    def branches(self, *bodies: Iterable[ast.stmt | ast.expr | None]) -> None:
        """Bodies of which one runs: each is walked from here, and what they all bind is bound."""
        bound, followed = self.bound, self.followed
        ends: list[tuple[set[str], set[object]]] = []
        for body in bodies:
            self.bound, self.followed = set(bound), set(followed)
            self.statements(body)
            ends.append((self.bound, self.followed))
        self.bound = set.intersection(*(end[0] for end in ends))
        self.followed = set.intersection(*(end[1] for end in ends))

    def perhaps(self, body: Iterable[ast.stmt | ast.expr | None]) -> None:
        self.branches(body, ())

    def statements(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def visit(self, node: ast.AST) -> None:
        """Walk one node; what has no rule of its own is walked in the order of its fields, as Python evaluates it."""
        rule = getattr(self, f"visit_{type(node).__name__}", None)
        if rule is not None:
            rule(node)
        else:
            self.statements(ast.iter_child_nodes(node))

    # Expressions ----------------------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.store(node.id)
        else:
            self.load(node.id)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.visit(node.target)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.visit(node.values[0])
        self.perhaps(node.values[1:])

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        self.branches([node.body], [node.orelse])

    def visit_Compare(self, node: ast.Compare) -> None:
        self.statements([node.left, node.comparators[0]])
        self.perhaps(node.comparators[1:])

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            self.statements([key, value])

    def visit_Call(self, node: ast.Call) -> None:
        self.visit(node.func)
        parts: list[ast.expr] = [*node.args, *(keyword.value for keyword in node.keywords)]
        parts.sort(key=lambda part: (part.lineno, part.col_offset))
        self.statements(parts)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.statements([*node.args.defaults, *node.args.kw_defaults])
        for code in _bodies(node):
            for name in globals_read(code):
                self.load(
                    name
                )  # not `follow_code`: inside a comprehension it sees the comprehension's own names

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        first, *others = node.generators
        self.visit(first.iter)
        self.local.append(
            {
                name.id
                for part in node.generators
                for name in ast.walk(part.target)
                if isinstance(name, ast.Name)
            }
        )
        inner: list[ast.AST] = [first.target, *first.ifs]
        for part in others:
            inner += [part.iter, part.target, *part.ifs]
        inner += [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self.perhaps(inner)  # type: ignore[arg-type]
        self.local.pop()

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    # Statements -----------------------------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if isinstance(node.value, ast.Lambda) and len(node.targets) == 1 and isinstance(target, ast.Name):
            self.statements([*node.value.args.defaults, *node.value.args.kw_defaults])
            self.define(target.id, _bodies(node.value), runs_now=False)
        else:
            self.statements([node.value, *node.targets])

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.load(node.target.id)
        self.statements([node.value, node.target])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.statements([node.value, node.annotation])
        if node.value is not None or not isinstance(node.target, ast.Name):
            self.visit(node.target)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self.perhaps([node.target, *node.body])
        self.perhaps(node.orelse)

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self.perhaps(node.body)
        self.perhaps(node.orelse)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self.branches(node.body, node.orelse)

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.statements([item.context_expr, item.optional_vars])
        if any(word in ast.unparse(item.context_expr) for item in node.items for word in _SWALLOWING):
            self.perhaps(node.body)
        else:
            self.statements(node.body)

    visit_AsyncWith = visit_With

    def visit_Try(self, node: ast.Try) -> None:
        handlers = [[handler.type, *_binding(handler.name), *handler.body] for handler in node.handlers]
        before, followed = set(self.bound), set(self.followed)
        self.branches([*node.body, *node.orelse], *handlers)
        after = self.bound
        # An exception may leave any of these early, so `finally` can count on nothing they bind.
        self.bound, self.followed = before, followed
        self.statements(node.finalbody)
        self.bound = self.bound | after

    visit_TryStar = visit_Try

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        for case in node.cases:
            self.perhaps([case.pattern, case.guard, *case.body])  # type: ignore[list-item]

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        self.statements([getattr(node, "pattern", None)])
        if node.name:
            self.store(node.name)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.statements([*node.keys, *node.patterns])
        if node.rest:
            self.store(node.rest)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name != "*":
                self.store(alias.asname or alias.name.split(".")[0])

    visit_ImportFrom = visit_Import

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = node.args
        self.statements([*node.decorator_list, *arguments.defaults, *arguments.kw_defaults])
        every = [
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        ]
        self.statements([argument.annotation for argument in every if argument is not None])
        self.statements([node.returns])
        self.define(node.name, _bodies(node), runs_now=bool(node.decorator_list))

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.statements([*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)])
        bodies = _bodies(node)
        for body in bodies:
            for name in globals_read(body, nested=False):
                self.load_global(name)
        methods = [method for body in bodies for method in nested_codes(body)]
        # A decorator, a metaclass or arguments to `__init_subclass__` may call methods while the class is made.
        self.define(node.name, methods, runs_now=bool(node.decorator_list or node.keywords))


def _binding(name: str | None) -> list[ast.Name]:
    return [ast.Name(name, ast.Store())] if name else []


def _bodies(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda) -> list[CodeType]:
    """The code of a function, lambda or class, compiled but not run; its decorators and bases are the caller's."""
    bare = copy.copy(node)
    for outside in ("decorator_list", "bases", "keywords", "type_params"):
        if hasattr(bare, outside):
            setattr(bare, outside, [])
    statement = ast.copy_location(ast.Expr(bare), node) if isinstance(bare, ast.Lambda) else bare
    return nested_codes(compile(ast.Module([statement], []), "<names>", "exec"))


def _parsed(source: str) -> list[ast.stmt]:
    """The statements of a cell; none when it does not compile: whoever runs it raises the SyntaxError."""
    try:
        compile(source, "<names>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        return ast.parse(source).body
    except (SyntaxError, ValueError):
        return []
