"""A notebook's training as one file of plain PyTorch: the earlier cells that it needs, and the cell itself."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from accel.errors import AccelError
from accel.workload.cell_names import names_read, names_written

INPUTS = "_ih"  # IPython's list of what was run, as Python
_TRAINS = {"backward", "step"}  # an earlier run of a training changes what the script trains anew
_WRAPPING = ("time", "capture", "prun", "accel")  # cell magics that run their cell
_SETTINGS = {  # calls that change how all else computes: a cell with one belongs to the training
    "manual_seed", "seed", "set_num_threads", "set_default_dtype", "set_float32_matmul_precision", "use_deterministic_algorithms",
}  # fmt: skip


@dataclass(frozen=True)
class EarlierCells:
    """The cells that a training needs, in the order in which they ran, and what of the notebook was left out."""

    cells: tuple[str, ...]
    left_out: int = 0
    touching: tuple[str, ...] = ()  # first lines of cells left out that use objects which the training needs


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


def needed_cells(inputs: Sequence[str], cell: str, namespace: Mapping[str, Any]) -> EarlierCells:
    """Those that bind a name which the cell, or a later one of them, reads; the last of several that bind the same.

    >>> needed_cells(["x = 1", "print('hello')", "y = x + 1"], "z = y", vars()).cells
    ('x = 1', 'y = x + 1')

    A cell that only changes an object, as one that trained it before, is left out and named: the script trains from the
    beginning. Raises AccelError for a name that no cell binds.
    """
    needed = set(names_read(cell, namespace))
    taken: list[str] = []
    left_out: list[str] = []
    for text in reversed(inputs):
        code = _without_shell(_under_magics(text), cell)
        written = set(names_written(code)) if code.strip() else set()
        if needed & written or _SETTINGS & _attributes_in(code):
            taken.append(code)
            needed = (needed - written) | _names_in(code, namespace)
        elif code.strip():
            left_out.append(code)
    modules = {
        name: module.__name__ for name in sorted(needed) if isinstance(module := namespace[name], ModuleType)
    }
    taken += [
        f"import {module}" if module == name else f"import {module} as {name}"
        for name, module in modules.items()
    ]
    if missing := sorted(needed - modules.keys() - set(names_written(cell))):
        raise AccelError(
            "Writing a whole script", because=f"no cell of this notebook makes {', '.join(missing)}",
            do="Make them in a cell: what %run or a startup file made is not seen.",
        )  # fmt: skip
    everything = {name for code in (*taken, cell) for name in _names_in(code, namespace)}
    objects = {
        name for name in everything if not isinstance(namespace[name], (ModuleType, type, FunctionType))
    }
    used = [
        code
        for code in reversed(left_out)
        if objects & _names_in(code, namespace) and not _TRAINS & _attributes_in(code)
    ]
    touching = [code.strip().splitlines()[0] for code in used]
    return EarlierCells(tuple(reversed(taken)), len(left_out), tuple(touching))


def _attributes_in(code: str) -> set[str]:
    return {each.attr for each in ast.walk(_parsed(code)) if isinstance(each, ast.Attribute)}


def _parsed(code: str) -> ast.Module:
    try:
        return ast.parse(code)
    except SyntaxError:
        return ast.Module([], [])


def _under_magics(text: str) -> str:
    """The code of a cell under %%time and its like, which IPython has turned into a call with a text."""
    body = _parsed(text).body
    call = body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else None
    if (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "run_cell_magic"
    ):
        words = [each.value for each in call.args if isinstance(each, ast.Constant)]
        if len(words) == 3 and words[0] in _WRAPPING:
            return _under_magics(str(words[2]))
    return text


def _names_in(code: str, namespace: Mapping[str, Any]) -> set[str]:
    """What it reads of the notebook, in the bodies of its functions too: they run later."""
    loaded = {
        each.id
        for each in ast.walk(_parsed(code))
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    }
    return (loaded & namespace.keys()) - (set(names_written(code)) - set(names_read(code, namespace)))


def _without_shell(text: str, cell: str) -> str:
    """A cell without lines for IPython, which has turned them into calls; nothing of what is no Python or the training."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ""
    lines = text.splitlines()
    for node in tree.body:
        if _calls_shell(node):
            lines[node.lineno - 1 : node.end_lineno] = [""] * (
                (node.end_lineno or node.lineno) - node.lineno + 1
            )
    code = "\n".join(lines).strip("\n")
    return "" if code.strip() == cell.strip() else code


def _calls_shell(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "get_ipython" for each in ast.walk(node))
