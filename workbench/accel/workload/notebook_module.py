"""What makes a worker look like the notebook: its `__main__` module, and its function `display`."""

from __future__ import annotations

import builtins
import functools
import importlib
import linecache
import sys
import types
from importlib.util import find_spec
from typing import Any


class NotebookModule(types.ModuleType):
    """`__main__` as the cell's own code expects it: pickling by reference finds the notebook's classes there."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        super().__init__("__main__")
        self.__dict__["_namespace"] = namespace

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_namespace"][name]
        except KeyError:
            raise AttributeError(name) from None


def give_display(namespace: dict[str, Any]) -> None:
    """Let cells call `display`, which prints here, and use its handles.

    >>> give_display(unpack(blob, memory))
    """
    vars(builtins).setdefault("display", _display)
    if "IPython" in sys.modules or (_names_ipython() and find_spec("IPython") is not None):
        _give_handles(namespace, importlib.import_module("IPython.core.display_functions"))


class _Shown:
    """The handle that `display(…, display_id=…)` returns in a worker."""

    def __init__(self, display_id: Any) -> None:
        self.display_id = display_id

    def update(self, *objects: Any, **options: Any) -> None:
        """Show nothing: a worker's output cannot be replaced."""

    display = update


def _display(*objects: Any, display_id: Any = None, **options: Any) -> _Shown | None:
    print(*objects)
    return _Shown(display_id) if display_id else None


def _names_ipython() -> bool:
    """Whether a cell of the notebook mentions IPython: then the running cell may import IPython later."""
    cells = (entry[2] for entry in linecache.cache.values() if len(entry) == 4 and entry[1] is None)
    return any("IPython" in line for lines in cells for line in lines)


def _give_handles(namespace: dict[str, Any], ipython: Any) -> None:
    """Replace IPython's `display`, which returns None outside a notebook, by one that returns a handle with `update`."""
    own = ipython.display
    if hasattr(own, "__wrapped__"):
        return

    @functools.wraps(own)
    def display(*objects: Any, display_id: Any = None, **options: Any) -> Any:
        given = own(*objects, display_id=display_id, **options)
        return _Shown(display_id) if given is None and display_id else given

    modules = [vars(module) for module in list(sys.modules.values()) if isinstance(module, types.ModuleType)]
    for variables in modules:
        if variables.get("display") is own:
            variables["display"] = display
    namespace.update({name: display for name, value in namespace.items() if value is own})
