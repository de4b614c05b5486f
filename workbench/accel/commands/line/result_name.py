"""The variable that `-o NAME` puts a result into: one of the user's own is never replaced."""

from __future__ import annotations

import ast
import builtins
import keyword
import weakref
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from accel.errors import AccelError
from accel.workload.cell_names import names_read, names_written

_put: dict[str, weakref.ref[Any]] = {}  # names that `-o` gave, each with the result it put there


def check_result_name(name: str | None, namespace: Mapping[str, object], cell: str = "") -> None:
    """Refuse a name that holds something other than a former result, or that the cell, as Python, itself uses.

    >>> check_result_name("result", {"model": model})
    """
    if name is None:
        return
    if not name.isidentifier() or keyword.iskeyword(name) or hasattr(builtins, name):
        raise _refused(name, "it is not a name for a variable")
    value = namespace.get(name)
    if value is not None and _put.get(name, lambda: None)() is not value:
        raise _refused(name, f"{name} is a variable of yours, and its {type(value).__name__} would be lost")
    if _uses(cell, name):
        raise _refused(name, f"the cell itself uses {name}")


def put_result(name: str, namespace: MutableMapping[str, object], result: object) -> None:
    """Bind the name; the next `-o` of that name may replace what stands there then, and nothing else.

    >>> put_result("result", namespace, ladder)
    """
    namespace[name] = result
    with suppress(TypeError):  # what cannot be referred to weakly is left as it is from then on
        _put[name] = weakref.ref(result)


def _uses(cell: str, name: str) -> bool:
    nodes = ast.walk(ast.parse(cell))
    in_functions = any(isinstance(node, ast.Global) and name in node.names for node in nodes)
    return in_functions or name in names_written(cell) or name in names_read(cell, {name: None})


def _refused(name: str, because: str) -> AccelError:
    free = "result" if name != "result" else "my_result"
    return AccelError(f"-o {name}", because=because, do=f"Use another name, for example -o {free}.")
