"""The variable that `-o NAME` puts a result into: one of the user's own is never replaced."""

from __future__ import annotations

import ast
import builtins
import keyword
from collections.abc import Mapping

from accel.errors import AccelError
from accel.workload.cell_names import names_read, names_written

OURS = ("accel", "accel_widgets")
LABS = "accel.labs"  # what is made there is the user's: a model, a data set


def check_result_name(name: str | None, namespace: Mapping[str, object], cell: str = "") -> None:
    """Refuse a name that holds something other than a former result, or that the cell, as Python, itself uses.

    >>> check_result_name("result", {"model": model})
    """
    if name is None:
        return
    if not name.isidentifier() or keyword.iskeyword(name) or hasattr(builtins, name):
        raise _refused(name, "it is not a name for a variable")
    if name in namespace and not _is_result(namespace[name]):
        raise _refused(
            name, f"{name} is a variable of yours, and its {type(namespace[name]).__name__} would be lost"
        )
    if _uses(cell, name):
        raise _refused(name, f"the cell itself uses {name}")


def _uses(cell: str, name: str) -> bool:
    nodes = ast.walk(ast.parse(cell))
    in_functions = any(isinstance(node, ast.Global) and name in node.names for node in nodes)
    return in_functions or name in names_written(cell) or name in names_read(cell, {name: None})


def _is_result(value: object) -> bool:
    home = type(value).__module__
    return value is None or (home.partition(".")[0] in OURS and not f"{home}.".startswith(f"{LABS}."))


def _refused(name: str, because: str) -> AccelError:
    free = "result" if name != "result" else "my_result"
    return AccelError(f"-o {name}", because=because, do=f"Use another name, for example -o {free}.")
