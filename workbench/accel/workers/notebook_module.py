"""`__main__` in a worker: what the notebook's own code finds there."""

from __future__ import annotations

import types
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
