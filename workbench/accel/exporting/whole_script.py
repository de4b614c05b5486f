"""A notebook's training as one file of plain PyTorch: the earlier cells that it needs, and the cell itself."""

from __future__ import annotations

import ast
import builtins
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from accel.errors import AccelError
from accel.exporting.cell_statements import Statement, parsed, statements_of
from accel.exporting.magic_lines import MagicLines
from accel.exporting.shared_parts import Parts
from accel.workload.cell_names import names_by_text
from accel.workload.library_changes import INPUTS, is_of_library, owner_at

_WRAPPING = ("time", "capture", "prun", "accel")  # cell magics that run their cell
_RUNNING = ("time", "prun")  # line magics that run their line
_SHELL = "get_ipython"
# Names that a notebook has without a cell, and what a program does in their place.
_STAND_INS = {
    "display": (
        "def display(*shown, display_id=None, **options):  # a notebook shows what a program prints\n    print(*shown)\n"
        "    return display if display_id else None\n\ndisplay.update = display.display = display"
    ),
    _SHELL: f"def {_SHELL}():\n    return None  # as outside of a notebook",
    "__file__": "",
}
_PLAIN_VALUES = (
    ModuleType,
    type,
    FunctionType,
    BuiltinFunctionType,
    str,
    bytes,
    int,
    float,
    complex,
    type(None),
)


@dataclass(frozen=True)
class EarlierCells:
    """The cells that a training needs, in the order in which they ran, and what of the notebook was left out."""

    cells: tuple[str, ...]
    left_out: int = 0
    touching: tuple[
        str, ...
    ] = ()  # first lines of left-out cells that train or change the training's objects


def inputs_of(namespace: Mapping[str, Any]) -> list[str]:
    """What was run in the notebook so far, the cell that runs now left out; raises AccelError outside of one.

    >>> inputs_of(get_ipython().user_ns)[0]
    'import torch'
    """
    found = namespace.get(INPUTS)
    if not isinstance(found, list):
        raise AccelError(
            "Writing a whole script", because="only a notebook remembers the cells that made the training's objects",
            do="Export from the notebook; or put the code of %accel export --to cell into your script.",
        )  # fmt: skip
    return [str(text) for text in found[1:-1]]  # the list begins with an empty text


def needed_cells(
    inputs: Sequence[str], cell: str, namespace: Mapping[str, Any], *, code: str = ""
) -> EarlierCells:
    """Those that make, or may change, what the cell reads, or a later one of them; `code` takes the cell's place in the program.

    >>> needed_cells(["x = 1", "print('hello')", "y = x + 1"], "z = y", vars()).cells
    ('x = 1', 'y = x + 1')

    A cell that trained objects before is left out and named: the script trains from the beginning. Raises AccelError for a name
    that no cell binds.
    """
    history = [without_magics(_under_magics(text)) for text in inputs]
    wanted = without_magics(cell).strip()
    runs = [number for number, text in enumerate(history) if text.strip() == wanted]
    earlier = [text for text in history[: runs[-1] if runs else None] if text.strip() != wanted]
    program = _Program([*earlier, without_magics(code or cell)], namespace)
    program.complete()
    if missing := sorted(program.missing - program.imports.keys()):
        raise AccelError(
            "Writing a whole script", because=f"no cell of this notebook defines {', '.join(missing)}",
            do="Define what is missing in a cell: accel does not see what %run, a startup file or an IPython line defines.",
        )  # fmt: skip
    taken = [text for number, text in enumerate(earlier) if number in program.cells]
    others = [text for number, text in enumerate(earlier) if number not in program.cells and text.strip()]
    head = [*program.stand_ins, *program.imports.values()]
    return EarlierCells((*head, *taken), len(others), tuple(program.touching))


class _Program:
    """Which cells are in it. The last of the given ones is the training's own."""

    def __init__(self, cells: Sequence[str], namespace: Mapping[str, Any]) -> None:
        self._texts, self._namespace, self._last = cells, namespace, len(cells) - 1
        self._statements = statements_of(cells)
        self._of_cell: dict[int, list[tuple[int, Statement]]] = {number: [] for number in range(len(cells))}
        self._binding: dict[str, list[int]] = {}
        for place, one in enumerate(self._statements):
            self._of_cell[one.cell].append((place, one))
            for name in one.binds | one.perhaps:
                self._binding.setdefault(name, []).append(place)
        self._trainers = {
            name for one in self._statements if one.is_definition and one.trains for name in one.binds
        }
        self._read = {name for one in self._statements for name in one.now | one.later}
        self._parts: dict[str, Parts] = {}
        self.cells: set[int] = set()
        self.missing: set[str] = set()
        self.imports: dict[str, str] = {}
        self._stand_ins: set[str] = set()
        self._seen: set[tuple[str, int]] = set()
        self._providers: set[tuple[str, int]] = set()

    def complete(self) -> None:
        """Take the training, then all that it needs, and all that may have changed what is needed."""
        self._take(self._last)
        while more := [number for number in range(self._last) if self._belongs(number)]:
            self._take(more[-1])

    @property
    def stand_ins(self) -> list[str]:
        """Lines for what the program reads that every notebook has, and no program."""
        return [line for name, line in _STAND_INS.items() if name in self._stand_ins and line]

    @property
    def touching(self) -> list[str]:
        """First lines of cells that are left out although they train or change the program's objects."""
        others = [number for number in range(self._last) if number not in self.cells]
        return [self._texts[number].strip().splitlines()[0] for number in others if self._changes(number)]

    def _take(self, cell: int) -> None:
        self.cells.add(cell)
        for place, one in self._of_cell[cell]:
            for name in one.now:
                self._need(name, place)
            if cell == self._last and not one.is_definition:
                for name in one.later:
                    self._need(name, len(self._statements))

    def _need(self, name: str, place: int) -> None:
        """A name is read there: what binds it before, else after, as for a function that is called later."""
        waiting = [(name, place)]
        while waiting:
            name, place = waiting.pop()
            if (name, place) in self._seen:
                continue
            self._seen.add((name, place))
            provider = self._provider(name, place)
            if provider is None:
                self._from_elsewhere(name)
                continue
            self._providers.add((name, provider))
            one = self._statements[provider]
            if one.cell not in self.cells:
                self._take(one.cell)
            waiting += [(each, at) for each in one.later for at in (place, len(self._statements))]
            if name not in one.binds:  # perhaps another one does
                waiting += [(name, each) for each in [provider] if self._binding[name][0] < provider]

    def _need_by_text(self, name: str) -> None:
        """Code may look this name up by text: add the cell that binds it, if that cell holds only definitions and imports."""
        end = len(self._statements)
        provider = self._provider(name, end)
        own = [] if provider is None else self._of_cell[self._statements[provider].cell]
        if own and all(one.is_definition or one.modules for _, one in own):
            self._need(name, end)

    def _provider(self, name: str, place: int) -> int | None:
        binding = self._binding.get(name, [])
        before = [each for each in binding if each < place]
        return before[-1] if before else next(iter(binding), None)

    def _from_elsewhere(self, name: str) -> None:
        value = self._namespace.get(name)
        if name in _STAND_INS:
            self._stand_ins.add(name)
        elif (
            hasattr(builtins, name) or name not in self._namespace
        ):  # a program has it, or the notebook lacks it
            for each in names_by_text(name, self._namespace):
                self._need_by_text(each)
        elif isinstance(value, ModuleType):
            whole = f"import {value.__name__}"
            self.imports[name] = whole if value.__name__ == name else f"{whole} as {name}"
        elif module := _home(name, value):
            self.imports[name] = f"from {module} import {name}"
        else:
            self.missing.add(name)

    def _belongs(self, cell: int) -> bool:
        """Whether a cell that is not taken may have changed what is, or sets how all else computes; and does not train."""
        if cell in self.cells or self._needs_training(cell):
            return False
        own = [one for _, one in self._of_cell[cell] if not one.is_definition]
        if any(self._sets(one) or self._sets_module(one) or self._only_imports(one) for one in own):
            return not any(one.trains for one in own)
        return (self._changes(cell) or self._sets_parts(cell)) and not self._is_training(cell)

    def _needs_training(self, cell: int) -> bool:
        """Whether the cell reads the results of a training: this program's, or one in a cell that is left out."""
        for name, place in (
            (name, place) for place, one in self._of_cell[cell] if not one.is_definition for name in one.now
        ):
            provider = self._provider(name, place)
            of = cell if provider is None else self._statements[provider].cell
            if of != cell and (of == self._last or (of not in self.cells and self._is_training(of))):
                return True
        return False

    def _is_training(self, cell: int) -> bool:
        return any(self._trains(one) for _, one in self._of_cell[cell] if not one.is_definition)

    def _changes(self, cell: int) -> bool:
        return any(
            any(self._is_in_use(name, place) for name in one.changes)
            or any(
                self._is_in_use(name, place) and _draws(self._namespace.get(name))
                for name in one.goes_through
            )
            for place, one in self._of_cell[cell]
        )

    def _sets_parts(self, cell: int) -> bool:
        return any(
            self._adds_to(path, place) for place, one in self._of_cell[cell] for path in one.sets_parts_of
        )

    def _is_in_use(self, name: str, place: int) -> bool:
        """Whether `name` at `place` means an object of the program, or one that shares parts with such an object."""
        provider = self._provider(name, place)
        is_plain = isinstance(self._namespace.get(name), _PLAIN_VALUES)
        if provider is None or provider > place:  # here it is bound by nothing, or by an earlier run
            return False
        if (name, provider) in self._providers:
            return not is_plain
        if self._is_last(name, provider):
            return not is_plain and any(self._are_shared(name, each) for each in self._objects())
        holds = self._statements[provider].holds - {name}  # the notebook no longer holds that object
        return any(self._is_in_use(each, provider) for each in holds if provider < place)

    def _is_last(self, name: str, provider: int | None) -> bool:
        """Whether the notebook still holds what statement `provider` bound to `name`."""
        return name in self._namespace and provider is not None and provider == self._binding[name][-1]

    def _objects(self) -> Iterator[str]:
        """Names of the program's objects that the notebook still holds."""
        for name, provider in self._providers:
            if self._is_last(name, provider) and not isinstance(self._namespace[name], _PLAIN_VALUES):
                yield name

    def _are_shared(self, name: str, other: str) -> bool:
        for each in {name, other} - self._parts.keys():
            self._parts[each] = Parts(self._namespace[each])
        return self._parts[name].are_shared_with(self._parts[other])

    def _adds_to(self, path: tuple[str, ...], place: int) -> bool:
        """Whether `path` is in a library, whose code may read what is set there, or begins with a name that is in use."""
        return is_of_library(owner_at(path, self._namespace)) or (
            (path[0], self._provider(path[0], place)) in self._providers
        )

    def _trains(self, one: Statement) -> bool:
        classes = {type(self._namespace.get(name)).__name__ for name in one.now}
        return one.trains or bool(classes & self._trainers)

    def _sets(self, one: Statement) -> bool:
        """Whether it calls a function of settings, as `torch.manual_seed(0)` or `seed(0)`; methods of objects do not count."""
        return any(not root or isinstance(self._namespace.get(root), ModuleType) for root in one.sets)

    def _only_imports(self, one: Statement) -> bool:
        """Whether it imports a library whose name no code uses: the import itself may have an effect."""
        names = {module.partition(".")[0] for module in one.modules}
        return (
            bool(names)
            and not one.binds & self._read
            and any(
                name not in sys.stdlib_module_names and is_of_library(sys.modules.get(name)) for name in names
            )
        )

    def _sets_module(self, one: Statement) -> bool:
        """Whether it sets or calls something of Python itself, as `os.environ[…] = …` or `sys.path.append(…)`."""
        values = [self._namespace.get(name) for name in one.changes]
        modules = [value.__name__.partition(".")[0] for value in values if isinstance(value, ModuleType)]
        is_of_python = any(module in sys.stdlib_module_names for module in modules)
        return any(value is os.environ for value in values) or (is_of_python and not one.binds)


def _draws(value: object) -> bool:
    """Whether iterating over a value draws random numbers or exhausts the value: a loader, or an iterator."""
    return hasattr(type(value), "__next__") or "DataLoader" in (each.__name__ for each in type(value).__mro__)


def _home(name: str, value: object) -> str:
    """The module that gives this value under this name, of a library."""
    module = getattr(value, "__module__", None)
    is_there = isinstance(module, str) and getattr(sys.modules.get(module), name, None) is value
    return str(module) if is_there and module != "__main__" else ""


def _under_magics(text: str) -> str:
    """The code of a cell under %%time and its like, which IPython has turned into a call with a text."""
    body = parsed(text).body
    call = _shell_call(body[0]) if len(body) == 1 else None
    if call is not None and call[0] == "run_cell_magic" and len(call) == 4 and call[1] in _WRAPPING:
        return _under_magics(call[3])
    return text


def without_magics(text: str) -> str:
    """A cell without what only IPython understands, raw or as IPython has turned it into calls; nothing of what is no Python.

    >>> without_magics("%matplotlib inline\\n%time x = f()\\n!ls")
    'pass\\nx = f()\\npass'
    """
    try:
        compile(text, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
    except (SyntaxError, ValueError):
        aside = MagicLines.set_aside(text.split("\n", 1)[-1] if text.startswith("%%") else text)
        text = aside.python
        for name, line in aside.lines.items():
            word, _, rest = line.partition(" ")
            text = text.replace(name, rest if word.lstrip("%") in _RUNNING and word[0] == "%" else "pass")
    lines = text.splitlines()
    for node in ast.walk(parsed(text)):
        call = _shell_call(node)
        if call is not None and isinstance(node, ast.Expr):
            first, last = node.lineno - 1, node.end_lineno or node.lineno
            indent = lines[first][: node.col_offset]
            does = call[2] if call[0] == "run_line_magic" and call[1] in _RUNNING else "pass"
            lines[first:last] = [indent + does, *[""] * (last - first - 1)]
    for node in parsed("\n".join(lines)).body:
        if isinstance(node, ast.Pass):
            lines[node.lineno - 1] = ""
    return "\n".join(lines).strip("\n")


def _shell_call(node: ast.AST) -> list[str] | None:
    """What IPython is asked for by a statement, and the texts given along: ["run_line_magic", "time", "f()"]."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    of = call.func.value
    if not (isinstance(of, ast.Call) and isinstance(of.func, ast.Name) and of.func.id == _SHELL):
        return None
    return [call.func.attr, *(str(each.value) for each in call.args if isinstance(each, ast.Constant))]
